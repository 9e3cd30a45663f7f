#ifndef CALLBOARD_LIBS_DIRECTOR_ENGINE_H_
#define CALLBOARD_LIBS_DIRECTOR_ENGINE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "libs/core/queue.h"
#include "libs/core/record.h"
#include "libs/core/session.h"
#include "libs/core/task.h"
#include "libs/director/engine_types.h"
#include "libs/director/fleet.h"
#include "libs/director/matcher.h"
#include "libs/director/queue_views.h"
#include "libs/director/task_table.h"
#include "libs/director/waiter_queue.h"
#include "libs/ports/environment.h"

namespace callboard::director {

// The rules of the queue as a state machine. Each public call is a command: it decides, applies the
// resulting records, matches ready tasks with free slots, admits waiters, and returns its result.
// Neither the result nor anything in outcome() may be sent before the records are on disk.
//
// Passive and deterministic: no threads, no I/O. Time is an argument; randomness comes from
// `random`, which outlives the engine. Not thread-safe.
//
// Typical paths through the code:
//   submit:      Submit() → Admit() → AddTask() → Settle() → Dispatch()
//   busy answer: OnStartAnswered() → OnStartRejected() → HandleBusy()
//   lost agent:  OnSessionOpened() → ReconcileAbsent(), or OnInFlightDue(); then HandleLostRun(),
//                which fails the task or, if it may be requeued, calls RetryOrFail()
class DirectorEngine {
 public:
  DirectorEngine(const EngineOptions& options, ports::Random& random);
  DirectorEngine(const DirectorEngine&) = delete;
  DirectorEngine& operator=(const DirectorEngine&) = delete;

  // ---- Start ----

  // Applies one record of the store during its Load(). Returns DATA_LOSS when the record is
  // impossible after the records before it. REQUIRES: Begin() was not called.
  absl::Status Recover(const core::Record& record);
  // Starts a new epoch; the first epoch of a new store is the current unix time. Every dispatch
  // that is under way gets a full lease, because only its agent knows whether it still runs.
  void Begin(Moment now);

  // Effects since the last TakeOutcome(); answers since the last TakeAnswers().
  const Outcome& outcome() const { return outcome_; }
  Outcome TakeOutcome();
  std::vector<Outcome::Answer> TakeAnswers() { return std::exchange(outcome_.answers, {}); }

  // ---- Callers ----

  // REQUIRES: `request` was made by MakeSubmitRequest().
  Decision Submit(AdmissionRequest&& request, Moment now);
  // Reserves a place for a later submit. REQUIRES: 0 < lifetime.
  Decision ReserveSlot(const std::string& identity, absl::Duration lifetime, Moment now);
  // Removes a waiter whose caller has gone. Does nothing if it is not waiting.
  void CancelWait(WaiterId waiter, Moment now);
  // Idempotent. Error: NOT_FOUND/TASK_NOT_FOUND.
  absl::StatusOr<CancelResult> Cancel(core::QueueId id, const std::string& who,
                                      const std::string& why, Moment now);
  // Submits a failed or cancelled task again, as a new task with that submission; `who` requested
  // the redrive.
  Decision Redrive(core::QueueId id, core::Submission&& submission, const std::string& who,
                   Moment now);

  // ---- Operators ----

  // Stores who paused the queue, why and when, until Resume(). Pausing a paused queue changes
  // nothing.
  void Pause(const std::string& who, const std::string& why, Moment now);
  // Ends a pause and a drain.
  void Resume(Moment now);
  // Stops admission until Resume(), also after a restart. Stores the same details as Pause().
  void Drain(const std::string& who, const std::string& why, Moment now);
  // Stops admission until the process ends.
  void BeginShutdown(Moment now);
  // Tells the agents that the director will be away for a while, and extends their leases.
  void GoAway(Moment now);
  // Ends all backoffs and suspicions.
  KickResult Kick(Moment now);
  // Error: NOT_FOUND/AGENT_NOT_FOUND for an unknown agent.
  absl::Status DrainAgent(const std::string& name, const std::string& why, Moment now);
  absl::Status UndrainAgent(const std::string& name, Moment now);

