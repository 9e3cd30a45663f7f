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
#include "libs/base/strong_id.h"
#include "libs/core/firing.h"
#include "libs/core/job.h"
#include "libs/core/moment.h"
#include "libs/core/schedule.h"
#include "libs/core/task.h"
#include "libs/scheduler/answer.h"
#include "libs/scheduler/director_link.h"
#include "libs/scheduler/due.h"
#include "libs/scheduler/ledger.h"

namespace callboard::scheduler {

// Rows of a job that are kept; beyond them the oldest go, so many at a time.
inline constexpr uint64_t kRowsPerJobMax = 10'000;
inline constexpr uint64_t kTrimmedAtOnce = 100;
// What one turn writes: beyond it jobs wait for the next.
inline constexpr size_t kTurnChangesMax = 10'000;
// How long a job that left the file is remembered, with its rows.
inline constexpr absl::Duration kLeftJobMemory = absl::Hours(30 * 24);
// Calls to the director that are under way.
inline constexpr size_t kCallsMax = 256;
// How long an occurrence waits before it asks a full queue again, whatever that says: places come
// and go in less than the queue can foretell.
inline constexpr absl::Duration kFullRetryMin = absl::Milliseconds(100);
inline constexpr absl::Duration kFullRetryMax = absl::Seconds(1);
// How often, and at which distance, an agent is asked to start a task past the queue.
inline constexpr int kDirectTriesMax = 3;
inline constexpr absl::Duration kDirectRetry = absl::Seconds(1);
// Of a backfill: the time between two occurrences, and the longest time until a refused one is
// tried again.
inline constexpr absl::Duration kBackfillInterval = absl::Seconds(1);
inline constexpr absl::Duration kBackfillRetryMax = absl::Seconds(30);
// Tasks of a job whose end is waited for, and how often, and about how many, the director is asked.
inline constexpr size_t kWatchedMax = 100;
inline constexpr absl::Duration kAskEndsPeriod = absl::Seconds(2);
inline constexpr size_t kAskEndsMax = 200;
// Tasks of a job's triggers that are remembered: whoever repeats one of these triggers writes no
// second row.
inline constexpr size_t kTriggeredMax = 100;
// Triggers of a job whose answer got lost, or is waited for; the director is asked about no more.
inline constexpr size_t kOpenTriggersMax = 100;
// A wall clock that is set by more is told of.
inline constexpr absl::Duration kClockStepMin = absl::Minutes(1);

// Names a call to the director. Never reused.
using OrderId = base::StrongId<struct OrderIdTag, uint64_t>;
// Names somebody who waits for a trigger.
using CallId = base::StrongId<struct CallIdTag, uint64_t>;

// What is to be asked of the director, or of an agent.
struct SubmitOrder {
  OrderId id;
  core::Submission submission;
};
struct AskEndsOrder {
  OrderId id;
  std::vector<std::string> queue_ids;
};
struct DirectOrder {
  OrderId id;
  std::string agent_url;
  core::TaskSpec spec;
};
using Order = std::variant<SubmitOrder, AskEndsOrder, DirectOrder>;

// Something that an operator should hear of: an event of the log, and words for people.
struct Notice {
  std::string event;
  std::string job = {};
  std::string text = {};
};

// What follows from commands: to be committed first, and only then to be asked, said and told.
struct Outcome {
  struct Triggered {
    CallId call;
    absl::StatusOr<Accepted> answer;
  };

  std::vector<LedgerChange> changes = {};
  std::vector<Order> orders = {};
  std::vector<Triggered> triggered = {};
  std::vector<Notice> notices = {};

