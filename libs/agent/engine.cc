#include "libs/agent/engine.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/check.h"
#include "libs/base/error.h"
#include "libs/base/status_macros.h"
#include "libs/base/text.h"
#include "libs/core/limits.h"

namespace callboard::agent {
namespace {

using core::FenceToken;
using core::RunResult;

const std::string& LaneOf(const core::TaskSpec& spec) {
  static const std::string* const by_default = new std::string(core::kDefaultLane);
  return spec.lane.empty() ? *by_default : spec.lane;
}

absl::Status Busy(absl::string_view lane) {
  return base::WithReason(absl::AbortedError(absl::StrCat("lane ", base::Echoed(lane),
                                                          " is full; try later or elsewhere")),
                          "AGENT_BUSY", {{"lane", std::string(lane)}});
}

absl::Status TooLate() {
  return base::WithReason(
      absl::AbortedError("the start arrived when its lease had ended; start it again"),
      "START_TOO_LATE");
}

absl::Status DirectDisabled() {
  return base::WithReason(
      absl::FailedPreconditionError("this agent takes no direct starts; submit the task to the "
                                    "director, or set agent.allow_direct"),
      "DIRECT_DISABLED");
}

absl::Status RequestIdReused(const std::string& request_id, const FenceToken& token) {
  const std::string task_id = core::TaskIdText(token.queue_id, token.dispatch);
  return base::WithReason(absl::AlreadyExistsError(absl::StrCat(
                              "request_id ", base::Echoed(request_id), " stands for another run, ",
                              task_id, "; use a new one for new content")),
                          "REQUEST_ID_REUSED", {{"task_id", task_id}});
}

absl::Status Draining() {
  return base::WithReason(absl::UnavailableError("the agent shuts down; try elsewhere"),
                          "AGENT_DRAINING");
}

absl::Status LabelMissing(absl::string_view label, absl::string_view value) {
  return base::WithReason(
      absl::FailedPreconditionError(absl::StrCat("this agent lacks the label ", base::Echoed(label),
                                                 "=", base::Echoed(value), "; try another")),
      "LABEL_MISSING", {{"label", std::string(label)}});
}

// Whatever the runner is: no message, and no record of the director, gets too large by a result.
// Its end is kept, as the end of the output is.
void CutResult(RunResult& result) {
  if (result.result.size() > core::kResultBytesMax) {
    result.result = std::string(base::Utf8Tail(result.result, core::kResultBytesMax));
    result.result_truncated = true;
  }
  result.error = base::KeptText(std::move(result.error), core::kErrorBytesMax);
}

}  // namespace

AgentEngine::AgentEngine(EngineOptions options, const Journaled& journal)
    : options_(std::move(options)), results_(journal.results), lost_(journal.accepted) {
  for (const auto& [name, slots] : options_.lanes) load_[name].slots = slots;
}

void AgentEngine::EndTurn() {
  const bool has_changed = load_ != load_said_.lanes || draining_ != load_said_.leaving;
  if (!std::exchange(load_is_due_, false) && !has_changed) return;
  load_said_ = {load_, draining_};
  Say(core::AgentItem(load_said_));
}

Outcome AgentEngine::TakeOutcome() { return std::exchange(outcome_, {}); }

// ---- The Session --------------------------------------------------------------------------------

absl::Status AgentEngine::Open(core::SessionId session, const core::SessionTerms& terms,
                               absl::Duration now) {
  if (terms.director_epoch < epoch_) {
    return base::WithReason(
        absl::AbortedError(
            absl::StrCat("a director of epoch ", epoch_, " is served, not ", terms.director_epoch)),
        "SESSION_REPLACED");
  }
  session_ = session;
  epoch_ = terms.director_epoch;
  lease_ = terms.lease;
  beats_.clear();
  // What runs is renewed at once: the link may be gone again before the next beat would be due,
  // again and again, and only heartbeats that are acknowledged keep a run alive.
  next_beat_ = Running().empty() ? now + lease_.heartbeat : now;
  core::AgentOpened opened = {.name = options_.name,
                              .instance_id = options_.instance_id,
                              .url = options_.url,
                              .labels = options_.labels,
                              .lanes = load_,
                              .leaving = draining_,
                              .agent_time = now,
                              .running = Running(),
                              .lost = {lost_.begin(), lost_.end()},
                              .version = core::kSessionVersion,
                              .features = options_.features};
  for (const auto& [token, result] : results_) opened.ended.push_back(token);
  // A director is back: what its predecessor granted beyond the usual ends.
  for (auto& [token, run] : runs_) {
    if (token.director_epoch == 0 || run.fence_at <= now + lease_.self_fence) continue;
    run.fence_at = now + lease_.self_fence;
    outcome_.orders.emplace_back(MoveFence{token, run.fence_at});
  }
  // It says everything that was to be said.
  outcome_.words.clear();
  new_losses_.clear();
  losses_said_.clear();
  Say(std::move(opened));
  SayResults();
  load_said_ = {load_, draining_};
  load_is_due_ = false;
  return absl::OkStatus();
}

void AgentEngine::Hear(core::SessionId session, const core::DirectorWord& word,
                       absl::Duration now) {
  if (!IsOpen(session)) return;
  struct Step {
    void operator()(const core::SessionTerms&) const {}
    void operator()(const core::DirectorItem& item) const { std::visit(*this, item); }
    void operator()(const core::StartRun& start) const { engine.OnStart(start, now); }
    void operator()(const core::CancelRun& cancel) const { engine.OnCancel(cancel.token, now); }
    void operator()(const core::ResultAcknowledged& acknowledged) const {
      engine.OnAcknowledged(acknowledged.token);
    }
    void operator()(const core::FencedOff& fenced) const { engine.OnFenced(fenced.token); }
    void operator()(const core::GoingAway& away) const { engine.OnGoingAway(away.extension); }
    void operator()(const core::HeartbeatAcknowledged& acknowledged) const {
      engine.OnHeartbeatAcknowledged(acknowledged.agent_time);
    }
    // The output's own business.
    void operator()(const core::OutputAcknowledged&) const {}
    void operator()(const core::UnknownItem&) const { ++engine.unknown_items_; }
    AgentEngine& engine;
    absl::Duration now;
  };
  std::visit(Step{*this, now}, word);
}

void AgentEngine::OnBroken(core::SessionId session) {
  if (!IsOpen(session)) return;
  session_ = core::SessionId();
  next_beat_ = absl::InfiniteDuration();
  // The next one hears of them when it opens.
  new_losses_.clear();
  losses_said_.clear();
}

void AgentEngine::OnStart(const core::StartRun& start, absl::Duration now) {
  const FenceToken& token = start.token;
  if (const auto result = results_.find(token); result != results_.end()) {
    Say(core::AgentItem(core::StartAnswered{token, absl::OkStatus()}));
    Say(core::AgentItem(core::RunEnded{token, result->second}));
    return;
  }
  if (runs_.contains(token)) {
    Say(core::AgentItem(core::StartAnswered{token, absl::OkStatus()}));
    return;
  }
  if (const auto refusal = refusals_.find(token); refusal != refusals_.end()) {
    Say(core::AgentItem(core::StartAnswered{token, refusal->second.answer}));
    load_is_due_ = true;
    return;
  }
  const absl::Duration fence_at = start.agent_time + lease_.self_fence;
  // What was lost or is over is not begun a second time under the same name.
  if (now > fence_at || lost_.contains(token) || settled_.contains(token)) {
    return Refuse(token, TooLate(), now);
  }
  if (absl::Status answer = Consider(*start.spec); !answer.ok()) {
    return Refuse(token, std::move(answer), now);
  }
  Begin(token, start.spec, start.trace, fence_at);
  Say(core::AgentItem(core::StartAnswered{token, absl::OkStatus()}));
}

absl::Status AgentEngine::Consider(const core::TaskSpec& spec) const {
  const std::string& lane = LaneOf(spec);
  const auto load = load_.find(lane);
  // One that is not there is full for ever; whoever asks hears which there are.
  if (draining_ || load == load_.end() || load->second.used >= load->second.slots) {
    return Busy(lane);
  }
  return options_.check == nullptr ? absl::OkStatus() : options_.check(spec);
}

AgentEngine::Run& AgentEngine::Begin(const FenceToken& token, core::SpecPtr spec,
                                     const core::SpanContext& trace, absl::Duration fence_at) {
  Run& run = runs_[token];
  run = {.lane = LaneOf(*spec), .fence_at = fence_at};
  ++load_[LaneOf(*spec)].used;
  if (token.director_epoch != 0) outcome_.journal.emplace_back(RunAccepted{token});
  outcome_.orders.emplace_back(
      ports::RunOrder{.token = token,
                      .task_id = core::TaskIdText(token.queue_id, token.dispatch),
                      .spec = std::move(spec),
                      .trace = trace,
                      .kill_grace = lease_.kill_grace,
                      .fence_at = fence_at});
  return run;
}

void AgentEngine::Refuse(const FenceToken& token, absl::Status answer, absl::Duration now) {
  Say(core::AgentItem(core::StartAnswered{token, answer}));
  load_is_due_ = true;
  refusals_[token] = {std::move(answer), now + lease_.redispatch_after};
}

void AgentEngine::OnCancel(const FenceToken& token, absl::Duration now) {
  if (const auto result = results_.find(token); result != results_.end()) {
    Say(core::AgentItem(core::RunEnded{token, result->second}));
  } else if (const auto run = runs_.find(token); run != runs_.end()) {
    Stop(token, run->second, Run::Stop::kCancelled);
  } else {
    refusals_.try_emplace(token, Refusal{absl::CancelledError("it was cancelled before it started"),
                                         now + lease_.redispatch_after});
    Say(core::AgentItem(core::RunEnded{token, {.end = RunResult::End::kCancelled}}));
  }
}

void AgentEngine::OnAcknowledged(const FenceToken& token) {
  new_losses_.erase(token);
  losses_said_.erase(token);
  const bool was_known = results_.erase(token) + lost_.erase(token) > 0;
  if (was_known) Forget(token);
}

void AgentEngine::OnFenced(const FenceToken& token) {
  if (const auto run = runs_.find(token); run != runs_.end()) {
    Stop(token, run->second, Run::Stop::kFenced);
  }
  new_losses_.erase(token);
  losses_said_.erase(token);
  const bool was_known = results_.erase(token) + lost_.erase(token) > 0;
  if (was_known) Forget(token);
}

void AgentEngine::Stop(const FenceToken& token, Run& run, Run::Stop why) {
  // The first reason to kill it counts, but what is fenced is never told of.
  if (run.stop == Run::Stop::kNo) outcome_.orders.emplace_back(StopRun{token});
  if (run.stop == Run::Stop::kNo || why == Run::Stop::kFenced) run.stop = why;
}

void AgentEngine::OnGoingAway(absl::Duration extension) {
  for (auto& [token, run] : runs_) {
    if (token.director_epoch == 0) continue;
    run.fence_at += extension;
    outcome_.orders.emplace_back(MoveFence{token, run.fence_at});
  }
}

void AgentEngine::OnHeartbeatAcknowledged(absl::Duration sent_at) {
  const auto beat = beats_.find(sent_at);
  if (beat == beats_.end()) return;
  const absl::Duration fence_at = sent_at + lease_.self_fence;
  for (const FenceToken& token : beat->second) {
    const auto run = runs_.find(token);
    if (run == runs_.end() || run->second.fence_at >= fence_at) continue;
    run->second.fence_at = fence_at;
    outcome_.orders.emplace_back(MoveFence{token, fence_at});
  }
  beats_.erase(beats_.begin(), std::next(beat));
}

// ---- The runner ---------------------------------------------------------------------------------

void AgentEngine::OnEnded(const FenceToken& token, RunResult result) {
  const auto run = runs_.find(token);
  CHECK(run != runs_.end()) << core::ToString(token.queue_id);
  const Run::Stop stop = run->second.stop;
  const absl::Duration fence_at = run->second.fence_at;
  std::string request_id = std::move(run->second.request_id);
  --load_[run->second.lane].used;
  runs_.erase(run);
  CutResult(result);
  if (token.director_epoch == 0) {
    OnDirectEnded(std::move(request_id));
  } else if (stop == Run::Stop::kFenced) {
    Forget(token);
  } else if (stop == Run::Stop::kNo && result.end == RunResult::End::kCancelled) {
    // Nobody asked for it: it was ended by its fence, by a drain or from outside, and has no
    // result. A director that is there hears of it now, another one when it opens a Session.
    lost_.insert(token);
    if (is_connected()) new_losses_[token] = {std::move(result), fence_at};
  } else {
    outcome_.journal.emplace_back(ResultKept{token, result});
    Say(core::AgentItem(core::RunEnded{token, result}));
    results_[token] = std::move(result);
  }
}

void AgentEngine::Forget(const FenceToken& token) {
  outcome_.journal.emplace_back(RunForgotten{token});
  if (!settled_.insert(token).second) return;
  settled_in_order_.push_back(token);
  if (settled_in_order_.size() <= kSettledRunsMax) return;
  settled_.erase(settled_in_order_.front());
  settled_in_order_.pop_front();
}

// ---- Starts past the queue ----------------------------------------------------------------------

absl::StatusOr<DirectStart> AgentEngine::StartDirect(const FenceToken& token, core::SpecPtr spec,
                                                     const core::SpanContext& trace) {
  CHECK_EQ(token.director_epoch, 0u);
  CHECK(!spec->request_id.empty());
  if (!options_.allow_direct) return DirectDisabled();
  const core::Fingerprint fingerprint = core::FingerprintOf(*spec);
  if (const auto known = requests_.find(spec->request_id); known != requests_.end()) {
    const Request& request = known->second;
    if (request.fingerprint != fingerprint) return RequestIdReused(known->first, request.token);
    return DirectStart{.token = request.token, .deduplicated = true};
  }
  if (draining_) return Draining();
  // The director would not have chosen this agent.
  for (const auto& [label, value] : spec->required_labels) {
    const auto found = options_.labels.find(label);
    if (found == options_.labels.end() || found->second != value) return LabelMissing(label, value);
  }
  RETURN_IF_ERROR(Consider(*spec));
  requests_[spec->request_id] = {token, fingerprint};
  Begin(token, spec, trace, absl::InfiniteDuration()).request_id = spec->request_id;
  return DirectStart{.token = token};
}

void AgentEngine::OnDirectEnded(std::string request_id) {
  ended_requests_.push_back(std::move(request_id));
  if (ended_requests_.size() <= kDirectRequestsMax) return;
  requests_.erase(ended_requests_.front());
  ended_requests_.pop_front();
}

// ---- Time, and the end --------------------------------------------------------------------------

void AgentEngine::FireTimers(absl::Duration now) {
  SayLosses(now);
  if (now >= next_beat_) Beat(now);
  std::erase_if(refusals_, [now](const auto& refusal) { return refusal.second.forget_at <= now; });
}

absl::Duration AgentEngine::UntilNextTimer(absl::Duration now) const {
  if (!new_losses_.empty()) return absl::ZeroDuration();
  return std::max(next_beat_ - now, absl::ZeroDuration());
}

void AgentEngine::Beat(absl::Duration now) {
  next_beat_ = now + lease_.heartbeat;
  core::Heartbeat heartbeat = {now, Running()};
  // Leases that nobody acknowledges for so long have ended.
  beats_.erase(beats_.begin(), beats_.lower_bound(now - lease_.self_fence));
  beats_[now] = heartbeat.running;
  Say(core::AgentItem(std::move(heartbeat)));
  load_is_due_ = true;
  SayResults();
}

void AgentEngine::SayLosses(absl::Duration now) {
  for (auto& [token, loss] : new_losses_) {
    if (now >= loss.fence_at) continue;
    losses_said_.insert(token);
    Say(core::AgentItem(core::RunEnded{token, std::move(loss.result)}));
  }
  new_losses_.clear();
}

void AgentEngine::SayResults() {
  for (const auto& [token, result] : results_) {
    Say(core::AgentItem(core::RunEnded{token, result}));
  }
}

void AgentEngine::BeginDrain() { draining_ = true; }

void AgentEngine::KillRuns() {
  for (const auto& [token, run] : runs_) outcome_.orders.emplace_back(KillRun{token});
}

// ---- Reads --------------------------------------------------------------------------------------

std::vector<FenceToken> AgentEngine::Running() const {
  std::vector<FenceToken> tokens;
  for (const auto& [token, run] : runs_) {
    if (token.director_epoch != 0) tokens.push_back(token);
  }
  return tokens;
}

std::vector<std::string> AgentEngine::RunningTaskIds() const {
  std::vector<std::string> task_ids;
  for (const auto& [token, run] : runs_) {
    task_ids.push_back(core::TaskIdText(token.queue_id, token.dispatch));
  }
  return task_ids;
}

void AgentEngine::Say(core::AgentWord word) {
  if (is_connected()) outcome_.words.push_back(std::move(word));
}

}  // namespace callboard::agent
