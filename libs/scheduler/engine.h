#ifndef CALLBOARD_LIBS_SCHEDULER_ENGINE_H_
#define CALLBOARD_LIBS_SCHEDULER_ENGINE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/base/value_types.h"
#include "libs/core/job.h"
#include "libs/core/schedule.h"
#include "libs/core/task.h"
#include "libs/ports/environment.h"
#include "libs/scheduler/director_link.h"
#include "libs/scheduler/due.h"
#include "libs/scheduler/ledger.h"

namespace callboard::scheduler {

// Rows kept for each job. When a job has more, its oldest rows are removed in batches.
inline constexpr uint64_t kRowsPerJobMax = 10'000;
inline constexpr uint64_t kRowsTrimmedPerBatch = 100;
// Changes that one turn writes. Jobs that would exceed it wait for the next turn.
inline constexpr size_t kTurnChangesMax = 10'000;
// How long a job that was removed from the file is remembered, with its rows.
inline constexpr absl::Duration kRemovedJobRetention = absl::Hours(30 * 24);
// Limit on concurrent calls to the director.
inline constexpr size_t kCallsMax = 256;
// Bounds on the delay before an occurrence is submitted again to a full queue. They limit the
// director's retry_after, because places become free and are taken faster than it can predict.
inline constexpr absl::Duration kFullRetryMin = absl::Milliseconds(100);
inline constexpr absl::Duration kFullRetryMax = absl::Seconds(1);
// How often an agent is called to start a task directly, and the delay between the calls.
inline constexpr int kDirectStartsMax = 3;
inline constexpr absl::Duration kDirectStartRetryDelay = absl::Seconds(1);
// The delay before a request id is looked up again whose lookup had no conclusive answer.
inline constexpr absl::Duration kLookupRetryDelay = absl::Seconds(1);
// The time between two submits of a backfill, and the longest delay before one that was not
// accepted is retried.
inline constexpr absl::Duration kBackfillInterval = absl::Seconds(1);
inline constexpr absl::Duration kBackfillRetryMax = absl::Seconds(30);
// Tasks of a job whose end the scheduler tracks, the time between two status polls, and the tasks
// in one poll.
inline constexpr size_t kTrackedTasksMax = 100;
inline constexpr absl::Duration kStatusPollPeriod = absl::Seconds(2);
inline constexpr size_t kStatusPollTasksMax = 200;
// Remembered tasks of a job's triggers. A repeated trigger writes no second row while its task is
// among them.
inline constexpr size_t kTriggeredTasksMax = 100;
// Triggers of a job whose answer was lost or is outstanding. Older ones are not looked up.
inline constexpr size_t kOpenTriggersMax = 100;
// A change of the wall clock by at least this much is reported.
inline constexpr absl::Duration kClockStepMin = absl::Minutes(1);

// Identifies an outgoing request. Never reused.
using OutgoingRequestId = base::StrongId<struct OutgoingRequestIdTag, uint64_t>;
// Identifies a TriggerJob call that waits for its answer.
using TriggerCallId = base::StrongId<struct TriggerCallIdTag, uint64_t>;

// A call to the director or to an agent that the engine wants to be made.
struct SubmitRequest {
  OutgoingRequestId id;
  core::JobSubmission submission;
};
// Asks for the task of a request id.
struct FindTaskRequest {
  OutgoingRequestId id;
  std::string request_id;
};
struct TaskStatusRequest {
  OutgoingRequestId id;
  std::vector<std::string> queue_ids;
};
struct DirectStartRequest {
  OutgoingRequestId id;
  std::string agent_url;
  core::JobSubmission submission;
};
using OutgoingRequest =
    std::variant<SubmitRequest, FindTaskRequest, TaskStatusRequest, DirectStartRequest>;

// Something that an operator should know: the name of a log event, and its details in English.
struct Notice {
  std::string event;
  std::string job = {};
  std::string text = {};
};

// Effects of a turn. Commit `changes` before acting on anything else.
struct Outcome {
  struct TriggerAnswer {
    TriggerCallId call;
    absl::StatusOr<AcceptedTask> answer;
  };

