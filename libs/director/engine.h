#ifndef CALLBOARD_LIBS_DIRECTOR_ENGINE_H_
#define CALLBOARD_LIBS_DIRECTOR_ENGINE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "libs/core/drain_rate.h"
#include "libs/core/queue.h"
#include "libs/core/record.h"
#include "libs/core/session.h"
#include "libs/core/task.h"
#include "libs/director/agenda.h"
#include "libs/director/agent_view.h"
#include "libs/director/book.h"
#include "libs/director/fleet.h"
#include "libs/director/matcher.h"
#include "libs/director/moment.h"
#include "libs/director/task_step.h"
#include "libs/director/waiting_line.h"
#include "libs/ports/random.h"

namespace callboard::director {

struct EngineOptions {
  core::QueueOptions queue = {};
  core::LeaseOptions lease = {};
  core::RetentionOptions retention = {};

  friend bool operator==(const EngineOptions&, const EngineOptions&) = default;
};

// The answer to a submit that was accepted, now or before.
struct Submitted {
  core::QueueId queue_id = {};
  // As admitted, pending with its place; of one that was accepted before, as it is now.
  core::TaskState state = core::TaskState::kPending;
  uint64_t position = 0;
  bool deduplicated = false;
  // Of one that was accepted now; else without a spec.
  core::Admitted admitted = {};
  absl::Time created_at = {};
};

// A place in the queue, held for a while.
struct TicketGranted {
  std::string ticket;
  absl::Time expires_at;
};

// What becomes of somebody at the door. One who waits gets another decision later.
using Decision = std::variant<absl::Status, Submitted, TicketGranted, WaiterId>;

// A place in the list of all tasks.
struct ListCursor {
  // The sequence number of a live task; or, absent, that of an ended one.
  std::optional<uint64_t> live = {};
  std::pair<absl::Time, core::QueueId> ended = {};

  friend bool operator==(const ListCursor&, const ListCursor&) = default;
};

// Tasks that run one after the other on one agent.
struct SessionView {
  std::string session_id = {};
  // The agent that has it; empty before the first dispatch.
  std::string agent = {};
  uint64_t queued = 0;
  std::optional<core::QueueId> running = {};
  absl::Time active_at = {};
};

// Sessions that have live tasks, by name: so many behind this one. Where `next` is present there
// may be more, also when the page is not full.
struct SessionQuery {
  std::string after = {};
  size_t page_size = 50;
};
struct SessionPage {
  std::vector<SessionView> sessions = {};
  std::optional<std::string> next = {};
};

// What a kick has ended.
struct Kicked {
  uint32_t backoffs = 0;
  uint32_t suspicions = 0;
};

enum class CancelAnswer { kCancelled, kRequested, kAlreadyEnded };

// What is known of a task beside what its own records say.
struct Glance {
  core::QueueId queue_id;
  core::TaskState state = core::TaskState::kPending;
  core::DispatchNumber dispatch;
  uint64_t position = 0;
  std::optional<core::QueueId> redriven_as;
};

// Tasks to be listed: those that match all that is given.
struct ListQuery {
  // Any state when empty.
  std::set<core::TaskState> states = {};
  std::optional<core::TaskSource> source = {};
  std::string source_job = {};
  std::string job_type = {};
  std::string session_id = {};
  std::string label = {};
  // Of the label; any when absent.
  std::optional<std::string> label_value = {};
  std::optional<bool> ready = {};
  size_t page_size = 50;
  // Behind this one.
  std::optional<ListCursor> after = {};
};

// Live tasks in line order, then ended ones, the last ended first. Where `next` is present there
// may be more, also when the page is not full: a page looks at a bounded number of tasks.
struct ListPage {
  struct Item {
    Glance glance;
    ListCursor here;
  };
  std::vector<Item> tasks;
  std::optional<ListCursor> next;
};

// NOT_FOUND/TASK_NOT_FOUND
absl::Status TaskNotFound(core::QueueId id);
// NOT_FOUND/AGENT_NOT_FOUND
absl::Status AgentNotFound(const std::string& name);

// Why a task has not started.
struct Explanation {
  struct Verdict {
    std::string agent;
    bool fits = false;
    std::string why_not;
  };