  // ---- Agents ----

  // An agent without a Session is listed with the content of its announcement. Error:
  // ALREADY_EXISTS/AGENT_NAME_TAKEN while another instance with that name is connected.
  absl::Status Announce(const core::AgentAnnouncement& announced, Moment now);
  // Errors: INVALID_ARGUMENT for an invalid agent, ALREADY_EXISTS as in Announce(). After an error
  // the caller ends the Session. REQUIRES: the Session was not opened before.
  absl::Status OnSessionOpened(core::AgentSessionId session, const core::SessionOpened& opened,
                               Moment now);
  // Handles messages that arrived together. Ignored when the Session has ended or was replaced.
  void OnMessages(core::AgentSessionId session, absl::Span<const core::AgentMessage> messages,
                  Moment now);
  // An open Session has ended; `why` may have the reason ports::kMessageTooLarge.
  void OnSessionClosed(core::AgentSessionId session, const absl::Status& why, Moment now);
  // A Session could not be opened.
  void OnUnreachable(const std::string& name, const absl::Status& why, Moment now);
  // A copy of a start could not be written to its Session.
  void OnStartNotSent(const core::FenceToken& token, Moment now);

  // ---- Time ----

  // Fires all timers that are due at `now`.
  void FireTimers(Moment now);
  // Returns the time until the next timer; infinite if there is none. At most a second while a
  // timer depends on the wall clock, which may jump.
  absl::Duration TimeUntilNextTimer(Moment now) const;

  // ---- Reads ----

  // The state as users see it, as of now.
  QueueViews views() const {
    return QueueViews({.options = options_,
                       .tasks = tasks_,
                       .fleet = fleet_,
                       .matcher = matcher_,
                       .waiter_queue = waiter_queue_,
                       .tickets = tickets_,
                       .drain_rate = drain_rate_,
                       .delayed = delayed_,
                       .is_draining = is_draining(),
                       .can_dispatch = can_dispatch()});
  }
  const TaskTable& tasks() const { return tasks_; }
  const Fleet& fleet() const { return fleet_; }
  const WaiterQueue& waiter_queue() const { return waiter_queue_; }
  uint64_t epoch() const { return tasks_.epoch(); }
  // Whether GoAway() was called. Nothing is dispatched after that.
  bool is_going_away() const { return lease_extension_ > absl::ZeroDuration(); }

 private:
  // The part of an event that does not depend on the change of the task.
  struct EventDetails {
    core::TaskEventKind kind;
    std::string who;
    std::string why;
    std::optional<core::Fault> fault = {};
    // The agent of an event while no agent has the task.
    std::string agent = {};
  };
  // A dispatch that ended without a final result of the task.
  struct FailedDispatch {
    uint64_t sequence;
    bool counts_as_attempt = false;
    core::DispatchFailure failure = core::DispatchFailure::kNone;
    absl::Duration backoff = {};
    // Reason for the failure of the task if no attempt is left.
    core::FailureReason final_reason = core::FailureReason::kMaxAttempts;
    std::string who;
    std::string why;
    std::optional<core::Fault> fault;
    std::optional<core::RunResult> run = {};
  };

  bool can_dispatch() const { return !tasks_.switches().paused && !is_going_away(); }

  // ---- State changes (engine.cc) ----

