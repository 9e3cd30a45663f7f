// The start of a dispatch, and every way in which it can end.
#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/core/dispatch_rules.h"
#include "libs/director/engine.h"

namespace callboard::director {
namespace {

using core::DispatchFailure;
using core::FailureReason;
using core::Fault;
using core::LifecycleState;
using core::RunResult;
using core::TaskEventKind;

// Two agents that were lost while they ran the same task are not a coincidence.
constexpr size_t kPoisonAgents = 2;

bool Matches(const core::RetryRule& rule, const RunResult& run) {
  using Kind = core::RetryRule::Kind;
  const bool timed_out = run.end == RunResult::End::kTimedOut;
  switch (rule.kind) {
    case Kind::kTimeout:
      return timed_out;
    case Kind::kSignal:
      return !timed_out && run.signal == rule.signal;
    case Kind::kExitCode:
      return !timed_out && run.exit_code == rule.exit_code;
    case Kind::kAnyExit:
      return !timed_out && run.exit_code.value_or(0) != 0;
  }
  return false;
}

TaskEventKind FailureEvent(FailureReason reason) {
  return reason == FailureReason::kTimedOut ? TaskEventKind::kTimeout : TaskEventKind::kFailed;
}

}  // namespace

void DirectorEngine::Dispatch(Entry& entry, Agent& agent, Moment now) {
  WriteTask(entry, {TaskEventKind::kDispatching, "director", "", /*fault=*/{}, agent.name},
            core::TaskDispatched{
                .dispatch = core::DispatchNumber(entry.task.dispatch.value() + 1),
                .director_epoch = tasks_.epoch(),
                .instance_id = agent.instance_id,
                .agent_url = agent.url,
            },
            now);
  entry.timers.agent_time = agent.agent_time;
  entry.timers.lease_until = LeaseEnd(agent.last_seen_at);
  ArmTimers(entry, now);
  SendStart(entry);
}

void DirectorEngine::SendStart(Entry& entry) {
  const Agent& agent = fleet_.Get(entry.task.history->agent);
  if (!agent.is_connected()) return;
  ++entry.timers.starts_sent;
  Send(agent, core::StartRun{.token = entry.task.token(),
                             .spec = entry.spec,
                             .agent_time = entry.timers.agent_time,
                             .trace = entry.task.dispatch_trace()});
}

void DirectorEngine::MarkRunning(Entry& entry, Moment now) {
  WriteTask(entry, {TaskEventKind::kRunning, entry.task.history->agent, ""}, core::StartAccepted(),
            now);
  Agent& agent = fleet_.Get(entry.task.history->agent);
  agent.unreachable.failures = 0;
  agent.unanswered = {};
  agent.lanes[entry.task.terms->lane].busy_in_a_row = 0;
  if (entry.task.is_cancel_requested()) {
    Send(agent, core::CancelRun{entry.task.token()});
  }
}

// The busy rule. An agent answers a start busy (ABORTED/AGENT_BUSY, "409") when the lane has no
// free slot.
//
// The task:
//   - It is pending again, without a backoff, and the dispatch does not count as an attempt.
//   - Busy answers 1 to 4 give it a new sequence number, which puts it at the back of the queue.
//     From the fifth one on (core::kKeepsPlaceFromBusyAnswer) it keeps its number, so that it does
//     not starve. Its record then also replaces the records since the previous busy answer
//     (WriteTask()), so that the history stays bounded.
//
// The lane:
//   - It counts as full until the agent's next load report (OnLoad()). From the third busy answer
//     in a row on (kBusyBeforeHeartbeat), until a load report that comes with or after a heartbeat.
//     Otherwise an agent that answers busy and also reports a free slot would get starts in a loop.
//   - An accepted start ends the row (MarkRunning()).
//   - The agent is at fault only if its last report showed a free slot.
void DirectorEngine::HandleBusy(Entry& entry, Agent& agent, Moment now) {
  const core::TaskState& task = entry.task;
  AgentLane& lane = agent.lanes[task.terms->lane];
  // Otherwise something else took the slot while the start was on its way.
  const std::optional<Fault> fault =
      lane.reported < lane.slots ? std::optional(Fault::kAgent) : std::nullopt;
  lane.answered_busy = true;
  lane.heartbeat_since_busy = false;
  ++lane.busy_in_a_row;
  const uint32_t busy_answers = task.history->busy_rejections + 1;
  WriteTask(entry, {TaskEventKind::kBusy, agent.name, "the agent is busy (409)", fault},
            core::StartAnsweredBusy{.dispatched = {.dispatch = task.dispatch,
                                                   .director_epoch = task.history->director_epoch,
                                                   .instance_id = task.history->instance_id,
                                                   .agent_url = task.history->agent_url},
                                    .dispatched_at = task.history->dispatched_at,
                                    .sequence = busy_answers < core::kKeepsPlaceFromBusyAnswer
                                                    ? tasks_.next_sequence()
                                                    : task.sequence,
                                    .busy_rejections = busy_answers},
            now);
}

void DirectorEngine::FinishRun(Entry& entry, const RunResult& result, Moment now) {
  const core::TaskState& task = entry.task;
  const std::string agent = task.history->agent;
  if (task.is_cancel_requested()) {
    EndCancelled(entry, agent, "the run has ended", result, now);
    return;
  }
  if (result.end == RunResult::End::kCancelled) {
    HandleLostRun(entry, "the agent ended the run without a cancel", now);
    return;
  }
  if (result.end == RunResult::End::kNotStarted) {
    // The agent is at fault, not the task, although the agent had accepted the start.
    CountInfrastructureError(fleet_.Get(agent), task.queue_id);
    RetryOrFail(entry,
                {.sequence = task.sequence,
                 .counts_as_attempt = true,
                 .failure = DispatchFailure::kAgentFailed,
                 .backoff = core::BackoffAfter(task.queue_id, task.attempts + 1, {}),
                 .who = agent,
                 .why = result.error.empty() ? "the agent could not start the task" : result.error,
                 .fault = Fault::kAgent,
                 .run = result},
                now);
    return;
  }
  fleet_.Get(agent).failed_tasks.clear();
  if (result.end == RunResult::End::kCompleted) {
    EndTask(entry, {.state = LifecycleState::kCompleted, .run = result},
            {TaskEventKind::kDone, agent, ""}, now);
    return;
  }
  const bool timed_out = result.end == RunResult::End::kTimedOut;
  const FailureReason reason = timed_out ? FailureReason::kTimedOut : FailureReason::kExecFailed;
  const std::string why = !result.error.empty()    ? result.error
                          : timed_out              ? "the run exceeded its timeout"
                          : !result.signal.empty() ? absl::StrCat("killed by ", result.signal)
                          : result.exit_code.has_value()
                              ? absl::StrCat("exited with ", *result.exit_code)
                              : "failed without an exit code";
  const auto& rules = task.terms->retry_on;
  const bool retry = std::any_of(rules.begin(), rules.end(),
                                 [&result](const auto& rule) { return Matches(rule, result); });
  if (retry) {
    RetryOrFail(entry,
                {.sequence = tasks_.next_sequence(),
                 .counts_as_attempt = true,
                 .backoff = core::BackoffAfter(task.queue_id, task.attempts + 1, {}),
                 .final_reason = reason,
                 .who = agent,
                 .why = why,
                 .fault = Fault::kTask,
                 .run = result},
                now);
    return;
  }
  EndTask(entry,
          {.state = LifecycleState::kFailed,
           .reason = reason,
           .counts_as_attempt = true,
           .run = result,
           .error = why},
          {FailureEvent(reason), agent, why, Fault::kTask}, now);
}

void DirectorEngine::HandleLostRun(Entry& entry, const std::string& why, Moment now) {
  const core::TaskState& task = entry.task;
  if (!task.is_cancel_requested() && task.terms->on_agent_lost != core::OnAgentLost::kRequeue) {
    EndTask(entry,
            {.state = LifecycleState::kFailed,
             .reason = FailureReason::kAgentLost,
             .counts_as_attempt = true,
             .failure = DispatchFailure::kAgentLost,
             .error = why},
            {TaskEventKind::kFailed, "director", why, Fault::kAgent}, now);
    return;
  }
  RetryOrFail(entry,
              {.sequence = task.sequence,
               .counts_as_attempt = true,
               .failure = DispatchFailure::kAgentLost,
               .final_reason = FailureReason::kAgentLost,
               .who = "director",
               .why = why,
               .fault = Fault::kAgent},
              now);
}

void DirectorEngine::RetryAfterBackoff(Entry& entry, const std::string& who, const std::string& why,
                                       std::optional<absl::Duration> retry_after, Moment now) {
  const core::TaskState& task = entry.task;
  RetryOrFail(entry,
              {.sequence = task.sequence,
               .counts_as_attempt = true,
               .failure = DispatchFailure::kAgentFailed,
               .backoff = core::BackoffAfter(task.queue_id, task.attempts + 1, retry_after),
               .who = who,
               .why = why,
               .fault = Fault::kAgent},
              now);
}

void DirectorEngine::AbandonStart(Entry& entry, bool counts, const std::string& why, Moment now) {
  RetryOrFail(entry,
              {.sequence = entry.task.sequence,
               .counts_as_attempt = counts,
               .failure = counts ? DispatchFailure::kAgentFailed : DispatchFailure::kNone,
               .who = "director",
               .why = why,
               .fault = counts ? Fault::kAgent : Fault::kDirector},
              now);
}

void DirectorEngine::OnStartUnanswered(Entry& entry, Moment now) {
  Agent& agent = fleet_.Get(entry.task.history->agent);
  agent.unanswered.AddFailure(now.monotonic);
  if (!entry.task.is_cancel_requested()) CountInfrastructureError(agent, entry.task.queue_id);
  AbandonStart(entry, /*counts=*/true,
               absl::StrCat(agent.name, " did not answer the start before its lease ended"), now);
}

void DirectorEngine::RetryOrFail(Entry& entry, const FailedDispatch& dispatch, Moment now) {
  const core::TaskState& task = entry.task;
  if (task.is_cancel_requested()) {
    EndCancelled(entry, dispatch.who, dispatch.why, dispatch.run, now);
    return;
  }
  std::set<std::string> agents_lost = task.history->agents_lost;
  if (dispatch.failure == DispatchFailure::kAgentLost) agents_lost.insert(task.history->agent);
  std::optional<FailureReason> failed;
  if (task.attempts + (dispatch.counts_as_attempt ? 1 : 0) >= task.terms->max_attempts) {
    failed = dispatch.final_reason;
  }
  if (agents_lost.size() >= kPoisonAgents) failed = FailureReason::kPoison;
  if (failed.has_value()) {
    EndTask(entry,
            {.state = LifecycleState::kFailed,
             .reason = failed,
             .counts_as_attempt = dispatch.counts_as_attempt,
             .failure = dispatch.failure,
             .run = dispatch.run,
             .error = dispatch.why},
            {FailureEvent(*failed), dispatch.who, dispatch.why, dispatch.fault}, now);
    return;
  }
  WriteTask(entry, {TaskEventKind::kRetry, dispatch.who, dispatch.why, dispatch.fault},
            core::TaskReturned{.sequence = dispatch.sequence,
                               .counts_as_attempt = dispatch.counts_as_attempt,
                               .failure = dispatch.failure,
                               .reported = dispatch.run.has_value(),
                               .backoff = dispatch.backoff,
                               .error = dispatch.why},
            now);
}

void DirectorEngine::EndTask(Entry& entry, core::TaskEnded ended, const EventDetails& details,
                             Moment now) {
  WriteTask(entry, details, std::move(ended), now);
}

void DirectorEngine::EndCancelled(Entry& entry, const std::string& who, const std::string& why,
                                  std::optional<RunResult> run, Moment now) {
  // The output of a cancelled run is not kept.
  if (run.has_value()) {
    run->result.clear();
    run->result_truncated = false;
  }
  EndTask(entry, {.state = LifecycleState::kCancelled, .run = std::move(run)},
          {TaskEventKind::kCancelled, who, why, Fault::kCaller}, now);
}

}  // namespace callboard::director