  bool empty() const {
    return changes.empty() && orders.empty() && triggered.empty() && notices.empty();
  }
};

struct TriggerQuery {
  std::string job = {};
  // Makes it repeatable.
  std::string id = {};
  // Also while a task of the job is live.
  bool force = false;
};

struct BackfillQuery {
  std::string job = {};
  std::string id = {};
  std::string by = {};
  // From the first up to, not including, the second.
  absl::Time from = {};
  absl::Time until = {};
  // Only says what would be run.
  bool dry_run = false;
};

// What can be seen of a job.
struct JobView {
  core::Job job;
  JobState state;
  // The next ones that will run, as far as that is known.
  std::vector<core::Occurrence> next = {};
  // How late the oldest is that is not decided.
  absl::Duration overdue = {};
  // The wall clock was set back: nothing happens before it shows this.
  std::optional<absl::Time> waits_until = {};
  uint32_t active_backfills = 0;
};

struct StatusView {
  uint32_t jobs = 0;
  uint32_t paused_jobs = 0;
  bool director_reachable = true;
  // How late the oldest occurrence is that is not decided; and when something is to be decided:
  // once that is past, it is late.
  absl::Duration overdue = {};
  absl::Time oldest_due = absl::InfiniteFuture();
  // Infinite when there is none.
  absl::Time next_fire_at = absl::InfiniteFuture();
  // Occurrences that are not decided, and calls under way.
  size_t open = 0;
  size_t calls = 0;
};

// NOT_FOUND/JOB_NOT_FOUND
absl::Status JobNotFound(const std::string& name);

// The rules of a scheduler: what becomes of each occurrence of each job, and what to remember so
// that none is run twice or forgotten.
//
// Passive and pure: no threads, no I/O; time comes in as an argument. Not thread-safe. Nobody may
// hear of anything in the outcome before its changes are on disk.
//
// The way of an occurrence: Look() → DecideDue() → OpenAttempt(), whose intent is on disk before
// the submit is sent → OnAttempt() → Conclude(), which writes its row. A submit whose end is not
// known is never given up without asking the director whether it has the task: Settle().
class SchedulerEngine {
 public:
  // `ledgered`: what the life before left. `last`: answers to orders up to it are not for this one.
  SchedulerEngine(Ledgered ledgered, OrderId last, core::Moment now);
  SchedulerEngine(const SchedulerEngine&) = delete;
  SchedulerEngine& operator=(const SchedulerEngine&) = delete;

  // What has followed since the last time, with the orders that can be given now.
  Outcome TakeOutcome(core::Moment now);
  OrderId last_order() const { return last_order_; }

  // The jobs that there are. Nothing happens before the first time. REQUIRES: each is CheckJob()ed,
  // and names differ.
  void SetJobs(std::vector<core::Job> jobs, core::Moment now);

  // ---- Answers; those to orders of earlier lives are ignored ----

  // To a SubmitOrder and a DirectOrder.
  void OnAccepted(OrderId order, const absl::StatusOr<Accepted>& answer, core::Moment now);
  void OnEnds(OrderId order, const absl::StatusOr<std::vector<TaskEnd>>& answer, core::Moment now);

  // ---- People ----

  // Answered in an outcome, as the director does; UNAVAILABLE/DIRECTOR_UNREACHABLE when it does
  // not.
  void Trigger(CallId call, const TriggerQuery& query, core::Moment now);
  // Takes the place of an earlier pause; what was skipped in that counts on.
  absl::Status PauseJob(const std::string& name, Pause pause, core::Moment now);
  // How many occurrences fell into the pause. None of them runs.
  absl::StatusOr<uint64_t> ResumeJob(const std::string& name, core::Moment now);
  // The one of that id if there is one: ALREADY_EXISTS/BACKFILL_ID_REUSED when it is for something
  // else. INVALID_ARGUMENT: too many occurrences. RESOURCE_EXHAUSTED/TOO_MANY_BACKFILLS.
  absl::StatusOr<Backfill> StartBackfill(const BackfillQuery& query, core::Moment now);

  // ---- Time ----

  // Does what is due.
  void FireTimers(core::Moment now);
  // At most a second while something waits for the wall clock, which may jump.
  absl::Duration UntilNextTimer(core::Moment now) const;

  // ---- Reads ----

  absl::StatusOr<JobView> GetJob(const std::string& name, size_t next, core::Moment now) const;
  // By name, behind `after`.
  std::vector<JobView> ListJobs(const std::string& after, size_t page_size, core::Moment now) const;
  // Null when there is none.
  const core::Job* FindJob(const std::string& name) const;
  // Also of one that left the file and is remembered.
  bool KnowsJob(const std::string& name) const { return jobs_.contains(name); }
  StatusView Status(core::Moment now) const;