  std::vector<LedgerChange> changes = {};
  std::vector<OutgoingRequest> requests = {};
  std::vector<TriggerAnswer> trigger_answers = {};
  std::vector<Notice> notices = {};

  bool empty() const {
    return changes.empty() && requests.empty() && trigger_answers.empty() && notices.empty();
  }
};

struct TriggerQuery {
  std::string job = {};
  // A repeated trigger with the same id returns the first task.
  std::string id = {};
  // Run the job even while a task of it is live.
  bool force = false;
};

struct BackfillQuery {
  std::string job = {};
  std::string id = {};
  std::string by = {};
  // The half-open interval [from, until).
  absl::Time from = {};
  absl::Time until = {};
  // Return the occurrences without running them.
  bool dry_run = false;
};

// A job as clients see it.
struct JobView {
  core::Job job;
  JobState state;
  // The next occurrences that will run, as far as is known.
  std::vector<core::Occurrence> next = {};
  // How late the oldest undecided occurrence is.
  absl::Duration overdue = {};
  // Set when the wall clock was set back: the job does nothing before this time.
  std::optional<absl::Time> waits_until = {};
  uint32_t active_backfills = 0;
};

struct StatusView {
  uint32_t jobs = 0;
  uint32_t paused_jobs = 0;
  bool director_reachable = true;
  // How late the oldest undecided occurrence is, and when the next decision is due. When that time
  // has passed, the decision is late.
  absl::Duration overdue = {};
  absl::Time oldest_due = absl::InfiniteFuture();
  // InfiniteFuture when no occurrence is scheduled.
  absl::Time next_fire_at = absl::InfiniteFuture();
  // Undecided occurrences, and outstanding calls to the director.
  size_t open = 0;
  size_t calls = 0;
};

// Returns NOT_FOUND/JOB_NOT_FOUND.
absl::Status JobNotFound(const std::string& name);

// The rules of a scheduler. The engine decides the outcome of each occurrence of each job, and
// stores what is needed so that no occurrence runs twice or is forgotten.
//
// A passive state machine without threads and I/O; the caller passes the time. Not thread-safe. The
// changes in an Outcome must be on disk before anything else in it takes effect.
//
// Path of an occurrence:
//   RunJobTimer() → DecideDue() → OpenAttempt() → OnSubmitAnswer() → Conclude()
// OpenAttempt() stores an intent, which is on disk before the submit is sent. Conclude() writes the
// row. If the result of a submit is unknown, ConcludeIfSettled() delays the row until a lookup has
// found out whether the director has the task.
class SchedulerEngine {
 public:
  // Restores the state from `contents`. `last` is the last request of an earlier engine; answers to
  // requests up to it are ignored.
  SchedulerEngine(LedgerContents contents, OutgoingRequestId last, ports::Moment now);
  SchedulerEngine(const SchedulerEngine&) = delete;
  SchedulerEngine& operator=(const SchedulerEngine&) = delete;

  // Returns the effects since the last call, with the requests that can be issued now.
  Outcome TakeOutcome(ports::Moment now);
  OutgoingRequestId last_request() const { return last_request_; }

  // Replaces the set of jobs. The engine does nothing before the first call.
  // REQUIRES: each job passed CheckJob(), and the names are distinct.
  void SetJobs(std::vector<core::Job> jobs, ports::Moment now);

  // ---- Answers to requests. Answers to requests of an earlier engine are ignored. ----

  // The answer to a SubmitRequest, a FindTaskRequest or a DirectStartRequest.
  void OnRequestAnswer(OutgoingRequestId request, const absl::StatusOr<AcceptedTask>& answer,
                       ports::Moment now);
  void OnTaskStatuses(OutgoingRequestId request,
                      const absl::StatusOr<std::vector<TaskStatus>>& answer, ports::Moment now);

  // ---- Calls by operators ----