  core::TaskState state = core::TaskState::kPending;
  uint64_t position = 0;
  // Pending tasks ahead of it that start as soon as one of their agents has a free slot.
  uint64_t ready_ahead = 0;
  // The whole answer in one sentence.
  std::string summary = {};
  // Of a task in backoff or delayed.
  std::optional<absl::Time> not_before = {};
  std::vector<Verdict> agents = {};
  // Absent when no rate was measured, the queue dispatches nothing, or no agent serves the task.
  std::optional<absl::Time> estimated_start_at = {};
};

// What follows from commands: to be committed first, and only then to be said.
struct Outcome {
  struct Answer {
    WaiterId waiter;
    Decision decision;
  };
  struct Message {
    core::SessionId session;
    core::DirectorItem item;
  };

  std::vector<core::Record> records = {};
  // One for each of them that changes a task, in the same order.
  std::vector<TaskStep> steps = {};
  // Each beside a message that says so to its agent.
  std::vector<OrphanResult> orphans = {};
  std::vector<Answer> answers = {};
  std::vector<Message> messages = {};

  bool empty() const { return records.empty() && answers.empty() && messages.empty(); }
};

// The rules of the queue as a state machine. Each call is a command: it decides, applies the
// records that follow from it, matches ready tasks with free slots, lets waiters in, and returns
// its answer. Nobody may hear the answer, nor anything in the outcome, before the records are on
// disk.
//
// Passive and pure: no threads, no I/O; time comes in as an argument and chance from `random`,
// which outlives the engine. Not thread-safe.
//
// The way of a submit: Submit() → Admit() → AddTask() → Settle() → Dispatch(). Of a 409:
// OnStartAnswered() → OnRefused() → Bounce(). Of a lost agent: OnOpened() → ReconcileAbsent(), or
// OnInFlightDue(); then Lose(), which fails the task or, if it may be requeued, ReturnOrFail().
class DirectorEngine {
 public:
  DirectorEngine(const EngineOptions& options, ports::Random& random);
  DirectorEngine(const DirectorEngine&) = delete;
  DirectorEngine& operator=(const DirectorEngine&) = delete;

  // ---- Beginning ----

  // A record of the store, as its Load() hands them over. DATA_LOSS when no director can have
  // written it after those before. REQUIRES: not yet begun.
  absl::Status Recover(const core::Record& record);
  // Begins a new epoch; a new store's first is the unix time. Every dispatch under way gets a full
  // lease: its agent knows best.
  void Begin(Moment now);

  // What has followed since the last TakeOutcome(); of the answers, since the last TakeAnswers().
  const Outcome& outcome() const { return outcome_; }
  Outcome TakeOutcome();
  std::vector<Outcome::Answer> TakeAnswers() { return std::exchange(outcome_.answers, {}); }

  // ---- Callers ----

  // REQUIRES: it is a Submitter().
  Decision Submit(Caller&& caller, Moment now);
  // Asks for a place to submit into later. REQUIRES: 0 < lifetime.
  Decision ReserveSlot(const std::string& identity, absl::Duration lifetime, Moment now);
  // The caller has gone. Nothing happens to one that is no longer waiting.
  void Leave(WaiterId waiter, Moment now);
  // Idempotent. NOT_FOUND/TASK_NOT_FOUND.
  absl::StatusOr<CancelAnswer> Cancel(core::QueueId id, const std::string& who,
                                      const std::string& why, Moment now);
  // Submits a failed or cancelled task again, as a new one. `spec`: the old one's; `who` asks.
  Decision Redrive(core::QueueId id, const core::TaskSpec& spec, const std::string& who,
                   Moment now);