 private:
  // What an occurrence becomes unless the director turns out to have its task.
  struct Verdict {
    core::FiringOutcome outcome;
    std::string queue_id = {};
    std::string detail = {};
  };
  // An occurrence between its intent and its row.
  struct Attempt {
    bool moved = false;
    bool direct = false;
    int direct_tries = 0;
    // By the wall clock: how long it may be submitted, and wait for a place.
    absl::Time window_end = absl::InfiniteFuture();
    absl::Time full_until = {};
    // By the monotonic one: not to be sent earlier.
    absl::Duration not_before = {};
    // A submit that is not known to have come to nothing was sent, and has by then.
    std::optional<absl::Duration> settled_at = {};
    // A call about it is under way.
    bool asked = false;
    // How the job's tasks before it ended is known, as far as they have. Only waited for where
    // failures in a row pause the job: another run would come too late.
    bool ends_known = false;
    std::optional<Verdict> verdict = {};
    // Why it is not there yet.
    bool was_full = false;
    std::string trouble = {};
  };
  struct Entry {
    JobState state;
    // Absent when it is not in the file.
    std::optional<core::Job> job = {};
    // By nominal time.
    std::map<absl::Time, Attempt> attempts = {};
    // In the agenda.
    absl::Time look_at = absl::InfiniteFuture();
  };
  // What a call to the director is about.
  struct About {
    enum class What { kSubmit, kAsk, kDirect, kTrigger, kAskTrigger, kBackfill, kEnds, kProbe };
    What what;
    // The job's, or the backfill's.
    std::string name = {};
    absl::Time nominal = {};
    // The trigger's id, and who waits for it.
    std::string trigger = {};
    CallId call = {};
    // Whose ends it asks for.
    std::set<std::string> queue_ids = {};
    absl::Duration sent_at = {};
  };
  struct BackfillPace {
    bool asked = false;
    absl::Duration not_before = {};
  };
  // Whether the director is worth a call.
  struct Link {
    bool up = true;
    bool reachable = true;
    int failures = 0;
    // The probe that was sent last, and when to send the next one.
    OrderId probe = {};
    absl::Duration probe_at = {};
    // When it was heard again after it had been silent.
    absl::Duration back_at = -absl::InfiniteDuration();
  };

  // engine.cc: jobs, time, and what is written down.
  void Adopt(Entry& entry, core::Job job, core::Moment now);
  void FollowFile(Entry& entry, core::Moment now);
  void Leave(Entry& entry, core::Moment now);
  void Look(Entry& entry, core::Moment now);
  void Reschedule(Entry& entry, core::Moment now);
  void NoteClock(core::Moment now);
  DueQuery QueryOf(const Entry& entry, core::Moment now) const;
  void DecideDue(Entry& entry, core::Moment now, bool jitter = true);
  void WriteRow(Entry& entry, core::Firing row);
  void MarkChanged(const Entry& entry) { changed_.insert(entry.state.job); }
  void Tell(std::string event, const std::string& job, std::string text);

  // engine_attempts.cc: from an intent to its row.
  void OpenAttempt(Entry& entry, const core::Occurrence& occurrence, core::Moment now);
  void Revive(Entry& entry, core::Moment now);
  // Lets what waits do so for as long as the job says now, and no more `earlier`.
  void FollowTimes(Entry& entry, const core::Job& earlier);
  void SetVerdict(Attempt& attempt, Verdict verdict);
  void SetVerdicts(Entry& entry, const Verdict& verdict, core::Moment now);
  void CheckWindows(Entry& entry, core::Moment now);
  // Writes its row if nothing of it is open any more.
  void Settle(Entry& entry, absl::Time nominal, core::Moment now);
  void Conclude(Entry& entry, absl::Time nominal, const Verdict& verdict, core::Moment now);
  void ConcludeFired(Entry& entry, absl::Time nominal, const std::string& queue_id,
                     const std::string& detail, core::Moment now);
  // No more of the job's occurrences may run.
  void EndRuns(Entry& entry, core::Moment now);
  void OnAttempt(const About& about, const absl::StatusOr<Accepted>& answer, core::Moment now);
  void OnAsked(const About& about, const absl::StatusOr<Accepted>& answer, core::Moment now);
  void OnDirect(const About& about, const absl::StatusOr<Accepted>& answer, core::Moment now);
  // How the tasks before it ended is known, or could not be learned.
  void OnEndsBefore(const About& about, const absl::Status& status, core::Moment now);
  Entry* FindAttempt(const About& about);

