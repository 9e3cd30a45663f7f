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
#include "libs/core/job.h"
#include "libs/ports/environment.h"
#include "libs/scheduler/ledger.h"
#include "libs/testing/memory_ledger.h"

namespace callboard::simulation::cron {

// The tasks that the director and the agent have, by request id.
struct SubmittedTasks {
  // A task, and the replica whose submit created it.
  struct Made {
    std::string queue_id;
    int replica;
  };
  std::map<std::string, Made> tasks;
  // Request ids of the runs that replicas started on the agent directly.
  std::set<std::pair<int, std::string>> direct;
};

// Checks the guarantees of one scheduler replica. Uses only the replica's disk, the director's
// tasks, and the content of the jobs file.
class Referee {
 public:
  Referee(int replica, const SubmittedTasks& submitted_tasks)
      : replica_(replica), submitted_(submitted_tasks) {}

  // Returns the first violation; empty if there is none.
  const std::string& failure() const { return failure_; }
  uint64_t rows() const { return rows_; }
  uint64_t hash() const { return hash_; }

  // A turn at this time of the replica's clock is on disk.
  void OnTurn(absl::Time now);
  // The replica uses these jobs from now on.
  void OnJobs(const std::vector<core::Job>& jobs, absl::Time now);
  // A batch is about to be written.
  void OnBatch(absl::Span<const scheduler::LedgerChange> batch, const test::MemoryLedgers& disk,
               absl::Time now);
  // The replica is about to submit an occurrence, backfill or trigger.
  void OnSubmit(const core::JobSubmission& submission, const test::MemoryLedgers& disk,
                absl::Duration now);
  // The director has answered a submit or a lookup.
  void OnAnswer(const std::string& request_id, const absl::Status& status, ports::Moment now);
  // The director failed: the deadlines for resubmits no longer apply.
  void OnDirectorFailed() { full_.clear(); }
  void OnClockJump() { full_.clear(); }
  // The process has restarted or its ledger has failed: answers that it received are forgotten.
  void OnRestart();
  // Checks that every occurrence that a full queue rejected is submitted again in time.
  void CheckResubmitted(absl::Duration now);
  // A caller triggers a job.
  void OnTriggerCall(const std::string& request_id) { ++trigger_calls_[request_id]; }
  // A caller gets the answer that its trigger has this task.
  void OnTriggered(const std::string& request_id, const std::string& queue_id,
                   const test::MemoryLedgers& disk);
  // Records a violation.
  void Fail(const std::string& what);
  // The simulation has ended after a long quiet phase.
  void OnEnd(const test::MemoryLedgers& disk, absl::Time now);

 private:
  // A job between two changes of its times: every occurrence in between must be accounted for.
  // `seen` is the latest time that its clock showed; no occurrence up to `decided` waits.
  struct JobVersion {
    core::Job job;
    absl::Time after;
    absl::Time seen;
    absl::Time decided;
  };
  // Rows of occurrences by nominal time, without those of triggers.
  using Rows = std::map<absl::Time, core::Firing>;

  void OnState(const scheduler::JobState& state, const test::MemoryLedgers& disk);
  void OnIntent(const scheduler::Intent& intent, const test::MemoryLedgers& disk, absl::Time now);
  void OnRow(const core::Firing& row, const test::MemoryLedgers& disk);
  void CheckCatchUp(absl::Span<const scheduler::LedgerChange> batch,
                    const test::MemoryLedgers& disk, absl::Time now);
  void CheckRow(const core::Firing& row);
  // Checks that an occurrence was not abandoned before its time was over.
  void CheckAbandoned(const core::Firing& row, absl::Time now);
  void CheckVersion(const JobVersion& version, const Rows& rows, absl::Time now);

  const int replica_;
  const SubmittedTasks& submitted_;
  std::string failure_;
  uint64_t rows_ = 0;
  uint64_t hash_ = 0;
  std::map<std::string, std::vector<JobVersion>> versions_;
  // Jobs in the file.
  std::map<std::string, core::Job> jobs_;
  // Jobs before the current turn.
  std::map<std::string, core::Job> previous_;
  // Jobs that were ever bounded by a number of runs.
  std::set<std::string> bounded_;
  // Occurrences that were started since the last restart and whose submits were all answered, by
  // request id: the time until which each may wait for a slot.
  std::map<std::string, absl::Time> started_;
  // The submits that a full queue rejected: the time by which each must be submitted again.
  std::map<std::string, absl::Duration> full_;
  // Number of calls per trigger, by request id.
  std::map<std::string, int> trigger_calls_;
  // Jobs that were declared in more than one way: rows may belong to an earlier version.
  std::set<std::string> revised_;
};

}  // namespace callboard::simulation::cron

#endif  // CALLBOARD_TESTS_SIMULATION_SCHEDULER_REFEREE_H_