  // ---- Operators ----

  // Who, why and when is kept until it ends; a repeated pause changes nothing.
  void Pause(const std::string& who, const std::string& why, Moment now);
  // Ends a pause and a drain.
  void Resume(Moment now);
  // Stops admission until Resume(), over restarts. Likewise.
  void Drain(const std::string& who, const std::string& why, Moment now);
  // Stops admission for the rest of this process's life.
  void BeginShutdown(Moment now);
  // Tells the agents that the director will be away for a while.
  void GoAway(Moment now);
  // Ends all backoffs and suspicions.
  Kicked Kick(Moment now);
  // NOT_FOUND/AGENT_NOT_FOUND for an agent that was never heard of.
  absl::Status DrainAgent(const std::string& name, const std::string& why, Moment now);
  absl::Status UndrainAgent(const std::string& name, Moment now);

  // ---- Agents ----

  // ALREADY_EXISTS/AGENT_NAME_TAKEN while another life of that name is connected.
  // An agent that has no Session is shown as it announced itself.
  absl::Status Announce(const core::AgentAnnounced& announced, Moment now);
  // INVALID_ARGUMENT when it says what no agent may, ALREADY_EXISTS as Announce(); then the Session
  // is to be ended. REQUIRES: the Session was not opened before.
  absl::Status OnOpened(core::SessionId session, const core::AgentOpened& opened, Moment now);
  // What came in one message. Ignored when the Session has ended or was replaced.
  void OnItems(core::SessionId session, absl::Span<const core::AgentItem> items, Moment now);
  // A Session that was opened has ended; `why` may have the reason ports::kMessageTooLarge.
  void OnBroken(core::SessionId session, const absl::Status& why, Moment now);
  // A Session could not be opened.
  void OnUnreachable(const std::string& name, const absl::Status& why, Moment now);
  // A copy of a start could not be handed to its Session.
  void OnNotWritten(const core::FenceToken& token, Moment now);

  // ---- Time ----

  // Does whatever is due.
  void FireTimers(Moment now);
  // How long until something is; for ever when nothing is. At most a second while something waits
  // for the wall clock, which may jump.
  absl::Duration UntilNextTimer(Moment now) const;

  // ---- Reads ----

  core::QueueStatus Status(Moment now) const;
  // NOT_FOUND/TASK_NOT_FOUND.
  absl::StatusOr<Glance> Look(core::QueueId id) const;
  ListPage List(const ListQuery& query) const;
  absl::StatusOr<Explanation> Explain(core::QueueId id, Moment now) const;
  // NOT_FOUND/AGENT_NOT_FOUND.
  absl::StatusOr<AgentView> LookAtAgent(const std::string& name, Moment now) const;
  SessionPage ListSessions(const SessionQuery& query) const;
  AgentPage ListAgents(const AgentQuery& query, Moment now) const;
  const Book& book() const { return book_; }
  const Fleet& fleet() const { return fleet_; }
  const WaitingLine& waiting_line() const { return line_; }
  uint64_t epoch() const { return book_.epoch(); }
  // Whether it starts as soon as one of its agents has a free slot.
  bool IsReady(core::QueueId id) const;
  // Whether it said so: then nothing is dispatched any more.
  bool is_going_away() const { return lease_extension_ > absl::ZeroDuration(); }

 private:
  // What is said of an event beside its change.
  struct Remark {
    core::TaskEventKind kind;
    std::string who;
    std::string why;
    std::optional<core::Fault> fault = {};
    // Of an event whose task no agent has, if it belongs to one all the same.
    std::string agent = {};
  };
  // How a dispatch came to nothing.
  struct Return {
    uint64_t sequence;
    bool counts = false;
    core::Blame blame = core::Blame::kNobody;
    absl::Duration backoff = {};
    // Of the task, when no attempt is left.
    core::FailureReason final_reason = core::FailureReason::kMaxAttempts;
    std::string who;
    std::string why;
    std::optional<core::Fault> fault;
    std::optional<core::RunResult> run = {};
  };

