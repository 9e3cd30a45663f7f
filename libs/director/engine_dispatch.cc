// How a dispatch begins, and every way in which it can end.
#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/core/backoff.h"
#include "libs/director/engine.h"

namespace callboard::director {
namespace {

using core::Blame;
using core::FailureReason;
using core::Fault;
using core::RunResult;
using core::TaskEventKind;
using core::TaskState;

// Two agents lost under the same task are no accident.
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
            core::Dispatched{
                .dispatch = core::DispatchNumber(entry.life.dispatch.value() + 1),
                .director_epoch = book_.epoch(),
                .instance_id = agent.instance_id,
                .agent_url = agent.url,
            },
            now);
  entry.clocks.agent_time = agent.agent_time;
  entry.clocks.lease_until = LeaseFrom(agent.heard_at);
  Watch(entry, now);
  SayStart(entry);
}

void DirectorEngine::SayStart(Entry& entry) {
  const Agent& agent = fleet_.Get(entry.life.tries->agent);
  if (!agent.is_connected()) return;
  ++entry.clocks.starts_said;
  Say(agent, core::StartRun{entry.life.token(), entry.spec, entry.clocks.agent_time,
                            entry.life.dispatch_trace()});
}

void DirectorEngine::Accept(Entry& entry, Moment now) {
  WriteTask(entry, {TaskEventKind::kRunning, entry.life.tries->agent, ""}, core::Accepted(), now);
  Agent& agent = fleet_.Get(entry.life.tries->agent);
  agent.unreachable.failures = 0;
  agent.unanswered = {};
  agent.lanes[entry.life.terms->lane].refusals = 0;
  if (entry.life.is_cancel_requested()) {
    Say(agent, core::CancelRun{entry.life.token()});
  }
}

void DirectorEngine::Bounce(Entry& entry, Agent& agent, Moment now) {
  const core::Life& life = entry.life;
  Lane& lane = agent.lanes[life.terms->lane];
  // A slot that something else took while the start was on its way is nobody's fault.
  const std::optional<Fault> fault =
      lane.reported < lane.slots ? std::optional(Fault::kAgent) : std::nullopt;
  lane.refused = true;
  lane.heartbeat_since_refusal = false;
  ++lane.refusals;
  const uint32_t bounces = life.tries->busy_rejections + 1;
  WriteTask(entry, {TaskEventKind::kBusy, agent.name, "the agent is busy (409)", fault},
            core::Bounced{.dispatched = {.dispatch = life.dispatch,
                                         .director_epoch = life.tries->director_epoch,
                                         .instance_id = life.tries->instance_id,
                                         .agent_url = life.tries->agent_url},
                          .dispatched_at = life.tries->dispatched_at,
                          .sequence = bounces < core::kKeepsPlaceFromBounce ? book_.next_sequence()
                                                                            : life.sequence,
                          .busy_rejections = bounces},
            now);
}

void DirectorEngine::Finish(Entry& entry, const RunResult& result, Moment now) {
  const core::Life& life = entry.life;
  const std::string agent = life.tries->agent;
  if (life.is_cancel_requested()) {
    EndCancelled(entry, agent, "the run is over", result, now);
    return;
  }
  if (result.end == RunResult::End::kCancelled) {
    Lose(entry, "the agent ended the run without being asked to", now);
    return;
  }
  if (result.end == RunResult::End::kNotStarted) {
    // It is the agent's trouble, not the task's, although it came after its answer.
    NoteInfrastructureError(fleet_.Get(agent), life.queue_id);
    ReturnOrFail(entry,
                 {.sequence = life.sequence,
                  .counts = true,
                  .blame = Blame::kAgentFailedIt,
                  .backoff = core::BackoffAfter(life.queue_id, life.attempts + 1, {}),
                  .who = agent,
                  .why = result.error.empty() ? "the agent could not start it" : result.error,
                  .fault = Fault::kAgent,
                  .run = result},
                 now);
    return;
  }
  fleet_.Get(agent).failed_tasks.clear();
  if (result.end == RunResult::End::kCompleted) {
    End(entry, {.state = TaskState::kCompleted, .run = result}, {TaskEventKind::kDone, agent, ""},
        now);
    return;
  }
  const bool timed_out = result.end == RunResult::End::kTimedOut;
  const FailureReason reason = timed_out ? FailureReason::kTimedOut : FailureReason::kExecFailed;
  const std::string why = !result.error.empty()    ? result.error
                          : timed_out              ? "it ran longer than its timeout"
                          : !result.signal.empty() ? absl::StrCat("it died of ", result.signal)
                          : result.exit_code.has_value()
                              ? absl::StrCat("it exited with ", *result.exit_code)
                              : "it failed without an exit code";
  const auto& rules = life.terms->retry_on;
  const bool retry = std::any_of(rules.begin(), rules.end(),
                                 [&result](const auto& rule) { return Matches(rule, result); });
  if (retry) {
    ReturnOrFail(entry,
                 {.sequence = book_.next_sequence(),
                  .counts = true,
                  .backoff = core::BackoffAfter(life.queue_id, life.attempts + 1, {}),
                  .final_reason = reason,
                  .who = agent,
                  .why = why,
                  .fault = Fault::kTask,
                  .run = result},
                 now);
    return;
  }
  End(entry,
      {.state = TaskState::kFailed, .reason = reason, .counts = true, .run = result, .error = why},
      {FailureEvent(reason), agent, why, Fault::kTask}, now);
}