  // Runs the job once, now. The answer comes in a later Outcome: that of the director, or
  // UNAVAILABLE/DIRECTOR_UNREACHABLE if the director does not answer.
  void Trigger(TriggerCallId call, const TriggerQuery& query, ports::Moment now);
  // Replaces an earlier pause, whose count of skipped occurrences is kept.
  absl::Status PauseJob(const std::string& name, Pause pause, ports::Moment now);
  // Returns the number of occurrences that were skipped by the pause. None of them will run.
  absl::StatusOr<uint64_t> ResumeJob(const std::string& name, ports::Moment now);
  // Starts a backfill, or returns the existing one with the same id.
  // Errors: ALREADY_EXISTS/BACKFILL_ID_REUSED if the id belongs to a different backfill,
  // INVALID_ARGUMENT for too many occurrences, RESOURCE_EXHAUSTED/TOO_MANY_BACKFILLS.
  absl::StatusOr<Backfill> StartBackfill(const BackfillQuery& query, ports::Moment now);

  // ---- Time ----

  // Runs all timers that are due.
  void FireTimers(ports::Moment now);
  // At most one second while a timer waits for the wall clock, because that clock may jump.
  absl::Duration TimeUntilNextTimer(ports::Moment now) const;

  // ---- Reads ----

  absl::StatusOr<JobView> GetJob(const std::string& name, size_t next, ports::Moment now) const;
  // Returns jobs in order of their names, starting after `after`.
  std::vector<JobView> ListJobs(const std::string& after, size_t page_size,
                                ports::Moment now) const;
  // Returns null if the file has no such job.
  const core::Job* FindJob(const std::string& name) const;
  // True also for a removed job that is still remembered.
  bool KnowsJob(const std::string& name) const { return jobs_.contains(name); }
  StatusView Status(ports::Moment now) const;

 private:
  // The outcome of an occurrence unless a lookup finds that the director has its task.
  struct TentativeOutcome {
    core::FiringOutcome outcome;
    std::string queue_id = {};
    std::string detail = {};
  };
  // An occurrence that has an intent but no row yet.
  struct Attempt {
    bool moved = false;
    bool direct = false;
    int direct_starts = 0;
    // Deadlines by the wall clock: for submitting it, and for waiting for a place in the queue.
    absl::Time window_end = absl::InfiniteFuture();
    absl::Time full_until = {};
    // The next request is not issued before this time (monotonic clock).
    absl::Duration not_before = {};
    // Set while the result of a sent submit is unknown: when to look up its request id. The submit
    // can no longer reach the director then, so the lookup is conclusive.
    std::optional<absl::Duration> lookup_at = {};
    // A request for this attempt is outstanding.
    bool has_request = false;
    // The statuses of the job's earlier tasks were polled. Needed only if the job pauses after
    // failures in a row: otherwise one run too many could start.
    bool prior_statuses_known = false;
    std::optional<TentativeOutcome> tentative_outcome = {};
    // Why it was not accepted so far.
    bool was_full = false;
    std::string last_error = {};
  };
  struct Entry {
    JobState state;
    // Absent if the job is not in the file.
    std::optional<core::Job> job = {};
    // Keyed by nominal time.
    std::map<absl::Time, Attempt> attempts = {};
    // The job's entry in timers_.
    absl::Time timer_at = absl::InfiniteFuture();
  };
  // The purpose of an outstanding request.
  struct RequestContext {
    enum class Kind {
      kSubmit,
      // Finds out whether the director has the task of an occurrence.
      kLookup,
      kStartDirect,
      kTrigger,
      // Finds out whether the director has the task of a trigger.
      kTriggerLookup,
      kBackfill,
      kTaskStatuses,
      // Finds out whether the director answers.
      kProbe,
    };
    Kind kind;
    // The name of the job, or the id of the backfill.
    std::string name = {};
    absl::Time nominal = {};
    // The id of the trigger, and the call that waits for it.
    std::string trigger = {};
    TriggerCallId call = {};
    // The tasks whose statuses are polled.
    std::set<std::string> queue_ids = {};
    absl::Duration sent_at = {};
  };
  struct BackfillPace {
    bool has_request = false;
    absl::Duration not_before = {};
  };
  // The state of the link to the director. While it is not `up`, only probes are sent.
  struct LinkState {
    bool up = true;
    bool reachable = true;
    int failures = 0;
    // The last probe, and when to send the next one.
    OutgoingRequestId probe = {};
    absl::Duration probe_at = {};
    // When the director answered again after an outage.
    absl::Duration reachable_since = -absl::InfiniteDuration();
  };

