// Handles the messages of agents.
#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/check.h"
#include "libs/base/error.h"
#include "libs/base/text.h"
#include "libs/core/dispatch_rules.h"
#include "libs/core/limits.h"
#include "libs/director/engine.h"
#include "libs/ports/agent_link.h"

namespace callboard::director {
namespace {

using core::FenceToken;
using core::LifecycleState;
using core::RunResult;
using core::TaskEventKind;

// An agent that fails this many different tasks in a row is cordoned.
constexpr size_t kCordonTasks = 3;
// From this many busy answers in a row on, only a report with a heartbeat counts (HandleBusy()).
constexpr uint32_t kBusyBeforeHeartbeat = 3;
// An agent whose Sessions ended this often because of a message that was too large is cordoned: the
// next Session would end the same way.
constexpr uint32_t kCordonOversizedSessions = 3;

// Returns whether `text` may be a name or a part of a label.
bool IsName(absl::string_view text) {
  return text.size() <= core::kNameBytesMax && !base::HasControl(text);
}

absl::Status CheckSize(const core::SessionOpened& opened) {
  const size_t tokens = opened.running.size() + opened.lost.size() + opened.ended.size();
  const bool labels_fit =
      opened.labels.size() <= core::kLabelsMax &&
      std::all_of(opened.labels.begin(), opened.labels.end(),
                  [](const auto& label) { return IsName(label.first) && IsName(label.second); });
  const bool lanes_fit = std::all_of(opened.lanes.begin(), opened.lanes.end(),
                                     [](const auto& lane) { return IsName(lane.first); });
  if (labels_fit && lanes_fit && opened.url.size() <= core::kPathBytesMax &&
      tokens <= core::kAgentLanesMax * core::kLaneSlotsMax) {
    return absl::OkStatus();
  }
  return base::WithReason(
      absl::InvalidArgumentError(absl::StrCat(
          "the agent ", base::EscapeForError(opened.name),
          " is invalid: too many labels or dispatches, or a name that is too long or has "
          "control characters: ",
          opened.labels.size(), " labels, ", tokens, " dispatches")),
      "BAD_AGENT");
}

// Limits the sizes of a result; of a long text, keeps the end.
RunResult LimitResult(RunResult result) {
  if (result.result.size() > core::kResultBytesMax) {
    result.result = std::string(base::Utf8Suffix(result.result, core::kResultBytesMax));
    result.result_truncated = true;
  }
  result.error = base::SanitizeText(std::move(result.error), core::kErrorBytesMax);
  result.signal = base::SanitizeText(std::move(result.signal), core::kNameBytesMax);
  return result;
}

}  // namespace

absl::Status DirectorEngine::CheckAgent(const std::string& name, const std::string& instance_id) {
  if (name.empty() || instance_id.empty() || !IsName(name) || !IsName(instance_id)) {
    return base::WithReason(absl::InvalidArgumentError(absl::StrCat(
                                "agent name and instance id must be 1 to ", core::kNameBytesMax,
                                " bytes without control characters")),
                            "BAD_AGENT");
  }
  const Agent* agent = fleet_.Find(name);
  if (agent == nullptr && fleet_.agents().size() >= core::kAgentsMax) {
    return base::WithReason(absl::ResourceExhaustedError(
                                absl::StrCat("too many agents are known (", core::kAgentsMax,
                                             "); those that are gone are forgotten after an hour")),
                            "TOO_MANY_AGENTS");
  }
  if (agent == nullptr || !agent->is_connected() || agent->instance_id == instance_id) {
    return absl::OkStatus();
  }
  return base::WithReason(absl::AlreadyExistsError(absl::StrCat(
                              "an agent named ", base::EscapeForError(name), " is connected from ",
                              base::EscapeForError(agent->url), "; give each its own agent.name")),
                          "AGENT_NAME_TAKEN", {{"name", name}, {"agent_url", agent->url}});
}

absl::Status DirectorEngine::Announce(const core::AgentAnnouncement& announced, Moment now) {
  RETURN_IF_ERROR(CheckAgent(announced.name, announced.instance_id));
  // Limits only new announcements. An agent whose Session opens has been reached, so it is never
  // excluded because of others that were not.
  const auto is_unreached = [](const auto& known) { return known.second.is_unreached(); };
  if (fleet_.Find(announced.name) == nullptr &&
      std::count_if(fleet_.agents().begin(), fleet_.agents().end(), is_unreached) >=
          core::kUnreachedAgentsMax) {
    return base::WithReason(absl::ResourceExhaustedError(absl::StrCat(
                                "too many agents announced themselves and were never reached (",
                                core::kUnreachedAgentsMax, "); check their agent.advertise")),
                            "TOO_MANY_AGENTS");
  }
  Agent& agent = fleet_.Get(announced.name);
  if (agent.is_connected()) return absl::OkStatus();
  agent.last_seen_at = now.monotonic;
  agent.url = announced.url;
  agent.labels = announced.labels;
  OnLoad(agent, {announced.lanes, agent.leaving});
  return absl::OkStatus();
}

absl::Status DirectorEngine::OnSessionOpened(core::AgentSessionId session,
                                             const core::SessionOpened& opened, Moment now) {
  RETURN_IF_ERROR(CheckAgent(opened.name, opened.instance_id));
  RETURN_IF_ERROR(CheckSize(opened));
  Agent& agent = fleet_.Get(opened.name);
  const bool is_new_life = agent.instance_id != opened.instance_id;
  fleet_.OpenSession(agent, session, now);
  agent.instance_id = opened.instance_id;
  agent.url = opened.url;
  agent.labels = opened.labels;
  agent.features = opened.features;
  agent.agent_time = opened.agent_time;
  agent.unreachable.until = -absl::InfiniteDuration();
  agent.unreachable_why.clear();
  OnLoad(agent, {opened.lanes, opened.leaving});
  if (is_new_life) {
    agent.failed_tasks.clear();
    agent.oversized_sessions = 0;
    MarkAgent(agent, agent.draining, /*cordoned=*/false, agent.mark_why);
  }
  matcher_.Relink();
  Reconcile(agent, opened, now);
  EndLeaseExtension();
  Settle(now);
  return absl::OkStatus();
}

// Ends the lease extension of the previous director when every agent that holds a task has opened a
// Session.
void DirectorEngine::EndLeaseExtension() {
  if (tasks_.lease_extension().extension == absl::ZeroDuration() ||
      tasks_.lease_extension().epoch == tasks_.epoch()) {
    return;
  }
  for (const auto& [name, agent] : fleet_.agents()) {
    if (!agent.holds.empty() && !agent.has_opened) return;
  }
  Write(core::LeasesExtended{.epoch = tasks_.lease_extension().epoch});
}

void DirectorEngine::Reconcile(Agent& agent, const core::SessionOpened& opened, Moment now) {
  const std::vector<core::QueueId> holds(agent.holds.begin(), agent.holds.end());
  const std::set<FenceToken> running(opened.running.begin(), opened.running.end());
  const std::set<FenceToken> lost(opened.lost.begin(), opened.lost.end());
  // These count as running: their results follow, and tell how each run ended or that it is not the
  // agent's own.
  const std::set<FenceToken> ended(opened.ended.begin(), opened.ended.end());
  for (const core::QueueId& id : holds) {
    Entry& entry = *tasks_.Find(id);
    if (!entry.task.is_in_flight()) continue;
    const FenceToken token = entry.task.token();
    if (running.contains(token) || ended.contains(token)) {
      AdoptRun(entry, now);
    } else {
      ReconcileAbsent(entry, agent, lost.contains(token), now);
    }
  }
  for (const std::set<FenceToken>* tokens : {&running, &lost}) {
    for (const FenceToken& token : *tokens) {
      if (FindDispatch(agent, token) != nullptr) continue;
      Send(agent, core::FenceOff{token});
      if (tasks_.Find(token.queue_id) == nullptr) {
        outcome_.orphans.push_back({.token = token, .agent = agent.name, .is_run = true});
      }
    }
  }
}

void DirectorEngine::AdoptRun(Entry& entry, Moment now) {
  entry.timers.lease_until = LeaseEnd(now.monotonic);
  if (entry.task.state == LifecycleState::kDispatching) {
    MarkRunning(entry, now);
  } else if (entry.task.is_cancel_requested()) {
    SendTo(entry.task.history->agent, core::CancelRun{entry.task.token()});
  }
  ArmTimers(entry, now);
}

// Handles a dispatch that the agent neither runs nor has a result of. Starts from earlier Sessions
// can no longer reach the agent.
void DirectorEngine::ReconcileAbsent(Entry& entry, Agent& agent, bool was_lost, Moment now) {
  const core::TaskState& task = entry.task;
  if (task.is_cancel_requested()) {
    EndCancelled(entry, agent.name, "the agent does not run the task", {}, now);
  } else if (was_lost || task.state == LifecycleState::kWorking) {
    HandleLostRun(entry, absl::StrCat(agent.name, " no longer runs the task and has no result"),
                  now);
  } else if (task.history->instance_id != agent.instance_id) {
    AbandonStart(entry, /*counts=*/true,
                 absl::StrCat(agent.name, " restarted before it answered the start"), now);
  } else if (task.history->director_epoch != tasks_.epoch()) {
    AbandonStart(entry, /*counts=*/false, "the director restarted before the start was answered",
                 now);
  } else {
    // Neither side has restarted, so the start was lost on its way. The copy carries the agent time
    // of the first start, and the lease still counts from it. Otherwise an agent could hold the
    // task forever by reopening its Session.
    entry.timers.repeat_at = now.monotonic + options_.queue.dispatch_timeout;
    ArmTimers(entry, now);
    SendStart(entry);
  }
}

void DirectorEngine::OnMessages(core::AgentSessionId session,
                                absl::Span<const core::AgentMessage> messages, Moment now) {
  Agent* agent = fleet_.FindBySession(session);
  if (agent == nullptr) return;
  struct Step {
    void operator()(const core::StartAnswer& start) const {
      engine.OnStartAnswered(agent, start, now);
    }
    void operator()(const core::RunEnded& ended) const { engine.OnRunEnded(agent, ended, now); }
    void operator()(const core::Heartbeat& heartbeat) const {
      engine.OnHeartbeat(agent, heartbeat, now);
    }
    void operator()(const core::LoadReport& load) const { engine.OnLoad(agent, load); }
    // These do not reach the engine.
    void operator()(const core::SessionOpened&) const {}
    void operator()(const core::RunOutput&) const {}
    void operator()(const core::UnknownItem&) const {}
    DirectorEngine& engine;
    Agent& agent;
    Moment now;
  };
  for (const core::AgentMessage& message : messages) {
    std::visit(Step{*this, *agent, now}, message);
  }
  Settle(now);
}

Entry* DirectorEngine::FindDispatch(const Agent& agent, const FenceToken& token) {
  Entry* entry = tasks_.Find(token.queue_id);
  if (entry == nullptr || !entry->task.is_in_flight()) return nullptr;
  return entry->task.token() == token && entry->task.history->agent == agent.name ? entry : nullptr;
}

void DirectorEngine::OnStartAnswered(Agent& agent, const core::StartAnswer& start, Moment now) {
  Entry* entry = FindDispatch(agent, start.token);
  if (entry == nullptr) {
    // The agent runs a dispatch that no longer counts.
    if (start.answer.ok()) Send(agent, core::FenceOff{start.token});
    return;
  }
  if (entry->task.state != LifecycleState::kDispatching) return;
  if (core::ClassifyStartAnswer(start.answer) != core::AnswerMeaning::kStale) agent.unanswered = {};
  if (start.answer.ok()) {
    MarkRunning(*entry, now);
  } else {
    OnStartRejected(*entry, agent, start.answer, now);
  }
}

void DirectorEngine::OnStartRejected(Entry& entry, Agent& agent, const absl::Status& error,
                                     Moment now) {
  const core::AnswerMeaning meaning = core::ClassifyStartAnswer(error);
  if (meaning == core::AnswerMeaning::kStale) return;
  const std::string why = base::SanitizeText(
      absl::StrCat(absl::StatusCodeToString(error.code()), ": ", error.message()),
      core::kErrorBytesMax);
  if (entry.task.is_cancel_requested()) {
    EndCancelled(entry, agent.name, "the agent rejected the start", {}, now);
    return;
  }
  switch (meaning) {
    case core::AnswerMeaning::kAccepted:
    case core::AnswerMeaning::kStale:
      return;
    case core::AnswerMeaning::kBusy:
      HandleBusy(entry, agent, now);
      return;
    case core::AnswerMeaning::kRejected:
      EndTask(entry,
              {.state = LifecycleState::kFailed,
               .reason = core::FailureReason::kAgentRejected,
               .error = why},
              {TaskEventKind::kFailed, agent.name, why, core::Fault::kTask}, now);
      return;
    case core::AnswerMeaning::kAgentAtFault:
      MarkAgent(agent, agent.draining, /*cordoned=*/true,
                absl::StrCat("rejects the director: ", why));
      RetryOrFail(entry,
                  {.sequence = entry.task.sequence,
                   .failure = core::DispatchFailure::kAgentFailed,
                   .who = agent.name,
                   .why = why,
                   .fault = core::Fault::kAgent},
                  now);
      return;
    case core::AnswerMeaning::kTransient:
      CountInfrastructureError(agent, entry.task.queue_id);
      RetryAfterBackoff(entry, agent.name, why, base::GetErrorDetails(error).retry_after, now);
      return;
  }
}

void DirectorEngine::OnRunEnded(Agent& agent, const core::RunEnded& ended, Moment now) {
  const FenceToken& token = ended.token;
  if (Entry* current = FindDispatch(agent, token)) {
    if (current->task.state == LifecycleState::kDispatching) agent.unanswered = {};
    FinishRun(*current, LimitResult(ended.result), now);
    Send(agent, core::ResultAck{token});
    return;
  }
  Entry* entry = tasks_.Find(token.queue_id);
  if (entry != nullptr && entry->task.history->reported_dispatches.contains(token.dispatch)) {
    Send(agent, core::ResultAck{token});
    return;
  }
  // The task was forgotten, has ended without this result, or was dispatched again.
  Send(agent, core::FenceOff{token});
  const bool was_cancelled = ended.result.end == core::RunResult::End::kCancelled;
  // The result of a cancelled task was not discarded by mistake, and an orphan is recorded only
  // once.
  if (entry != nullptr && ((was_cancelled && entry->task.state == LifecycleState::kCancelled) ||
                           token.dispatch <= entry->task.history->orphaned_dispatch)) {
    return;
  }
  // The task's history cannot hold this event: the task is unknown, or its history lacks that
  // dispatch or that cancel.
  if (entry == nullptr || was_cancelled || token.dispatch > entry->task.dispatch) {
    const core::TraceId trace = entry == nullptr ? core::TraceId() : entry->task.trace.trace_id;
    outcome_.orphans.push_back({token, agent.name, trace});
    return;
  }
  WriteEvent(
      *entry,
      {TaskEventKind::kOrphanResult, agent.name,
       "discarded the result of a dispatch that no longer counts", core::Fault::kAgent, agent.name},
      now, token.dispatch);
}

void DirectorEngine::OnHeartbeat(Agent& agent, const core::Heartbeat& heartbeat, Moment now) {
  // A heartbeat that was overtaken by a later one has no news.
  if (heartbeat.agent_time < agent.agent_time) return;
  agent.agent_time = heartbeat.agent_time;
  agent.last_seen_at = now.monotonic;
  agent.unreachable.failures = 0;
  for (auto& [name, lane] : agent.lanes) lane.heartbeat_since_busy = true;
  for (const FenceToken& token : heartbeat.running) {
    Entry* entry = FindDispatch(agent, token);
    if (entry == nullptr) {
      Send(agent, core::FenceOff{token});
      continue;
    }
    entry->timers.lease_until = LeaseEnd(now.monotonic);
    // The answer to the start was lost, or has not arrived yet.
    if (entry->task.state == LifecycleState::kDispatching) MarkRunning(*entry, now);
    ArmTimers(*entry, now);
  }
}

void DirectorEngine::OnLoad(Agent& agent, const core::LoadReport& load) {
  bool changed = agent.leaving != load.leaving;
  agent.leaving = load.leaving;
  for (const auto& [name, reported] : load.lanes) {
    // Ignore further lanes, to limit the work of the matcher.
    if (!agent.lanes.contains(name) && agent.lanes.size() >= core::kAgentLanesMax) break;
    AgentLane& lane = agent.lanes[name];
    const uint32_t slots = std::min(reported.slots, core::kLaneSlotsMax);
    changed = changed || lane.slots != slots;
    lane.slots = slots;
    lane.reported = reported.used;
    if (lane.busy_in_a_row < kBusyBeforeHeartbeat || lane.heartbeat_since_busy) {
      lane.answered_busy = false;
    }
  }
  for (auto& [name, lane] : agent.lanes) {
    if (load.lanes.contains(name) || lane.slots == 0) continue;
    lane.slots = 0;
    changed = true;
  }
  // An agent without a Session serves no group.
  if (changed && agent.is_connected()) matcher_.Relink();
  std::erase_if(agent.lanes,
                [](const auto& lane) { return lane.second.slots == 0 && lane.second.held == 0; });
}

void DirectorEngine::OnSessionClosed(core::AgentSessionId session, const absl::Status& why,
                                     Moment now) {
  Agent* agent = fleet_.FindBySession(session);
  if (agent == nullptr) return;
  agent->unreachable_why = base::SanitizeText(std::string(why.message()), core::kErrorBytesMax);
  if (base::GetErrorDetails(why).reason == ports::kMessageTooLarge) OnMessageTooLarge(*agent);
  fleet_.EndSession(*agent);
  agent->unreachable.AddFailure(now.monotonic);
  matcher_.Relink();
  Settle(now);
}

// Cordons an agent after repeated messages that were too large, because every further Session would
// fail in the same way.
void DirectorEngine::OnMessageTooLarge(Agent& agent) {
  if (++agent.oversized_sessions < kCordonOversizedSessions) return;
  MarkAgent(
      agent, agent.draining, /*cordoned=*/true,
      absl::StrCat(agent.oversized_sessions,
                   " Sessions ended because a message was too large: ", agent.unreachable_why));
}

void DirectorEngine::OnUnreachable(const std::string& name, const absl::Status& why, Moment now) {
  // From now on the agent is known.
  if (fleet_.Find(name) == nullptr) fleet_.Get(name).last_seen_at = now.monotonic;
  fleet_.Get(name).unreachable_why =
      base::SanitizeText(absl::StrCat(core::IsSessionRejection(why) ? "rejects the Session: " : "",
                                      absl::StatusCodeToString(why.code()), ": ", why.message()),
                         core::kErrorBytesMax);
  Settle(now);
}

void DirectorEngine::OnStartNotSent(const FenceToken& token, Moment now) {
  Entry* entry = tasks_.Find(token.queue_id);
  if (entry == nullptr || entry->task.state != LifecycleState::kDispatching ||
      entry->task.token() != token || token.director_epoch != tasks_.epoch()) {
    return;
  }
  // Another copy of the start may have arrived, and then the agent runs it. Only if no copy was
  // written is the agent known to be unreachable.
  CHECK_GT(entry->timers.starts_sent, 0u);
  if (--entry->timers.starts_sent > 0) return;
  Agent& agent = fleet_.Get(entry->task.history->agent);
  agent.unreachable.AddFailure(now.monotonic);
  RetryAfterBackoff(*entry, "director",
                    absl::StrCat(agent.name, " cannot be reached at ", agent.url,
                                 "; check that it runs, and its agent.advertise"),
                    {}, now);
  Settle(now);
}

void DirectorEngine::Send(const Agent& agent, core::DirectorMessage message) {
  if (agent.is_connected()) outcome_.messages.push_back({agent.session, std::move(message)});
}

void DirectorEngine::SendTo(const std::string& agent, core::DirectorMessage message) {
  Send(fleet_.Get(agent), std::move(message));
}

void DirectorEngine::CountInfrastructureError(Agent& agent, core::QueueId task) {
  agent.failed_tasks.insert(task);
  if (agent.failed_tasks.size() >= kCordonTasks) {
    MarkAgent(agent, agent.draining, /*cordoned=*/true,
              absl::StrCat("failed ", kCordonTasks, " tasks in a row"));
  }
}

void DirectorEngine::MarkAgent(Agent& agent, bool draining, bool cordoned, const std::string& why) {
  if (agent.draining == draining && agent.cordoned == cordoned) return;
  agent.draining = draining;
  agent.cordoned = cordoned;
  agent.mark_why = draining || cordoned ? base::SanitizeText(why, core::kErrorBytesMax) : "";
  if (!cordoned) {
    agent.failed_tasks.clear();
    agent.oversized_sessions = 0;
  }
  Write(core::AgentMarked{.name = agent.name,
                          .draining = draining,
                          .cordoned_instance = cordoned ? agent.instance_id : "",
                          .why = agent.mark_why});
  matcher_.Relink();
}

}  // namespace callboard::director