  // engine_views.cc
  Glance GlanceAt(const Entry& entry) const;
  bool IsListed(const Entry& entry, const ListQuery& query) const;
  bool dispatches() const { return !book_.switched().paused && !is_going_away(); }
  std::string WhyPending(const Entry& entry, const Explanation& explanation, Moment now) const;

  // engine.cc: the one way to change anything, and what follows from every change.
  // The record as it is in the outcome: what it says for people may still be completed.
  core::Record& Write(core::Record&& record);
  core::TaskEvent EventOf(const core::Life& life, const Remark& remark, Moment now) const;
  void WriteTask(Entry& entry, const Remark& remark, core::TaskChange change, Moment now);
  // Something to remember that changes nothing.
  void Note(const Entry& entry, const Remark& remark, Moment now,
            core::DispatchNumber dispatch = {});
  void StartClocks(Entry& entry, Moment now);
  absl::Duration LeaseFrom(absl::Duration heard_at) const {
    return heard_at + options_.lease.redispatch_after + lease_extension_;
  }
  void Watch(Entry& entry, Moment now);
  void Offer(Entry& entry, Moment now);
  bool IsReadyNow(const Entry& entry, Moment now) const;
  Demand DemandOf(const Entry& entry) const;
  // How many tasks of its overlap key are in flight.
  uint64_t InFlightBeside(const core::Life& life) const;
  // Tasks of its overlap key that may start, or no longer may, since so many were in flight.
  void OfferOverlapping(const core::Life& life, uint64_t before, Moment now);
  void Settle(Moment now);
  bool WakeNext(Moment now);
  bool DispatchNext(Moment now);
  void NoteDenials(Moment now);
  // Whether something that waited may start because of it.
  bool Retain(Moment now);
  void RetainRequests(Moment now);

  // engine_admission.cc: the door.
  struct Place;
  Decision Admit(Caller& caller, bool arriving, Moment now);
  std::optional<Decision> FindSame(const Caller& caller, Moment now);
  // Whether the caller asks for the task that `known` was made of.
  bool IsSameRequest(const core::Fingerprint& known, const Caller& caller) const;
  absl::Status CheckOverlap(const Caller& caller, Place& place) const;
  // Why there is no place. Its error is made only for who is refused: most callers wait.
  enum class NoPlace { kQueueFull, kShareUsedUp, kTicketExpired };
  std::optional<NoPlace> FindPlace(const Caller& caller, Place& place, Moment now) const;
  Decision WaitOrRefuse(Caller& caller, NoPlace why, bool arriving, Moment now);
  Decision WaitInLine(Caller& caller, Moment now);
  // Ends the tasks that a newcomer takes the place of.
  void MakeWay(const Place& place, const std::string& who, core::QueueId newcomer, Moment now);
  Submitted AddTask(Caller& caller, const Place& place, Moment now);
  // Callers that wait with the request id of a task that is admitted now need no place.
  void AnswerSame(const core::Life& life, Moment now);
  Submitted AsBefore(const Entry& entry) const;
  Decision AdmitTicket(Caller& caller, bool arriving, Moment now);
  bool AdmitNextWaiter(Moment now);
  absl::Status ErrorOf(NoPlace why, core::QueuePolicy policy, Moment now) const;
  absl::Status FullError(core::QueuePolicy policy, Moment now) const;
  absl::Status ShareError(core::QueuePolicy policy, Moment now) const;
  absl::Status DrainingError(Moment now) const;
  uint64_t SchedulerPlaces() const;
  bool is_draining() const { return shutting_down_ || book_.switched().draining; }
  bool is_bounded() const { return options_.queue.max_size > 0; }
  // Whether there is no place for one more, when `freed` are given up for it.
  bool IsFull(uint64_t freed = 0) const {
    return is_bounded() &&
           book_.counts().pending + tickets_.size() - freed >= options_.queue.max_size;
  }
  core::QueuePolicy PolicyOf(const core::Submission& submission) const {
    return submission.policy.value_or(options_.queue.policy);
  }
  void DismissWaiters(const absl::Status& why);
  void Switch(const core::QueueSwitched& wanted, Moment now);