  // ---- engine.cc: jobs, time and rows ----

  void UpdateJob(Entry& entry, core::Job job, ports::Moment now);
  // Starts or ends a pause if `paused` in the file has changed.
  void ApplyPausedInFile(Entry& entry, ports::Moment now);
  void RemoveJob(Entry& entry, ports::Moment now);
  void RunJobTimer(Entry& entry, ports::Moment now);
  void Reschedule(Entry& entry, ports::Moment now);
  void DetectClockStep(ports::Moment now);
  DueQuery DueQueryFor(const Entry& entry, ports::Moment now) const;
  void DecideDue(Entry& entry, ports::Moment now, bool jitter = true);
  void WriteRow(Entry& entry, core::Firing row);
  void MarkChanged(const Entry& entry) { changed_.insert(entry.state.job); }
  void AddNotice(std::string event, const std::string& job, std::string text);

  // ---- engine_attempts.cc: from an intent to its row ----

  void OpenAttempt(Entry& entry, const core::Occurrence& occurrence, ports::Moment now);
  void RestoreAttempts(Entry& entry, ports::Moment now);
  // Adapts the deadlines of all attempts to the job, which has replaced `earlier`.
  void UpdateDeadlines(Entry& entry, const core::Job& earlier);
  void SetTentativeOutcome(Attempt& attempt, TentativeOutcome tentative_outcome);
  void SetTentativeOutcomes(Entry& entry, const TentativeOutcome& tentative_outcome,
                            ports::Moment now);
  void ExpireAttempts(Entry& entry, ports::Moment now);
  // Writes the row if the attempt has a tentative outcome and no request or lookup is outstanding.
  void ConcludeIfSettled(Entry& entry, absl::Time nominal, ports::Moment now);
  void Conclude(Entry& entry, absl::Time nominal, const TentativeOutcome& tentative_outcome,
                ports::Moment now);
  void ConcludeFired(Entry& entry, absl::Time nominal, const std::string& queue_id,
                     const std::string& detail, ports::Moment now);
  // Ends all attempts, because no more occurrences of the job may run.
  void AbandonAttempts(Entry& entry, ports::Moment now);
  void OnSubmitAnswer(const RequestContext& context, const absl::StatusOr<AcceptedTask>& answer,
                      ports::Moment now);
  void OnLookupAnswer(const RequestContext& context, const absl::StatusOr<AcceptedTask>& answer,
                      ports::Moment now);
  void OnDirectStartAnswer(const RequestContext& context,
                           const absl::StatusOr<AcceptedTask>& answer, ports::Moment now);
  // The statuses of the job's earlier tasks are known, or could not be read.
  void OnPriorTaskStatuses(const RequestContext& context, const absl::Status& status,
                           ports::Moment now);
  Entry* FindAttempt(const RequestContext& context);

  // ---- engine_requests.cc: which requests are issued, and when ----

