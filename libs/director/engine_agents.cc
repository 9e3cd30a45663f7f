// What agents say, and what follows from it.
#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/check.h"
#include "libs/base/error.h"
#include "libs/base/status_macros.h"
#include "libs/base/text.h"
#include "libs/core/answer.h"
#include "libs/core/backoff.h"
#include "libs/core/limits.h"
#include "libs/director/engine.h"
#include "libs/ports/agent_link.h"

namespace callboard::director {
namespace {

using core::FenceToken;
using core::RunResult;
using core::TaskEventKind;
using core::TaskState;

// An agent that fails so many different tasks in a row is broken.
constexpr size_t kCordonTasks = 3;
// 409s in a row from which on only a heartbeat's report counts.
constexpr uint32_t kRefusalsBeforeHeartbeat = 3;
// An agent that ends so many Sessions with a message that is too large will do it again.
constexpr uint32_t kCordonOversizedSessions = 3;

// Whether `text` may be a name or a part of a label.
bool IsName(absl::string_view text) {
  return text.size() <= core::kNameBytesMax && !base::HasControl(text);
}

absl::Status CheckSize(const core::AgentOpened& opened) {
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
  return base::WithReason(absl::InvalidArgumentError(absl::StrCat(
                              "the agent ", base::Echoed(opened.name),
                              " says too much, or has names with control characters: ",
                              opened.labels.size(), " labels, ", tokens, " dispatches")),
                          "BAD_AGENT");
}

// What is kept of a result: the end of a long one.
RunResult Cut(RunResult result) {
  if (result.result.size() > core::kResultBytesMax) {
    result.result = std::string(base::Utf8Tail(result.result, core::kResultBytesMax));
    result.result_truncated = true;
  }
  result.error = base::KeptText(std::move(result.error), core::kErrorBytesMax);
  result.signal = base::KeptText(std::move(result.signal), core::kNameBytesMax);
  return result;
}

}  // namespace

absl::Status DirectorEngine::CheckNewcomer(const std::string& name,
                                           const std::string& instance_id) {
  if (name.empty() || instance_id.empty() || !IsName(name) || !IsName(instance_id)) {
    return base::WithReason(absl::InvalidArgumentError(absl::StrCat(
                                "an agent has a name and an instance id of 1 to ",
                                core::kNameBytesMax, " bytes without control characters")),
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
                              "an agent named ", base::Echoed(name), " is connected from ",
                              base::Echoed(agent->url), "; give each its own agent.name")),
                          "AGENT_NAME_TAKEN", {{"name", name}, {"agent_url", agent->url}});
}

absl::Status DirectorEngine::Announce(const core::AgentAnnounced& announced, Moment now) {
  RETURN_IF_ERROR(CheckNewcomer(announced.name, announced.instance_id));
  // An agent whose Session opens was reached: others that were not keep none of those out.
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
  agent.heard_at = now.monotonic;
  agent.url = announced.url;
  agent.labels = announced.labels;
  OnLoad(agent, {announced.lanes, agent.leaving});
  return absl::OkStatus();
}

absl::Status DirectorEngine::OnOpened(core::SessionId session, const core::AgentOpened& opened,
                                      Moment now) {
  RETURN_IF_ERROR(CheckNewcomer(opened.name, opened.instance_id));
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
  EndExtension();
  Settle(now);
  return absl::OkStatus();
}

// Once every agent that has something is heard of again, nobody holds on longer than usual.
void DirectorEngine::EndExtension() {
  if (book_.extended().extension == absl::ZeroDuration() ||
      book_.extended().epoch == book_.epoch()) {
    return;
  }
  for (const auto& [name, agent] : fleet_.agents()) {
    if (!agent.holds.empty() && !agent.has_opened) return;
  }
  Write(core::LeasesExtended{.epoch = book_.extended().epoch});
}