  // engine_dispatch.cc: how dispatches begin and end.
  void Dispatch(Entry& entry, Agent& agent, Moment now);
  void SayStart(Entry& entry);
  void Accept(Entry& entry, Moment now);
  void Bounce(Entry& entry, Agent& agent, Moment now);
  void Finish(Entry& entry, const core::RunResult& result, Moment now);
  void Lose(Entry& entry, const std::string& why, Moment now);
  // Back to its place after a backoff: the agent's fault, and counted. `asked`: its RetryInfo.
  void TryLater(Entry& entry, const std::string& who, const std::string& why,
                std::optional<absl::Duration> asked, Moment now);
  void GiveUpStart(Entry& entry, bool counts, const std::string& why, Moment now);
  // The lease of a start ended without an answer.
  void OnStartUnanswered(Entry& entry, Moment now);
  void ReturnOrFail(Entry& entry, const Return& returned, Moment now);
  void End(Entry& entry, core::Ended ended, const Remark& remark, Moment now);
  void EndCancelled(Entry& entry, const std::string& who, const std::string& why,
                    std::optional<core::RunResult> run, Moment now);

  // engine_agents.cc: what agents say.
  void OnStartAnswered(Agent& agent, const core::StartAnswered& answered, Moment now);
  void OnRefused(Entry& entry, Agent& agent, const absl::Status& refusal, Moment now);
  void OnRunEnded(Agent& agent, const core::RunEnded& ended, Moment now);
  void OnHeartbeat(Agent& agent, const core::Heartbeat& heartbeat, Moment now);
  void OnLoad(Agent& agent, const core::LoadReported& load);
  absl::Status CheckNewcomer(const std::string& name, const std::string& instance_id);
  void EndExtension();
  void Reconcile(Agent& agent, const core::AgentOpened& opened, Moment now);
  void ReconcileAbsent(Entry& entry, Agent& agent, bool was_lost, Moment now);
  void Adopt(Entry& entry, Moment now);
  // The dispatch that the token names, if it is under way on that agent; else null.
  Entry* Current(const Agent& agent, const core::FenceToken& token);
  void Say(const Agent& agent, core::DirectorItem item);
  void SayTo(const std::string& agent, core::DirectorItem item);
  void NoteInfrastructureError(Agent& agent, core::QueueId task);
  void OnMessageTooLarge(Agent& agent);
  void MarkAgent(Agent& agent, bool draining, bool cordoned, const std::string& why);

  // engine_control.cc
  void OnPendingDue(Entry& entry, Moment now);
  void OnInFlightDue(Entry& entry, Moment now);

  const EngineOptions options_;
  ports::Random& random_;

  Book book_;
  Fleet fleet_;
  Matcher matcher_;
  WaitingLine line_;
  Tickets tickets_;
  // Ends of backoffs; earliest starts and deadlines; leases, repeats and guards.
  Agenda<absl::Duration> pending_agenda_;
  Agenda<absl::Time> wall_agenda_;
  Agenda<absl::Duration> in_flight_agenda_;
  // When it was last seen to that no free slot and no place is left to whoever could have it.
  absl::Duration settled_at_ = -absl::InfiniteDuration();
  core::DrainRate drain_rate_;
  // Pending tasks whose time has not come.
  uint64_t delayed_ = 0;
  core::Ulid last_id_;
  bool shutting_down_ = false;
  // What agents were told that leases last longer by.
  absl::Duration lease_extension_ = {};
  Outcome outcome_;
};

}  // namespace callboard::director

#endif  // CALLBOARD_LIBS_DIRECTOR_ENGINE_H_