void DirectorEngine::Lose(Entry& entry, const std::string& why, Moment now) {
  const core::Life& life = entry.life;
  if (!life.is_cancel_requested() && life.terms->on_agent_lost != core::OnAgentLost::kRequeue) {
    End(entry,
        {.state = TaskState::kFailed,
         .reason = FailureReason::kAgentLost,
         .counts = true,
         .blame = Blame::kTookAgentDown,
         .error = why},
        {TaskEventKind::kFailed, "director", why, Fault::kAgent}, now);
    return;
  }
  ReturnOrFail(entry,
               {.sequence = life.sequence,
                .counts = true,
                .blame = Blame::kTookAgentDown,
                .final_reason = FailureReason::kAgentLost,
                .who = "director",
                .why = why,
                .fault = Fault::kAgent},
               now);
}

void DirectorEngine::TryLater(Entry& entry, const std::string& who, const std::string& why,
                              std::optional<absl::Duration> asked, Moment now) {
  const core::Life& life = entry.life;
  ReturnOrFail(entry,
               {.sequence = life.sequence,
                .counts = true,
                .blame = Blame::kAgentFailedIt,
                .backoff = core::BackoffAfter(life.queue_id, life.attempts + 1, asked),
                .who = who,
                .why = why,
                .fault = Fault::kAgent},
               now);
}

void DirectorEngine::GiveUpStart(Entry& entry, bool counts, const std::string& why, Moment now) {
  ReturnOrFail(entry,
               {.sequence = entry.life.sequence,
                .counts = counts,
                .blame = counts ? Blame::kAgentFailedIt : Blame::kNobody,
                .who = "director",
                .why = why,
                .fault = counts ? Fault::kAgent : Fault::kDirector},
               now);
}

void DirectorEngine::OnStartUnanswered(Entry& entry, Moment now) {
  Agent& agent = fleet_.Get(entry.life.tries->agent);
  agent.unanswered.AddFailure(now.monotonic);
  if (!entry.life.is_cancel_requested()) NoteInfrastructureError(agent, entry.life.queue_id);
  GiveUpStart(entry, /*counts=*/true,
              absl::StrCat(agent.name, " did not answer the start before its lease ended"), now);
}

void DirectorEngine::ReturnOrFail(Entry& entry, const Return& returned, Moment now) {
  const core::Life& life = entry.life;
  if (life.is_cancel_requested()) {
    EndCancelled(entry, returned.who, returned.why, returned.run, now);
    return;
  }
  std::set<std::string> took_down = life.tries->took_down;
  if (returned.blame == Blame::kTookAgentDown) took_down.insert(life.tries->agent);
  std::optional<FailureReason> failed;
  if (life.attempts + (returned.counts ? 1 : 0) >= life.terms->max_attempts) {
    failed = returned.final_reason;
  }
  if (took_down.size() >= kPoisonAgents) failed = FailureReason::kPoison;
  if (failed.has_value()) {
    End(entry,
        {.state = TaskState::kFailed,
         .reason = failed,
         .counts = returned.counts,
         .blame = returned.blame,
         .run = returned.run,
         .error = returned.why},
        {FailureEvent(*failed), returned.who, returned.why, returned.fault}, now);
    return;
  }
  WriteTask(entry, {TaskEventKind::kRetry, returned.who, returned.why, returned.fault},
            core::Returned{.sequence = returned.sequence,
                           .counts = returned.counts,
                           .blame = returned.blame,
                           .reported = returned.run.has_value(),
                           .backoff = returned.backoff,
                           .error = returned.why},
            now);
}

void DirectorEngine::End(Entry& entry, core::Ended ended, const Remark& remark, Moment now) {
  WriteTask(entry, remark, std::move(ended), now);
}

void DirectorEngine::EndCancelled(Entry& entry, const std::string& who, const std::string& why,
                                  std::optional<RunResult> run, Moment now) {
  // What it produced nobody asked for any more.
  if (run.has_value()) {
    run->result.clear();
    run->result_truncated = false;
  }
  End(entry, {.state = TaskState::kCancelled, .run = std::move(run)},
      {TaskEventKind::kCanceled, who, why, Fault::kCaller}, now);
}

}  // namespace callboard::director
