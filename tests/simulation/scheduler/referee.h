#ifndef CALLBOARD_TESTS_SIMULATION_SCHEDULER_REFEREE_H_
#define CALLBOARD_TESTS_SIMULATION_SCHEDULER_REFEREE_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "libs/core/firing.h"
#include "libs/core/job.h"
#include "libs/core/moment.h"
#include "libs/scheduler/ledger.h"
#include "libs/testing/memory_ledger.h"

namespace callboard::simulation::cron {

// Which occurrences have which tasks, whoever says otherwise.
struct Truth {
  // The task of a request id, and the replica whose submit made it.
  struct Made {
    std::string queue_id;
    int replica;
  };
  std::map<std::string, Made> tasks;
  // Request ids of what replicas started on the agent.
  std::set<std::pair<int, std::string>> direct;
};

// Holds one replica of the scheduler to its promises. Believes what is on its disk, what the
// director has, and what the jobs file said, and nothing else.
class Referee {
 public:
  Referee(int replica, const Truth& truth) : replica_(replica), truth_(truth) {}

  // The first broken promise; empty when all were kept.
  const std::string& failure() const { return failure_; }
  uint64_t rows() const { return rows_; }
  uint64_t hash() const { return hash_; }

  // A turn at this time of its clock is on disk.
  void OnTurn(absl::Time now);
  // It uses these jobs from now on.
  void OnJobs(const std::vector<core::Job>& jobs, absl::Time now);
  // A batch is about to be on disk.
  void OnBatch(absl::Span<const scheduler::LedgerChange> batch, const test::MemoryLedgers& disk,
               absl::Time now);
  // An occurrence, or what it was made of, is about to be submitted.
  void OnSubmit(const core::Submission& submission, const test::MemoryLedgers& disk,
                absl::Duration now);
  // How the director answered it.
  void OnAnswer(const core::Submission& submission, const absl::Status& status, core::Moment now);
  // The director does not do what it was asked: nothing is asked of it for a while.
  void OnTrouble() { full_.clear(); }
  void OnClockJump() { full_.clear(); }
  // Nothing is known any more of what was answered: its process began, or its ledger failed.
  void OnRestart();
  // Whether every occurrence that a full queue refused is submitted again in time.
  void CheckAskedAgain(absl::Duration now);
  // Somebody calls a trigger.
  void OnTriggerCall(const std::string& request_id) { ++trigger_calls_[request_id]; }
  // Somebody hears that his trigger has this task.
  void OnTriggered(const std::string& request_id, const std::string& queue_id,
                   const test::MemoryLedgers& disk);
  // Something that it must never do.
  void Fail(const std::string& what);
  // The world is over, and was quiet for long.
  void OnEnd(const test::MemoryLedgers& disk, absl::Time now);

 private:
  // A job from one change of its times to the next: every occurrence between the two is accounted
  // for. `seen` is the latest that its clock showed, `decided` until when nothing waits.
  struct Span {
    core::Job job;
    absl::Time after;
    absl::Time seen;
    absl::Time decided;
  };
  // Of occurrences, by nominal time; without those of triggers.
  using Rows = std::map<absl::Time, core::Firing>;

  void OnState(const scheduler::JobState& state, const test::MemoryLedgers& disk);
  void OnIntent(const scheduler::Intent& intent, const test::MemoryLedgers& disk, absl::Time now);
  void OnRow(const core::Firing& row, const test::MemoryLedgers& disk);
  void CheckCatchUp(absl::Span<const scheduler::LedgerChange> batch,
                    const test::MemoryLedgers& disk, absl::Time now);
  void CheckRow(const core::Firing& row);
  // Whether an occurrence was given up before its time was over.
  void CheckGivenUp(const core::Firing& row, absl::Time now);
  void CheckSpan(const Span& span, const Rows& rows, absl::Time now);

  const int replica_;
  const Truth& truth_;
  std::string failure_;
  uint64_t rows_ = 0;
  uint64_t hash_ = 0;
  std::map<std::string, std::vector<Span>> spans_;
  // Jobs in the file.
  std::map<std::string, core::Job> jobs_;
  // As they were until the turn that is under way.
  std::map<std::string, core::Job> previous_;
  // Those that had a number of runs at some time.
  std::set<std::string> bounded_;
  // Occurrences that were begun since the last restart, and every submit of which was answered, by
  // request id: how long each may wait for a place.
  std::map<std::string, absl::Time> begun_;
  // Those of them that a full queue refused: until when each is to be submitted again.
  std::map<std::string, absl::Duration> full_;
  // How often triggers were called, by request id.
  std::map<std::string, int> trigger_calls_;
  // Those that were declared in more than one way: rows may be of an earlier one.
  std::set<std::string> revised_;
};

}  // namespace callboard::simulation::cron

#endif  // CALLBOARD_TESTS_SIMULATION_SCHEDULER_REFEREE_H_
