#ifndef CALLBOARD_TESTS_SIMULATION_SCHEDULER_WORLD_H_
#define CALLBOARD_TESTS_SIMULATION_SCHEDULER_WORLD_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/ports/environment.h"
#include "libs/scheduler/scheduler.h"
#include "libs/testing/engine_fixture.h"
#include "libs/testing/fake_environment.h"
#include "libs/testing/memory_ledger.h"
#include "tests/simulation/scheduler/referee.h"
#include "tests/simulation/scheduler/settings.h"
#include "tests/simulation/timeline.h"

namespace callboard::simulation::cron {

class Replica;

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

  void Submit(int replica, const core::Submission& submission, const Reply& reply);
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
  absl::StatusOr<scheduler::AcceptedTask> Accept(int replica, core::Submission submission);
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

// One scheduler replica: the real Scheduler with a simulated disk, clock and process.
class Replica final : public scheduler::DirectorLink, public ports::Clock {
 public:
  Replica(int number, const Settings& settings, Timeline& timeline, test::FakeRandom& random,
          SimulatedDirector& director);

  void Start();
  void Die();
  bool is_up() const { return scheduler_ != nullptr; }
  // Changes the jobs file. The process reads it once it has been up for a turn.
  void SetJobs(std::vector<core::Job> jobs);
  void JumpClock(absl::Duration by);
  void SetWall(absl::Time wall) { wall_start_ = wall - timeline_.now(); }
  void Post(scheduler::Command call);
  void Trigger(const scheduler::TriggerQuery& query);
  void Heal() { quiet_ = true; }
  void End() { referee_.OnEnd(ledgers_, WallNow()); }

  Referee& referee() { return referee_; }
  uint64_t starts() const { return incarnation_; }

  absl::Time WallNow() const override { return wall_start_ + timeline_.now() + jumped_; }
  absl::Duration MonotonicNow() const override { return timeline_.now(); }

  void Submit(const core::Submission& submission, Reply<scheduler::AcceptedTask> reply) override;
  void GetTaskStatuses(std::vector<std::string> queue_ids,
                       Reply<std::vector<scheduler::TaskStatus>> reply) override;
  void StartDirect(const std::string& agent_url, const core::Submission& submission,
                   Reply<scheduler::AcceptedTask> reply) override;

 private:
  test::MemoryLedgers::CommitResult DecideCommit(absl::Span<const scheduler::LedgerChange> batch);
  void PlanTurn(absl::Duration delay);
  void RunTurn();
  // Returns whether a call is sent; the process may die instead.
  bool MayCall();
  // Checks that the replica notices a serving director in time.
  void CheckLink();

  const int number_;
  const Settings& settings_;
  Timeline& timeline_;
  test::FakeRandom& random_;
  SimulatedDirector& director_;
  Referee referee_;
  test::MemoryLedgers ledgers_;
  std::unique_ptr<scheduler::Scheduler> scheduler_;
  std::vector<scheduler::Command> inbox_;
  // The jobs in use, also after a restart; and a newer content of the file.
  std::vector<core::Job> jobs_;
  std::optional<std::vector<core::Job>> next_jobs_;
  bool has_jobs_ = false;
  absl::Time wall_start_;
  absl::Duration jumped_;
  // Number of starts. Messages to an earlier process are lost.
  uint64_t incarnation_ = 0;
  // The time since which it reports the director as unreachable; infinite while it does not.
  absl::Duration unreachable_since_ = absl::InfiniteDuration();
  // Number of the planned turn; earlier plans are void.
  uint64_t planned_ = 0;
  bool dying_ = false;
  bool quiet_ = false;
  // True during a turn without faults.
  bool no_faults_ = false;
};

// The summary of a simulation.
struct Report {
  std::string failure = {};
  // Equal for two simulations with the same seed.
  uint64_t hash = 0;
  uint64_t rows = 0;
  uint64_t tasks = 0;
  uint64_t crashes = 0;
  absl::Duration time = {};

  void Add(const Report& other);
  std::string Counts() const;
};

// Runs the simulation of a seed: first with all faults that its settings allow, then without faults
// until all occurrences are decided. Stops at the first violation.
Report Simulate(uint64_t seed);

std::string ReplayHint(uint64_t seed);

}  // namespace callboard::simulation::cron

#endif  // CALLBOARD_TESTS_SIMULATION_SCHEDULER_WORLD_H_