  // Adds a record to the outcome and applies it to `tasks_`: the only way to change the table.
  // Returns the record in the outcome, so that its descriptive fields can be completed.
  core::Record& Write(core::Record&& record);
  core::TaskEvent MakeEvent(const core::TaskState& task, const EventDetails& details,
                            Moment now) const;
  // Writes a change of a task, and updates its slot, its timers, the matcher, and the tasks that
  // waited for it.
  void WriteTask(Entry& entry, const EventDetails& details, core::TaskChange change, Moment now);
  // Writes an event that does not change the task.
  void WriteEvent(const Entry& entry, const EventDetails& details, Moment now,
                  core::DispatchNumber dispatch = {});
  // Sets the timers of an entry after a change of its state.
  void ResetTimers(Entry& entry, Moment now);
  absl::Duration LeaseEnd(absl::Duration last_seen_at) const {
    return last_seen_at + options_.lease.redispatch_after + lease_extension_;
  }
  // Enters the next timer of the task into the `TaskTimers`.
  void ArmTimers(Entry& entry, Moment now);
  // Arms the timers of the task, and adds it to the matcher if it is ready.
  void OfferToMatcher(Entry& entry, Moment now);
  bool IsReadyNow(const Entry& entry, Moment now) const;
  // Returns the number of tasks in flight with the same overlap key.
  uint64_t OverlapInFlight(const core::TaskState& task) const;
  // Reconsiders pending tasks with the same overlap key after the number in flight has changed from
  // `before`.
  void OfferOverlapping(const core::TaskState& task, uint64_t before, Moment now);
  // Repeats until nothing changes: wakes pending tasks, dispatches, admits waiters, and forgets old
  // tasks. Every command ends with it.
  void Settle(Moment now);
  bool WakeNext(Moment now);
  bool DispatchNext(Moment now);
  void RecordDenials(Moment now);
  // Returns whether this made a waiting task ready.
  bool ForgetEndedTasks(Moment now);
  void ForgetExpiredRequests(Moment now);

  // ---- Admission (engine_admission.cc) ----

  struct AdmissionPlan;
  Decision Admit(AdmissionRequest& request, bool arriving, Moment now);
  std::optional<Decision> FindDuplicate(const AdmissionRequest& request, Moment now);
  absl::Status CheckOverlap(const AdmissionRequest& request, AdmissionPlan& plan) const;
  // The reason why there is no place. The error is built only when it is sent, because most callers
  // wait.
  enum class NoPlaceReason { kQueueFull, kShareUsedUp, kTicketExpired };
  std::optional<NoPlaceReason> FindPlace(const AdmissionRequest& request, AdmissionPlan& plan,
                                         Moment now) const;
  Decision WaitOrReject(AdmissionRequest& request, NoPlaceReason why, bool arriving, Moment now);
  Decision AddToWaiterQueue(AdmissionRequest& request, Moment now);
  // Ends the tasks that the new task replaces.
  void EndDisplacedTasks(const AdmissionPlan& plan, const std::string& who, core::QueueId new_task,
                         Moment now);
  SubmitResult AddTask(AdmissionRequest& request, const AdmissionPlan& plan, Moment now);
  // Answers waiters with the request id of a task that was just admitted: they need no place.
  void AnswerDuplicates(const core::TaskState& task, Moment now);
  SubmitResult DuplicateResult(const Entry& entry) const;
  Decision AdmitTicket(AdmissionRequest& request, bool arriving, Moment now);
  bool AdmitNextWaiter(Moment now);
  absl::Status NoPlaceError(NoPlaceReason why, core::QueuePolicy policy, Moment now) const;
  absl::Status FullError(core::QueuePolicy policy, Moment now) const;
  absl::Status ShareError(core::QueuePolicy policy, Moment now) const;
  absl::Status DrainingError(Moment now) const;
  uint64_t SchedulerPlaces() const;
  bool is_draining() const { return shutting_down_ || tasks_.switches().draining; }
  bool is_bounded() const { return options_.queue.max_size > 0; }
  // Returns whether there is no place for one more task after `freed` tasks have ended for it.
  bool IsFull(uint64_t freed = 0) const {
    return is_bounded() &&
           tasks_.counts().pending + tickets_.size() - freed >= options_.queue.max_size;
  }
  core::QueuePolicy PolicyOf(const core::Submission& submission) const {
    return submission.policy.value_or(options_.queue.policy);
  }
  void RejectWaiters(const absl::Status& why);
  void SetSwitches(const core::QueueSwitched& switches, Moment now);

