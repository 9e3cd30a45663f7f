#ifndef CALLBOARD_LIBS_SCHEDULER_SCHEDULER_H_
#define CALLBOARD_LIBS_SCHEDULER_SCHEDULER_H_

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "libs/core/job.h"
#include "libs/ports/environment.h"
#include "libs/scheduler/director_link.h"
#include "libs/scheduler/engine.h"
#include "libs/scheduler/ledger.h"

namespace callboard::scheduler {

// Receives what a scheduler does, for metrics and the log. Called on the scheduler's thread; must
// not block.
class Observer {
 public:
  virtual ~Observer() = default;

  // Called after every attempt to open the ledger, and when it fails. While `why` is an error, no
  // call is served.
  virtual void OnService(const absl::Status& why) = 0;
  // `changes` are on disk. The commit took `took`.
  virtual void OnCommit(absl::Span<const LedgerChange> changes, absl::Duration took) = 0;
  virtual void OnNotice(const Notice& notice) = 0;
  // Called after turns, at most once per second. The status after the last turn is always reported.
  virtual void OnStatus(const StatusView& status) = 0;
};

// The dependencies of a scheduler. All outlive it.
struct Deps {
  const ports::Clock& clock;
  LedgerOpener& ledgers;
  DirectorLink& director;
  // May be null.
  Observer* observer = nullptr;
};

// A call or an answer that waits for a turn.
struct Command {
  // Runs on the engine. Returns the function that sends the reply after the commit; null if the
  // reply comes later.
  std::function<std::function<void()>(SchedulerEngine&, ports::Moment)> decide;
  // Replies with an error if the command did not run or its commit failed. May be null.
  std::function<void(const absl::Status&)> fail = nullptr;
};

// Runs the engine turn by turn. All changes of a turn are committed to the ledger in one synced
// batch; only then are replies sent and requests issued.
//
// If a commit fails, its outcome is unknown. The calls that wait for it get OUTCOME_UNKNOWN, and
// the ledger is closed, reopened and loaded, like after a restart of the process. Until that
// succeeds, calls fail and no job runs.
//
// Not thread-safe.
class Scheduler {
 public:
  // Queues a command with an answer of the director for RunTurn(). Called from any thread. Never
  // fails for lack of room.
  using Post = std::function<void(Command)>;

  Scheduler(const Deps& deps, Post post) : deps_(deps), post_(std::move(post)) {}
  // Fails the calls that still wait for the director.
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Opens the ledger and restores the state. Returns the ledger's error if it cannot be opened or
  // is damaged.
  absl::Status Open();
  // Replaces the jobs from the next turn on. No job runs before the first call.
  void SetJobs(std::vector<core::Job> jobs);
  // Runs the commands and the timers that are due, commits, replies, and issues requests.
  void RunTurn(std::vector<Command> commands);
  // Returns when the next turn is due even without commands.
  absl::Duration UntilNextTurn() const;

  // Returns a command that triggers a job. `reply` runs after the director has answered.
  Command MakeTriggerCommand(TriggerQuery query, DirectorLink::Reply<AcceptedTask> reply);

  // Null while the ledger is closed.
  const SchedulerEngine* engine() const { return engine_.get(); }
  // For reads. Null while the ledger is closed.
  const Ledger* ledger() const { return engine_ == nullptr ? nullptr : ledger_.get(); }

 private:
  ports::Moment Now() const { return {deps_.clock.WallNow(), deps_.clock.MonotonicNow()}; }
  void CloseLedger();
  absl::Status Load();
  absl::Status Commit(const Outcome& outcome);
  void Flush(Outcome outcome);
  void Issue(const OutgoingRequest& request);
  void Fail(const absl::Status& why);
  void ReportService(const absl::Status& why) const;
  void ReportStatus(ports::Moment now);

  const Deps deps_;
  const Post post_;
  std::unique_ptr<Ledger> ledger_;
  std::unique_ptr<SchedulerEngine> engine_;
  // These ids continue when the engine is replaced, so that late answers find no request.
  OutgoingRequestId last_request_;
  TriggerCallId last_trigger_call_;
  absl::Duration reopen_at_ = absl::InfiniteDuration();
  // When the status may be reported again, and whether a report is outstanding.
  absl::Duration next_status_at_ = {};
  bool status_outstanding_ = false;
  // The latest jobs, and whether the engine does not have them yet.
  std::unique_ptr<const std::vector<core::Job>> jobs_;
  bool jobs_changed_ = false;
  std::map<TriggerCallId, DirectorLink::Reply<AcceptedTask>> triggers_;
};

}  // namespace callboard::scheduler

#endif  // CALLBOARD_LIBS_SCHEDULER_SCHEDULER_H_