void DirectorEngine::Reconcile(Agent& agent, const core::AgentOpened& opened, Moment now) {
  const std::vector<core::QueueId> holds(agent.holds.begin(), agent.holds.end());
  const std::set<FenceToken> running(opened.running.begin(), opened.running.end());
  const std::set<FenceToken> lost(opened.lost.begin(), opened.lost.end());
  // As good as running: their results come next, and say how each ended or that it is not its own.
  const std::set<FenceToken> ended(opened.ended.begin(), opened.ended.end());
  for (const core::QueueId& id : holds) {
    Entry& entry = *book_.Find(id);
    if (!entry.life.is_in_flight()) continue;
    const FenceToken token = entry.life.token();
    if (running.contains(token) || ended.contains(token)) {
      Adopt(entry, now);
    } else {
      ReconcileAbsent(entry, agent, lost.contains(token), now);
    }
  }
  for (const std::set<FenceToken>* tokens : {&running, &lost}) {
    for (const FenceToken& token : *tokens) {
      if (Current(agent, token) != nullptr) continue;
      Say(agent, core::FencedOff{token});
      if (book_.Find(token.queue_id) == nullptr) {
        outcome_.orphans.push_back({.token = token, .agent = agent.name, .is_run = true});
      }
    }
  }
}

void DirectorEngine::Adopt(Entry& entry, Moment now) {
  entry.clocks.lease_until = LeaseFrom(now.monotonic);
  if (entry.life.state == TaskState::kDispatching) {
    Accept(entry, now);
  } else if (entry.life.is_cancel_requested()) {
    SayTo(entry.life.tries->agent, core::CancelRun{entry.life.token()});
  }
  Watch(entry, now);
}

// The agent neither runs it nor has its result, and hears no more of starts from earlier Sessions.
void DirectorEngine::ReconcileAbsent(Entry& entry, Agent& agent, bool was_lost, Moment now) {
  const core::Life& life = entry.life;
  if (life.is_cancel_requested()) {
    EndCancelled(entry, agent.name, "the agent does not run it", {}, now);
  } else if (was_lost || life.state == TaskState::kWorking) {
    Lose(entry, absl::StrCat(agent.name, " no longer runs it and has no result"), now);
  } else if (life.tries->instance_id != agent.instance_id) {
    GiveUpStart(entry, /*counts=*/true, absl::StrCat(agent.name, " restarted before it answered"),
                now);
  } else if (life.tries->director_epoch != book_.epoch()) {
    GiveUpStart(entry, /*counts=*/false, "the director restarted before the start was heard", now);
  } else {
    // Same lives on both ends: the start was lost on its way. The copy carries the time of the
    // first, and the lease still counts from it, or an agent could hold the task by reopening its
    // Session.
    entry.clocks.repeat_at = now.monotonic + options_.queue.dispatch_timeout;
    Watch(entry, now);
    SayStart(entry);
  }
}

void DirectorEngine::OnItems(core::SessionId session, absl::Span<const core::AgentItem> items,
                             Moment now) {
  Agent* agent = fleet_.FindBySession(session);
  if (agent == nullptr) return;
  struct Step {
    void operator()(const core::StartAnswered& answered) const {
      engine.OnStartAnswered(agent, answered, now);
    }
    void operator()(const core::RunEnded& ended) const { engine.OnRunEnded(agent, ended, now); }
    void operator()(const core::Heartbeat& heartbeat) const {
      engine.OnHeartbeat(agent, heartbeat, now);
    }
    void operator()(const core::LoadReported& load) const { engine.OnLoad(agent, load); }
    DirectorEngine& engine;
    Agent& agent;
    Moment now;
  };
  for (const core::AgentItem& item : items) std::visit(Step{*this, *agent, now}, item);
  Settle(now);
}

Entry* DirectorEngine::Current(const Agent& agent, const FenceToken& token) {
  Entry* entry = book_.Find(token.queue_id);
  if (entry == nullptr || !entry->life.is_in_flight()) return nullptr;
  return entry->life.token() == token && entry->life.tries->agent == agent.name ? entry : nullptr;
}

void DirectorEngine::OnStartAnswered(Agent& agent, const core::StartAnswered& answered,
                                     Moment now) {
  Entry* entry = Current(agent, answered.token);
  if (entry == nullptr) {
    // It runs something that nobody waits for.
    if (answered.answer.ok()) Say(agent, core::FencedOff{answered.token});
    return;
  }
  if (entry->life.state != TaskState::kDispatching) return;
  if (core::MeaningOf(answered.answer) != core::AnswerMeaning::kStale) agent.unanswered = {};
  if (answered.answer.ok()) {
    Accept(*entry, now);
  } else {
    OnRefused(*entry, agent, answered.answer, now);
  }
}