  // engine_orders.cc: what is asked of the director, and when.
  // What the attempts of a job want to ask, and from when on; earlier ones are submitted first.
  struct Wish {
    absl::Time nominal;
    About::What what;
    absl::Duration at;
  };
  std::vector<Wish> WishesOf(const Entry& entry) const;
  void GiveOrders(core::Moment now);
  // Only one, and one more when it is not answered soon: while it is not known whether the director
  // is there. Does not wait for earlier calls, which may hang until kCallTimeout.
  void GiveProbe(core::Moment now);
  // The first call that is due anyway, in place of a probe; false when there is none.
  bool GiveDueOrder(core::Moment now);
  void GiveOrder(Entry& entry, const Wish& wish, core::Moment now);
  // False when none is due.
  bool GiveBackfillOrders(size_t most, core::Moment now);
  void AskTriggers(core::Moment now);
  void AskEnds(core::Moment now);
  void AskEndsOf(About about, core::Moment now);
  OrderId NewOrder(About about, core::Moment now);
  // Learns from the end of a call whether the director is there.
  void NoteLink(OrderId order, absl::Duration sent_at, const absl::Status& status,
                core::Moment now);
  absl::Duration NextOrderAt() const;
  bool HasRoom() const { return calls_ < kCallsMax; }

  // engine_calls.cc: what people ask for.
  absl::StatusOr<Entry*> Find(const std::string& name);
  void BeginPause(Entry& entry, Pause pause, core::Moment now);
  // How many occurrences fell into it. REQUIRES: it is paused.
  uint64_t EndPause(Entry& entry, core::Moment now);
  void OnTriggered(const About& about, const absl::StatusOr<Accepted>& answer, core::Moment now);
  void WriteTriggerRow(Entry& entry, const About& about, const absl::StatusOr<Accepted>& answer,
                       core::Moment now);
  // From before it is submitted until its task has its row, or the director says that there is
  // none.
  void OpenTrigger(Entry& entry, const std::string& id, core::Moment now);
  void CloseTrigger(Entry& entry, const std::string& id);
  void OnTriggerAsked(const About& about, const absl::StatusOr<Accepted>& answer, core::Moment now);
  void OnBackfilled(const About& about, const absl::StatusOr<Accepted>& answer, core::Moment now);
  void MakeRoomForBackfill();
  void EndBackfill(Backfill& backfill, core::Moment now);
  // Asks how the task ends from now on.
  void WatchTask(Entry& entry, const std::string& queue_id);
  // Whether the task is over.
  bool NoteEnd(Entry& entry, const TaskEnd& end);
  void PauseAfterFailures(Entry& entry, core::Moment now);

  // engine_views.cc
  JobView View(const Entry& entry, size_t next, core::Moment now) const;
  // When the first of what is not decided is due.
  static absl::Time DueOf(const Entry& entry);

  std::map<std::string, Entry> jobs_;
  // When to look at which job, by the wall clock.
  std::set<std::pair<absl::Time, std::string>> agenda_;
  // Those with attempts.
  std::map<std::string, Entry*> open_;
  std::map<std::string, Backfill> backfills_;
  std::map<std::string, BackfillPace> paces_;
  // When to ask about which trigger of which job: no submit of it can arrive any more by then.
  std::map<std::pair<std::string, std::string>, absl::Duration> trigger_asks_;
  // Calls under way; to the director, so many.
  std::map<OrderId, About> orders_;
  size_t calls_ = 0;
  OrderId last_order_;
  Link link_;
  // Jobs with tasks whose end is not known; when to ask, and after which job to begin.
  std::set<std::string> watching_;
  absl::Duration ask_ends_at_;
  std::string asked_last_;
  core::Moment last_moment_;
  // Jobs whose state is to be written.
  std::set<std::string> changed_;
  Outcome outcome_;
};

}  // namespace callboard::scheduler

#endif  // CALLBOARD_LIBS_SCHEDULER_ENGINE_H_
