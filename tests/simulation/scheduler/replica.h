#ifndef CALLBOARD_TESTS_SIMULATION_SCHEDULER_REPLICA_H_
#define CALLBOARD_TESTS_SIMULATION_SCHEDULER_REPLICA_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "libs/ports/environment.h"
#include "libs/scheduler/scheduler.h"
#include "libs/testing/fake_environment.h"
#include "libs/testing/memory_ledger.h"
#include "tests/simulation/scheduler/referee.h"
#include "tests/simulation/scheduler/settings.h"
#include "tests/simulation/scheduler/simulated_director.h"
#include "tests/simulation/timeline.h"

namespace callboard::simulation::cron {

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

  void Submit(const core::JobSubmission& submission, Reply<scheduler::AcceptedTask> reply) override;
  void FindTask(const std::string& request_id, Reply<scheduler::AcceptedTask> reply) override;
  void GetTaskStatuses(std::vector<std::string> queue_ids,
                       Reply<std::vector<scheduler::TaskStatus>> reply) override;
  void StartDirect(const std::string& agent_url, const core::JobSubmission& submission,
                   Reply<scheduler::AcceptedTask> reply) override;

 private:
  test::MemoryLedgers::CommitResult DecideCommit(absl::Span<const scheduler::LedgerChange> batch);
  void PlanTurn(absl::Duration delay);
  void RunTurn();
  // Returns whether a call is sent; the process may die instead.
  bool MayCall();
  // Returns a reply that also tells the referee.
  SimulatedDirector::Reply ReportAnswer(const std::string& request_id,
                                        Reply<scheduler::AcceptedTask> reply);
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

}  // namespace callboard::simulation::cron

#endif  // CALLBOARD_TESTS_SIMULATION_SCHEDULER_REPLICA_H_
