#ifndef CALLBOARD_TESTS_SIMULATION_SCHEDULER_SIMULATED_DIRECTOR_H_
#define CALLBOARD_TESTS_SIMULATION_SCHEDULER_SIMULATED_DIRECTOR_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/core/job.h"
#include "libs/scheduler/director_link.h"
#include "libs/testing/engine_fixture.h"
#include "libs/testing/fake_environment.h"
#include "tests/simulation/scheduler/referee.h"
#include "tests/simulation/scheduler/settings.h"
#include "tests/simulation/timeline.h"

namespace callboard::simulation::cron {

// The director that the schedulers submit to: the real engine with one agent that runs everything,
// behind a network that loses and delays messages.
class SimulatedDirector {
 public:
  using Reply = std::function<void(absl::StatusOr<scheduler::AcceptedTask>)>;

  SimulatedDirector(const Settings& settings, Timeline& timeline, test::FakeRandom& random);

  absl::Time now() {
    Sync();
    return engine_.now().wall;
  }
  const SubmittedTasks& submitted_tasks() const { return submitted_; }
  const std::string& failure() const { return failure_; }

  void Submit(int replica, const core::JobSubmission& submission, const Reply& reply);
  void FindTask(const std::string& request_id, const Reply& reply);
  void GetTaskStatuses(
      const std::vector<std::string>& ids,
      const scheduler::DirectorLink::Reply<std::vector<scheduler::TaskStatus>>& reply);
  void StartDirect(int replica, const std::string& request_id, const Reply& reply);

  // Submits a task of another caller.
  void SubmitOther();
  // Makes the director unreachable for a while: it does not answer, or refuses connections.
  void GoAway(absl::Duration time);
  // The time since which every call is answered; infinite while the director is away.
  absl::Duration serves_since() const { return is_up_ ? serves_since_ : absl::InfiniteDuration(); }
  void Drain(absl::Duration time);
  void Heal();

 private:
  void Sync();
  void ComeBack();
  absl::StatusOr<scheduler::AcceptedTask> Accept(int replica,
                                                 const core::JobSubmission& submission);
  absl::StatusOr<scheduler::AcceptedTask> Find(const std::string& request_id);
  // Carries a call over the network, which may lose or delay it or its answer.
  void Carry(std::function<absl::StatusOr<scheduler::AcceptedTask>()> call, const Reply& reply);
  void RunTasks();
  void EndRun(core::FenceToken token);
  bool Chance(double probability) { return !quiet_ && random_.Chance(probability); }

  const Settings& settings_;
  Timeline& timeline_;
  test::FakeRandom& random_;
  test::EngineFixture engine_;
  absl::Duration synced_at_;
  SubmittedTasks submitted_;
  std::string failure_;
  bool quiet_ = false;
  bool is_up_ = true;
  bool is_silent_ = false;
  absl::Duration serves_since_;
};

}  // namespace callboard::simulation::cron

#endif  // CALLBOARD_TESTS_SIMULATION_SCHEDULER_SIMULATED_DIRECTOR_H_