void DirectorEngine::OnRefused(Entry& entry, Agent& agent, const absl::Status& refusal,
                               Moment now) {
  const core::AnswerMeaning meaning = core::MeaningOf(refusal);
  if (meaning == core::AnswerMeaning::kStale) return;
  const std::string why = base::KeptText(
      absl::StrCat(absl::StatusCodeToString(refusal.code()), ": ", refusal.message()),
      core::kErrorBytesMax);
  if (entry.life.is_cancel_requested()) {
    EndCancelled(entry, agent.name, "the agent refused to start it", {}, now);
    return;
  }
  switch (meaning) {
    case core::AnswerMeaning::kAccepted:
    case core::AnswerMeaning::kStale:
      return;
    case core::AnswerMeaning::kBusy:
      Bounce(entry, agent, now);
      return;
    case core::AnswerMeaning::kRejected:
      End(entry,
          {.state = TaskState::kFailed,
           .reason = core::FailureReason::kAgentRejected,
           .error = why},
          {TaskEventKind::kFailed, agent.name, why, core::Fault::kTask}, now);
      return;
    case core::AnswerMeaning::kAgentAtFault:
      MarkAgent(agent, agent.draining, /*cordoned=*/true,
                absl::StrCat("it refuses the director: ", why));
      ReturnOrFail(entry,
                   {.sequence = entry.life.sequence,
                    .blame = core::Blame::kAgentFailedIt,
                    .who = agent.name,
                    .why = why,
                    .fault = core::Fault::kAgent},
                   now);
      return;
    case core::AnswerMeaning::kTransient:
      NoteInfrastructureError(agent, entry.life.queue_id);
      TryLater(entry, agent.name, why, base::DetailsOf(refusal).retry_after, now);
      return;
  }
}

void DirectorEngine::OnRunEnded(Agent& agent, const core::RunEnded& ended, Moment now) {
  const FenceToken& token = ended.token;
  if (Entry* current = Current(agent, token)) {
    if (current->life.state == TaskState::kDispatching) agent.unanswered = {};
    Finish(*current, Cut(ended.result), now);
    Say(agent, core::ResultAcknowledged{token});
    return;
  }
  Entry* entry = book_.Find(token.queue_id);
  if (entry != nullptr && entry->life.tries->reported.contains(token.dispatch)) {
    Say(agent, core::ResultAcknowledged{token});
    return;
  }
  // The task is forgotten, has ended without it, or is elsewhere by now.
  Say(agent, core::FencedOff{token});
  const bool was_cancelled = ended.result.end == core::RunResult::End::kCancelled;
  // Nobody threw away what a cancel ended, nor twice what was noted before.
  if (entry != nullptr && ((was_cancelled && entry->life.state == TaskState::kCancelled) ||
                           token.dispatch <= entry->life.tries->orphaned)) {
    return;
  }
  // Not for the task's history: it has none, or one without that dispatch or that cancel.
  if (entry == nullptr || was_cancelled || token.dispatch > entry->life.dispatch) {
    const core::TraceId trace = entry == nullptr ? core::TraceId() : entry->life.trace.trace_id;
    outcome_.orphans.push_back({token, agent.name, trace});
    return;
  }
  Note(*entry,
       {TaskEventKind::kOrphanResult, agent.name,
        "the result of a dispatch that no longer counts was thrown away", core::Fault::kAgent,
        agent.name},
       now, token.dispatch);
}

void DirectorEngine::OnHeartbeat(Agent& agent, const core::Heartbeat& heartbeat, Moment now) {
  // One that was overtaken by a later one says nothing new of the agent.
  if (heartbeat.agent_time < agent.agent_time) return;
  agent.agent_time = heartbeat.agent_time;
  agent.heard_at = now.monotonic;
  agent.unreachable.failures = 0;
  for (auto& [name, lane] : agent.lanes) lane.heartbeat_since_refusal = true;
  for (const FenceToken& token : heartbeat.running) {
    Entry* entry = Current(agent, token);
    if (entry == nullptr) {
      Say(agent, core::FencedOff{token});
      continue;
    }
    entry->clocks.lease_until = LeaseFrom(now.monotonic);
    // Its answer was lost, or is yet to come.
    if (entry->life.state == TaskState::kDispatching) Accept(*entry, now);
    Watch(*entry, now);
  }
}