  // ---- Dispatch (engine_dispatch.cc) ----

  void Dispatch(Entry& entry, Agent& agent, Moment now);
  void SendStart(Entry& entry);
  void MarkRunning(Entry& entry, Moment now);
  void HandleBusy(Entry& entry, Agent& agent, Moment now);
  void FinishRun(Entry& entry, const core::RunResult& result, Moment now);
  void HandleLostRun(Entry& entry, const std::string& why, Moment now);
  // Puts the task back in its position with a backoff. The agent is at fault, and the attempt
  // counts. `retry_after` is the agent's RetryInfo.
  void RetryAfterBackoff(Entry& entry, const std::string& who, const std::string& why,
                         std::optional<absl::Duration> retry_after, Moment now);
  void AbandonStart(Entry& entry, bool counts, const std::string& why, Moment now);
  // Handles the end of a start's lease without an answer.
  void OnStartUnanswered(Entry& entry, Moment now);
  void RetryOrFail(Entry& entry, const FailedDispatch& dispatch, Moment now);
  void EndTask(Entry& entry, core::TaskEnded ended, const EventDetails& details, Moment now);
  void EndCancelled(Entry& entry, const std::string& who, const std::string& why,
                    std::optional<core::RunResult> run, Moment now);

  // ---- Messages of agents (engine_agents.cc) ----

  void OnStartAnswered(Agent& agent, const core::StartAnswer& start, Moment now);
  void OnStartRejected(Entry& entry, Agent& agent, const absl::Status& error, Moment now);
  void OnRunEnded(Agent& agent, const core::RunEnded& ended, Moment now);
  void OnHeartbeat(Agent& agent, const core::Heartbeat& heartbeat, Moment now);
  void OnLoad(Agent& agent, const core::LoadReport& load);
  absl::Status CheckAgent(const std::string& name, const std::string& instance_id);
  void EndLeaseExtension();
  void Reconcile(Agent& agent, const core::SessionOpened& opened, Moment now);
  void ReconcileAbsent(Entry& entry, Agent& agent, bool was_lost, Moment now);
  void AdoptRun(Entry& entry, Moment now);
  // Returns the task of the dispatch that `token` names if it is under way on that agent; else
  // null.
  Entry* FindDispatch(const Agent& agent, const core::FenceToken& token);
  void Send(const Agent& agent, core::DirectorMessage message);
  void SendTo(const std::string& agent, core::DirectorMessage message);
  void CountInfrastructureError(Agent& agent, core::QueueId task);
  void OnMessageTooLarge(Agent& agent);
  void MarkAgent(Agent& agent, bool draining, bool cordoned, const std::string& why);

  // ---- Timers (engine_control.cc) ----

  void OnPendingDue(Entry& entry, Moment now);
  void OnInFlightDue(Entry& entry, Moment now);

  const EngineOptions options_;
  ports::Random& random_;

  TaskTable tasks_;
  Fleet fleet_;
  Matcher matcher_;
  WaiterQueue waiter_queue_;
  Tickets tickets_;
  // pending: ends of backoffs. wall: earliest starts and deadlines. in flight: leases, repeated
  // sends, and guards.
  TaskTimers<absl::Duration> pending_timers_;
  TaskTimers<absl::Time> wall_timers_;
  TaskTimers<absl::Duration> in_flight_timers_;
  // Last time when Settle() ran. After it no free slot and no free place is left that a task or a
  // waiter could use.
  absl::Duration settled_at_ = -absl::InfiniteDuration();
  core::DrainRate drain_rate_;
  // Pending tasks in backoff or before their earliest start.
  uint64_t delayed_ = 0;
  core::Ulid last_id_;
  bool shutting_down_ = false;
  // The lease extension that was announced to the agents.
  absl::Duration lease_extension_ = {};
  Outcome outcome_;
};

}  // namespace callboard::director

#endif  // CALLBOARD_LIBS_DIRECTOR_ENGINE_H_