  // A request that an attempt needs, and the earliest time for it.
  struct PlannedRequest {
    absl::Time nominal;
    RequestContext::Kind kind;
    absl::Duration at;
  };
  // Returns the requests of a job's attempts. Of the occurrences to be submitted, only the earliest
  // one has a request.
  std::vector<PlannedRequest> PlanRequests(const Entry& entry) const;
  void IssueRequests(ports::Moment now);
  // Sends one request while the director may be unreachable, and another one if there is no answer
  // within kProbeTimeout. Does not wait for earlier calls, which may hang until kCallTimeout.
  void IssueProbe(ports::Moment now);
  // Issues the first due request in place of a probe. Returns false if none is due.
  bool IssueFirstDueRequest(ports::Moment now);
  void IssueRequest(Entry& entry, const PlannedRequest& request, ports::Moment now);
  // Issues at most `max_count` requests. Returns false if none is due.
  bool IssueBackfillRequests(size_t max_count, ports::Moment now);
  void IssueTriggerLookups(ports::Moment now);
  void IssueStatusPoll(ports::Moment now);
  void IssueStatusRequest(RequestContext context, ports::Moment now);
  OutgoingRequestId RegisterRequest(RequestContext context, ports::Moment now);
  // Updates link_state_ from the result of a call.
  void UpdateLinkState(OutgoingRequestId request, absl::Duration sent_at,
                       const absl::Status& status, ports::Moment now);
  absl::Duration NextRequestAt() const;
  bool HasCallCapacity() const { return director_calls_ < kCallsMax; }

  // ---- engine_operator_calls.cc: calls by operators, and the ends of tasks ----

  absl::StatusOr<Entry*> FindEntry(const std::string& name);
  void BeginPause(Entry& entry, Pause pause, ports::Moment now);
  // Returns the number of occurrences that the pause skipped. REQUIRES: the job is paused.
  uint64_t EndPause(Entry& entry, ports::Moment now);
  void OnTriggerAnswer(const RequestContext& context, const absl::StatusOr<AcceptedTask>& answer,
                       ports::Moment now);
  void WriteTriggerRow(Entry& entry, const RequestContext& context,
                       const absl::StatusOr<AcceptedTask>& answer, ports::Moment now);
  // A trigger is open from before its submit until its task has a row, or until the director
  // reports that it has no such task.
  void OpenTrigger(Entry& entry, const std::string& id, ports::Moment now);
  void CloseTrigger(Entry& entry, const std::string& id);
  void OnTriggerLookupAnswer(const RequestContext& context,
                             const absl::StatusOr<AcceptedTask>& answer, ports::Moment now);
  void OnBackfillAnswer(const RequestContext& context, const absl::StatusOr<AcceptedTask>& answer,
                        ports::Moment now);
  void MakeRoomForBackfill();
  void EndBackfill(Backfill& backfill, ports::Moment now);
  // Includes the task in the status polls from now on.
  void TrackTask(Entry& entry, const std::string& queue_id);
  // Returns whether the task has ended.
  bool RecordTaskEnd(Entry& entry, const TaskStatus& end);
  void PauseAfterFailures(Entry& entry, ports::Moment now);

  // ---- engine_views.cc ----

  JobView View(const Entry& entry, size_t next, ports::Moment now) const;
  // When the oldest undecided occurrence is due.
  static absl::Time OldestUndecidedAt(const Entry& entry);

  std::map<std::string, Entry> jobs_;
  // The next timer of each job that has one (wall clock).
  std::set<std::pair<absl::Time, std::string>> timers_;
  std::map<std::string, Entry*> jobs_with_attempts_;
  std::map<std::string, Backfill> backfills_;
  std::map<std::string, BackfillPace> backfill_paces_;
  // When to look up a trigger (job, id): from then on no submit of it can reach the director.
  std::map<std::pair<std::string, std::string>, absl::Duration> trigger_lookups_;
  // Outstanding requests, and how many of them are calls to the director.
  std::map<OutgoingRequestId, RequestContext> requests_;
  size_t director_calls_ = 0;
  OutgoingRequestId last_request_;
  LinkState link_state_;
  // Jobs with tracked tasks; when to poll their statuses next, and the last job in the last poll.
  std::set<std::string> jobs_with_tracked_tasks_;
  absl::Duration next_poll_at_;
  std::string last_polled_job_;
  ports::Moment last_moment_;
  // Jobs whose state must be written.
  std::set<std::string> changed_;
  Outcome outcome_;
};

}  // namespace callboard::scheduler

#endif  // CALLBOARD_LIBS_SCHEDULER_ENGINE_H_