void DirectorEngine::OnLoad(Agent& agent, const core::LoadReported& load) {
  bool changed = agent.leaving != load.leaving;
  agent.leaving = load.leaving;
  for (const auto& [name, reported] : load.lanes) {
    // More than anybody needs is more than the matcher should have to look at.
    if (!agent.lanes.contains(name) && agent.lanes.size() >= core::kAgentLanesMax) break;
    Lane& lane = agent.lanes[name];
    const uint32_t slots = std::min(reported.slots, core::kLaneSlotsMax);
    changed = changed || lane.slots != slots;
    lane.slots = slots;
    lane.reported = reported.used;
    if (lane.refusals < kRefusalsBeforeHeartbeat || lane.heartbeat_since_refusal) {
      lane.refused = false;
    }
  }
  for (auto& [name, lane] : agent.lanes) {
    if (load.lanes.contains(name) || lane.slots == 0) continue;
    lane.slots = 0;
    changed = true;
  }
  // One without a Session serves nothing.
  if (changed && agent.is_connected()) matcher_.Relink();
  std::erase_if(agent.lanes,
                [](const auto& lane) { return lane.second.slots == 0 && lane.second.held == 0; });
}

void DirectorEngine::OnBroken(core::SessionId session, const absl::Status& why, Moment now) {
  Agent* agent = fleet_.FindBySession(session);
  if (agent == nullptr) return;
  agent->unreachable_why = base::KeptText(std::string(why.message()), core::kErrorBytesMax);
  if (base::DetailsOf(why).reason == ports::kMessageTooLarge) OnMessageTooLarge(*agent);
  fleet_.EndSession(*agent);
  agent->unreachable.AddFailure(now.monotonic);
  matcher_.Relink();
  Settle(now);
}

// What the agent wanted to say would be too large again, in every Session to come.
void DirectorEngine::OnMessageTooLarge(Agent& agent) {
  if (++agent.oversized_sessions < kCordonOversizedSessions) return;
  MarkAgent(
      agent, agent.draining, /*cordoned=*/true,
      absl::StrCat(agent.oversized_sessions,
                   " Sessions ended because a message was too large: ", agent.unreachable_why));
}

void DirectorEngine::OnUnreachable(const std::string& name, const absl::Status& why, Moment now) {
  // One that was never heard of is known from now on.
  if (fleet_.Find(name) == nullptr) fleet_.Get(name).heard_at = now.monotonic;
  fleet_.Get(name).unreachable_why =
      base::KeptText(absl::StrCat(core::IsSessionRefusal(why) ? "it refuses the Session: " : "",
                                  absl::StatusCodeToString(why.code()), ": ", why.message()),
                     core::kErrorBytesMax);
  Settle(now);
}

void DirectorEngine::OnNotWritten(const FenceToken& token, Moment now) {
  Entry* entry = book_.Find(token.queue_id);
  if (entry == nullptr || entry->life.state != TaskState::kDispatching ||
      entry->life.token() != token || token.director_epoch != book_.epoch()) {
    return;
  }
  // Another copy may have been heard, and then the agent runs it: that it is unreachable is known
  // only of a start that was never written.
  CHECK_GT(entry->clocks.starts_said, 0u);
  if (--entry->clocks.starts_said > 0) return;
  Agent& agent = fleet_.Get(entry->life.tries->agent);
  agent.unreachable.AddFailure(now.monotonic);
  TryLater(*entry, "director",
           absl::StrCat(agent.name, " cannot be reached at ", agent.url,
                        "; check that it runs, and its agent.advertise"),
           {}, now);
  Settle(now);
}

void DirectorEngine::Say(const Agent& agent, core::DirectorItem item) {
  if (agent.is_connected()) outcome_.messages.push_back({agent.session, std::move(item)});
}

void DirectorEngine::SayTo(const std::string& agent, core::DirectorItem item) {
  Say(fleet_.Get(agent), std::move(item));
}

void DirectorEngine::NoteInfrastructureError(Agent& agent, core::QueueId task) {
  agent.failed_tasks.insert(task);
  if (agent.failed_tasks.size() >= kCordonTasks) {
    MarkAgent(agent, agent.draining, /*cordoned=*/true,
              absl::StrCat("it failed ", kCordonTasks, " tasks in a row"));
  }
}

void DirectorEngine::MarkAgent(Agent& agent, bool draining, bool cordoned, const std::string& why) {
  if (agent.draining == draining && agent.cordoned == cordoned) return;
  agent.draining = draining;
  agent.cordoned = cordoned;
  agent.mark_why = draining || cordoned ? base::KeptText(why, core::kErrorBytesMax) : "";
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
