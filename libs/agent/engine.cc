#include "libs/agent/engine.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/check.h"
#include "libs/base/error.h"
#include "libs/base/text.h"
#include "libs/core/limits.h"

namespace callboard::agent {
namespace {

using core::FenceToken;
using core::RunResult;

absl::Status Busy(absl::string_view lane) {
  return base::WithReason(
      absl::AbortedError(absl::StrCat("lane ", base::EscapeForError(lane),
                                      " is full; retry later or try another agent")),
      "AGENT_BUSY", {{"lane", std::string(lane)}});
}

absl::Status TooLate() {
  return base::WithReason(
      absl::AbortedError("the start arrived after its lease had ended; send a new start"),
      "START_TOO_LATE");
}

absl::Status DirectDisabled() {
  return base::WithReason(
      absl::FailedPreconditionError("this agent accepts no direct starts; submit the task to the "
                                    "director, or set agent.allow_direct"),
      "DIRECT_DISABLED");
}

absl::Status RequestIdReused(const std::string& request_id, const FenceToken& token) {
  const std::string task_id = core::TaskIdText(token.queue_id, token.dispatch);
  return base::WithReason(
      absl::AlreadyExistsError(absl::StrCat("request_id ", base::EscapeForError(request_id),
                                            " belongs to another run, ", task_id,
                                            "; use a new request_id for new content")),
      "REQUEST_ID_REUSED", {{"task_id", task_id}});
}

absl::Status Draining() {
  return base::WithReason(absl::UnavailableError("the agent is shutting down; try another agent"),
                          "AGENT_DRAINING");
}

absl::Status LabelMissing(absl::string_view label, absl::string_view value) {
  return base::WithReason(absl::FailedPreconditionError(absl::StrCat(
                              "this agent lacks the label ", base::EscapeForError(label), "=",
                              base::EscapeForError(value), "; try another")),
                          "LABEL_MISSING", {{"label", std::string(label)}});
}

// Limits the size of a result, so that no message and no record of the director gets too large,
// whatever the runner returns. Keeps the end of the text.
void TruncateResult(RunResult& result) {
  if (result.result.size() > core::kResultBytesMax) {
    result.result = std::string(base::Utf8Suffix(result.result, core::kResultBytesMax));
    result.result_truncated = true;
  }
  result.error = base::SanitizeText(std::move(result.error), core::kErrorBytesMax);
}

}  // namespace

AgentEngine::AgentEngine(EngineOptions options, const JournalState& journal)
    : options_(std::move(options)), results_(journal.results), lost_(journal.accepted) {
  for (const auto& [name, slots] : options_.lanes) load_[name].slots = slots;
}

void AgentEngine::EndTurn() {
  const bool has_changed = load_ != reported_load_.lanes || draining_ != reported_load_.leaving;
  if (!std::exchange(must_report_load_, false) && !has_changed) return;
  reported_load_ = {load_, draining_};
  Send(reported_load_);
}

Outcome AgentEngine::TakeOutcome() { return std::exchange(outcome_, {}); }

// ---- The Session --------------------------------------------------------------------------------

absl::Status AgentEngine::OpenSession(core::AgentSessionId session, const core::SessionTerms& terms,
                                      absl::Duration now) {
  if (terms.director_epoch < epoch_) {
    return base::WithReason(absl::AbortedError(absl::StrCat(
                                "this agent serves a director of epoch ", epoch_,
                                "; it does not serve the older epoch ", terms.director_epoch)),
                            "SESSION_REPLACED");
  }
  session_ = session;
  epoch_ = terms.director_epoch;
  lease_ = terms.lease;
  unacknowledged_heartbeats_.clear();
  // Renews running tasks immediately. If Sessions keep breaking before a regular heartbeat is due,
  // no heartbeat is ever acknowledged, and the runs would be stopped at their fences.
  next_heartbeat_ = RunningDispatches().empty() ? now + lease_.heartbeat : now;
  core::SessionOpened opened = {.name = options_.name,
                                .instance_id = options_.instance_id,
                                .url = options_.url,
                                .labels = options_.labels,
                                .lanes = load_,
                                .leaving = draining_,
                                .agent_time = now,
                                .running = RunningDispatches(),
                                .lost = {lost_.begin(), lost_.end()},
                                .version = core::kSessionVersion,
                                .features = options_.features};
  for (const auto& [token, result] : results_) opened.ended.push_back(token);
  // A director is connected again, so an extension that its predecessor granted ends.
  for (auto& [token, run] : runs_) {
    if (token.director_epoch == 0 || run.fence_at <= now + lease_.self_fence) continue;
    run.fence_at = now + lease_.self_fence;
    outcome_.runner_commands.emplace_back(MoveFence{token, run.fence_at});
  }
  // The opening message and the results after it contain everything that was still unsent.
  outcome_.messages.clear();
  unreported_losses_.clear();
  reported_losses_.clear();
  Send(std::move(opened));
  SendResults();
  reported_load_ = {load_, draining_};
  must_report_load_ = false;
  return absl::OkStatus();
}

void AgentEngine::Handle(core::AgentSessionId session, const core::DirectorMessage& message,
                         absl::Duration now) {
  if (!IsOpen(session)) return;
  struct Step {
    void operator()(const core::SessionTerms&) const {}
    void operator()(const core::StartRun& start) const { engine.OnStart(start, now); }
    void operator()(const core::CancelRun& cancel) const { engine.OnCancel(cancel.token, now); }
    void operator()(const core::ResultAck& acknowledged) const {
      engine.OnResultAcknowledged(acknowledged.token);
    }
    void operator()(const core::FenceOff& outdated) const { engine.OnFencedOff(outdated.token); }
    void operator()(const core::GoingAway& away) const { engine.OnGoingAway(away.extension); }
    void operator()(const core::HeartbeatAck& acknowledged) const {
      engine.OnHeartbeatAcknowledged(acknowledged.agent_time);
    }
    // The driver handles these.
    void operator()(const core::OutputAck&) const {}
    void operator()(const core::UnknownItem&) const { ++engine.unknown_items_; }
    AgentEngine& engine;
    absl::Duration now;
  };
  std::visit(Step{*this, now}, message);
}

void AgentEngine::OnSessionClosed(core::AgentSessionId session) {
  if (!IsOpen(session)) return;
  session_ = core::AgentSessionId();
  next_heartbeat_ = absl::InfiniteDuration();
  // The next Session's opening message reports them.
  unreported_losses_.clear();
  reported_losses_.clear();
}

void AgentEngine::OnStart(const core::StartRun& start, absl::Duration now) {
  const FenceToken& token = start.token;
  if (const auto result = results_.find(token); result != results_.end()) {
    Send(core::StartAnswer{token, absl::OkStatus()});
    Send(core::RunEnded{token, result->second});
    return;
  }
  if (runs_.contains(token)) {
    Send(core::StartAnswer{token, absl::OkStatus()});
    return;
  }
  if (const auto rejection = rejections_.find(token); rejection != rejections_.end()) {
    Send(core::StartAnswer{token, rejection->second.answer});
    must_report_load_ = true;
    return;
  }
  const absl::Duration fence_at = start.agent_time + lease_.self_fence;
  // A lost or settled dispatch must not run a second time under the same token.
  if (now > fence_at || lost_.contains(token) || settled_.contains(token)) {
    return Reject(token, TooLate(), now);
  }
  if (absl::Status answer = CheckStart(*start.run); !answer.ok()) {
    return Reject(token, std::move(answer), now);
  }
  BeginRun(token, start.run, start.trace, fence_at);
  Send(core::StartAnswer{token, absl::OkStatus()});
}

absl::Status AgentEngine::CheckStart(const core::RunSpec& spec) const {
  const auto load = load_.find(spec.lane);
  // A lane that does not exist counts as full. The load report names the lanes that exist.
  if (draining_ || load == load_.end() || load->second.used >= load->second.slots) {
    return Busy(spec.lane);
  }
  return options_.check == nullptr ? absl::OkStatus() : options_.check(spec);
}

AgentEngine::Run& AgentEngine::BeginRun(const FenceToken& token, core::RunSpecPtr spec,
                                        const core::SpanContext& trace, absl::Duration fence_at) {
  Run& run = runs_[token];
  run = {.lane = spec->lane, .fence_at = fence_at};
  ++load_[spec->lane].used;
  if (token.director_epoch != 0) outcome_.journal.emplace_back(RunAccepted{token});
  outcome_.runner_commands.emplace_back(
      ports::RunRequest{.token = token,
                        .task_id = core::TaskIdText(token.queue_id, token.dispatch),
                        .spec = std::move(spec),
                        .trace = trace,
                        .kill_grace = lease_.kill_grace,
                        .fence_at = fence_at});
  return run;
}

void AgentEngine::Reject(const FenceToken& token, absl::Status answer, absl::Duration now) {
  Send(core::StartAnswer{token, answer});
  must_report_load_ = true;
  rejections_[token] = {std::move(answer), now + lease_.redispatch_after};
}

void AgentEngine::OnCancel(const FenceToken& token, absl::Duration now) {
  if (const auto result = results_.find(token); result != results_.end()) {
    Send(core::RunEnded{token, result->second});
  } else if (const auto run = runs_.find(token); run != runs_.end()) {
    RequestStop(token, run->second, Run::StopReason::kCancelled);
  } else {
    rejections_.try_emplace(
        token, Rejection{absl::CancelledError("the task was cancelled before it started"),
                         now + lease_.redispatch_after});
    Send(core::RunEnded{token, {.end = RunResult::End::kCancelled}});
  }
}

void AgentEngine::OnResultAcknowledged(const FenceToken& token) {
  unreported_losses_.erase(token);
  reported_losses_.erase(token);
  const bool was_known = results_.erase(token) + lost_.erase(token) > 0;
  if (was_known) ForgetRun(token);
}

void AgentEngine::OnFencedOff(const FenceToken& token) {
  if (const auto run = runs_.find(token); run != runs_.end()) {
    RequestStop(token, run->second, Run::StopReason::kFencedOff);
  }
  unreported_losses_.erase(token);
  reported_losses_.erase(token);
  const bool was_known = results_.erase(token) + lost_.erase(token) > 0;
  if (was_known) ForgetRun(token);
}

void AgentEngine::RequestStop(const FenceToken& token, Run& run, Run::StopReason reason) {
  const bool is_first = run.stop_reason == Run::StopReason::kNone;
  if (is_first) outcome_.runner_commands.emplace_back(StopRun{token});
  // The first reason counts, except that a run that is fenced off is never reported.
  if (is_first || reason == Run::StopReason::kFencedOff) run.stop_reason = reason;
}

void AgentEngine::OnGoingAway(absl::Duration extension) {
  for (auto& [token, run] : runs_) {
    if (token.director_epoch == 0) continue;
    run.fence_at += extension;
    outcome_.runner_commands.emplace_back(MoveFence{token, run.fence_at});
  }
}

void AgentEngine::OnHeartbeatAcknowledged(absl::Duration sent_at) {
  const auto heartbeat = unacknowledged_heartbeats_.find(sent_at);
  if (heartbeat == unacknowledged_heartbeats_.end()) return;
  const absl::Duration fence_at = sent_at + lease_.self_fence;
  for (const FenceToken& token : heartbeat->second) {
    const auto run = runs_.find(token);
    if (run == runs_.end() || run->second.fence_at >= fence_at) continue;
    run->second.fence_at = fence_at;
    outcome_.runner_commands.emplace_back(MoveFence{token, fence_at});
  }
  unacknowledged_heartbeats_.erase(unacknowledged_heartbeats_.begin(), std::next(heartbeat));
}

// ---- The runner ---------------------------------------------------------------------------------

void AgentEngine::OnEnded(const FenceToken& token, RunResult result) {
  const auto run = runs_.find(token);
  CHECK(run != runs_.end()) << core::ToString(token.queue_id);
  const Run::StopReason stop_reason = run->second.stop_reason;
  const absl::Duration fence_at = run->second.fence_at;
  std::string request_id = std::move(run->second.request_id);
  --load_[run->second.lane].used;
  runs_.erase(run);
  TruncateResult(result);
  if (token.director_epoch == 0) {
    OnDirectRunEnded(std::move(request_id));
  } else if (stop_reason == Run::StopReason::kFencedOff) {
    ForgetRun(token);
  } else if (stop_reason == Run::StopReason::kNone && result.end == RunResult::End::kCancelled) {
    // The director did not ask for this end. The run was stopped at its fence, by a shutdown or
    // from outside, and has no result, so it is lost. Before the fence a connected director gets a
    // report now (SendLosses()); otherwise the inventory of the next Session lists the run as lost.
    lost_.insert(token);
    if (is_connected()) unreported_losses_[token] = {std::move(result), fence_at};
  } else {
    outcome_.journal.emplace_back(ResultStored{token, result});
    Send(core::RunEnded{token, result});
    results_[token] = std::move(result);
  }
}

void AgentEngine::ForgetRun(const FenceToken& token) {
  outcome_.journal.emplace_back(RunForgotten{token});
  if (!settled_.insert(token).second) return;
  settled_in_order_.push_back(token);
  if (settled_in_order_.size() <= kSettledRunsMax) return;
  settled_.erase(settled_in_order_.front());
  settled_in_order_.pop_front();
}

// ---- Direct starts ------------------------------------------------------------------------------

absl::StatusOr<DirectStartResult> AgentEngine::StartDirect(const FenceToken& token,
                                                           const DirectStart& start) {
  CHECK_EQ(token.director_epoch, 0u);
  CHECK(!start.request_id.empty());
  if (!options_.allow_direct) return DirectDisabled();
  if (const auto known = direct_requests_.find(start.request_id); known != direct_requests_.end()) {
    const DirectRequest& request = known->second;
    if (request.fingerprint != start.fingerprint)
      return RequestIdReused(known->first, request.token);
    return DirectStartResult{.token = request.token, .deduplicated = true};
  }
  if (draining_) return Draining();
  // The director would not choose this agent for the task.
  for (const auto& [label, value] : start.required_labels) {
    const auto found = options_.labels.find(label);
    if (found == options_.labels.end() || found->second != value) return LabelMissing(label, value);
  }
  RETURN_IF_ERROR(CheckStart(*start.run));
  direct_requests_[start.request_id] = {token, start.fingerprint};
  BeginRun(token, start.run, start.trace, absl::InfiniteDuration()).request_id = start.request_id;
  return DirectStartResult{.token = token};
}

void AgentEngine::OnDirectRunEnded(std::string request_id) {
  ended_direct_requests_.push_back(std::move(request_id));
  if (ended_direct_requests_.size() <= kDirectRequestsMax) return;
  direct_requests_.erase(ended_direct_requests_.front());
  ended_direct_requests_.pop_front();
}

// ---- Time, drain, shutdown ----------------------------------------------------------------------

void AgentEngine::FireTimers(absl::Duration now) {
  SendLosses(now);
  if (now >= next_heartbeat_) SendHeartbeat(now);
  std::erase_if(rejections_,
                [now](const auto& rejection) { return rejection.second.forget_at <= now; });
}

absl::Duration AgentEngine::TimeUntilNextTimer(absl::Duration now) const {
  if (!unreported_losses_.empty()) return absl::ZeroDuration();
  return std::max(next_heartbeat_ - now, absl::ZeroDuration());
}

void AgentEngine::SendHeartbeat(absl::Duration now) {
  next_heartbeat_ = now + lease_.heartbeat;
  core::Heartbeat heartbeat = {now, RunningDispatches()};
  // The leases in older heartbeats have ended.
  unacknowledged_heartbeats_.erase(unacknowledged_heartbeats_.begin(),
                                   unacknowledged_heartbeats_.lower_bound(now - lease_.self_fence));
  unacknowledged_heartbeats_[now] = heartbeat.running;
  Send(std::move(heartbeat));
  must_report_load_ = true;
  SendResults();
}

void AgentEngine::SendLosses(absl::Duration now) {
  for (auto& [token, loss] : unreported_losses_) {
    if (now >= loss.fence_at) continue;
    reported_losses_.insert(token);
    Send(core::RunEnded{token, std::move(loss.result)});
  }
  unreported_losses_.clear();
}

void AgentEngine::SendResults() {
  for (const auto& [token, result] : results_) {
    Send(core::RunEnded{token, result});
  }
}

void AgentEngine::BeginDrain() { draining_ = true; }

void AgentEngine::KillRuns() {
  for (const auto& [token, run] : runs_) outcome_.runner_commands.emplace_back(KillRun{token});
}

// ---- Reads --------------------------------------------------------------------------------------

std::vector<FenceToken> AgentEngine::RunningDispatches() const {
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

void AgentEngine::Send(core::AgentMessage message) {
  if (is_connected()) outcome_.messages.push_back(std::move(message));
}

}  // namespace callboard::agent
