#include "tests/simulation/simulated_agent.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "libs/base/error.h"

namespace callboard::simulation {
namespace {

using core::FenceToken;
using core::RunResult;
using End = RunResult::End;

// Interval at which an agent reopens its Session.
constexpr absl::Duration kReopenPeriod = absl::Seconds(3);

double RateFor(SimulationContext& context) {
  const double drift = context.settings.clock_drift;
  return 1 - drift / 2 + drift * static_cast<double>(context.random.Below(1001)) / 1000;
}

}  // namespace

SimulatedAgent::SimulatedAgent(SimulationContext& context, SimulatedDirector& director,
                               Address address)
    : context_(context),
      director_(director),
      address_(address),
      name_(absl::StrCat("agent-", address)),
      clock_rate_(RateFor(context)),
      time_base_(absl::Seconds(context.random.Below(100'000))) {}

void SimulatedAgent::Start() {
  if (is_up() || dead_) return;
  context_.referee.Log(name_ + " starts");
  ++incarnation_;
  // It opens no Session before the processes of its predecessor are dead.
  for (const auto& [token, process] : processes_) context_.referee.OnProcessGone(name_, token);
  processes_.clear();
  const std::string instance_id = absl::StrCat(name_, "/", incarnation_);
  context_.referee.OnAgentStarted(name_, instance_id);
  engine_ = std::make_unique<agent::AgentEngine>(
      agent::EngineOptions{.name = name_,
                           .instance_id = instance_id,
                           .url = absl::StrCat("grpc://", name_),
                           .labels = LabelsOfAgent(name_),
                           .lanes = {{"default", static_cast<uint32_t>(context_.settings.slots)}},
                           .check = [this](const core::RunSpec&) { return Check(); }},
      journal_);
  if (incarnation_ == 1 && IgnoresStarts() && context_.settings.reopens_session) ReopenSession();
}

bool SimulatedAgent::IgnoresStarts() const {
  const Settings& settings = context_.settings;
  return !quiet_ && address_ == settings.agents &&
         (settings.ends_session_on_start || settings.reopens_session);
}

void SimulatedAgent::ReopenSession() {
  context_.timeline.After(kReopenPeriod, [this] {
    if (quiet_) return;
    if (is_up()) EndSession();
    ReopenSession();
  });
}

void SimulatedAgent::EndSession() { director_.BreakSession(static_cast<size_t>(address_ - 1)); }

void SimulatedAgent::Crash(bool power_cut) {
  if (!is_up()) return;
  context_.referee.Log(name_ + (power_cut ? " loses power" : " crashes"));
  engine_.reset();
  ++incarnation_;
  session_ = core::AgentSessionId();
  if (power_cut) {
    journal_ = {};
    for (const auto& [token, process] : processes_) context_.referee.OnProcessGone(name_, token);
    processes_.clear();
  }
  context_.timeline.After(absl::Milliseconds(200 + context_.random.Below(120'000)),
                          [this] { Start(); });
}

void SimulatedAgent::Die() {
  Crash(/*power_cut=*/true);
  dead_ = true;
}

void SimulatedAgent::Freeze(absl::Duration time) { frozen_until_ = context_.timeline.now() + time; }

void SimulatedAgent::BecomeQuiet() {
  quiet_ = true;
  frozen_until_ = context_.timeline.now();
  Start();
}

// ---- The agent's engine -------------------------------------------------------------------------

void SimulatedAgent::RunEngine(std::function<void(agent::AgentEngine&)> what) {
  if (!is_up()) return;
  if (context_.timeline.now() < frozen_until_) {
    context_.timeline.After(frozen_until_ - context_.timeline.now(),
                            [this, incarnation = incarnation_, what = std::move(what)] {
                              if (incarnation == incarnation_) RunEngine(what);
                            });
    return;
  }
  what(*engine_);
  ApplyOutcome();
}

void SimulatedAgent::ApplyOutcome() {
  engine_->EndTurn();
  const agent::Outcome outcome = engine_->TakeOutcome();
  for (const agent::JournalRecord& record : outcome.journal) journal_.Apply(record);
  struct CommandExecutor {
    void operator()(const ports::RunRequest& request) const { agent.StartProcess(request); }
    void operator()(const agent::StopRun& stop) const { agent.EndProcess(stop.token); }
    void operator()(const agent::KillRun& kill) const { agent.EndProcess(kill.token); }
    void operator()(const agent::MoveFence& moved) const {
      const auto process = agent.processes_.find(moved.token);
      if (process == agent.processes_.end()) return;
      process->second.fence_at = moved.fence_at;
      agent.WatchFence(moved.token);
    }
    SimulatedAgent& agent;
  };
  for (const agent::RunnerCommand& command : outcome.runner_commands)
    std::visit(CommandExecutor{*this}, command);
  for (const core::AgentMessage& message : outcome.messages) {
    context_.network.Send(address_, kDirector, [this, session = session_, message] {
      if (const auto* opened = std::get_if<core::SessionOpened>(&message)) {
        director_.OnSessionOpened(session, *opened);
      } else {
        director_.OnMessage(session, message);
      }
    });
  }
  PlanTimers();
}

void SimulatedAgent::PlanTimers() {
  const absl::Duration wait = engine_->TimeUntilNextTimer(Time());
  if (wait == absl::InfiniteDuration()) return;
  context_.timeline.After(
      wait / clock_rate_ + absl::Microseconds(1),
      [this, incarnation = incarnation_, plan = ++plan_] {
        if (incarnation != incarnation_ || plan != plan_) return;
        RunEngine([this](agent::AgentEngine& engine) { engine.FireTimers(Time()); });
      });
}

absl::Status SimulatedAgent::Check() {
  const Settings& settings = context_.settings;
  test::FakeRandom& random = context_.random;
  if (quiet_) return absl::OkStatus();
  if (random.Chance(settings.answers_busy)) {
    return base::WithReason(absl::AbortedError("busy"), "AGENT_BUSY");
  }
  if (random.Chance(settings.answers_rejected)) return absl::InvalidArgumentError("bad task");
  if (random.Chance(settings.answers_error)) {
    const absl::Status errors[] = {absl::UnavailableError("down"), absl::InternalError("bug"),
                                   absl::PermissionDeniedError("who are you"),
                                   base::WithRetryAfter(absl::ResourceExhaustedError("memory"),
                                                        absl::Seconds(1 + random.Below(60)))};
    return errors[random.Below(4)];
  }
  return absl::OkStatus();
}

void SimulatedAgent::OnOpenSession(core::AgentSessionId session, uint64_t director_epoch) {
  // The director has given up connections that are older than the current one; a frozen agent
  // accepts none.
  if (!is_up() || context_.timeline.now() < frozen_until_ || session <= session_) return;
  const core::SessionTerms terms = {director_epoch, context_.settings.engine.lease};
  if (!engine_->OpenSession(session, terms, Time()).ok()) return;
  session_ = session;
  ApplyOutcome();
}

void SimulatedAgent::OnHeartbeatAck(core::AgentSessionId session, absl::Duration t) {
  RunEngine([this, session, t](agent::AgentEngine& engine) {
    engine.Handle(session, core::HeartbeatAck{t}, Time());
  });
}

void SimulatedAgent::OnMessage(core::AgentSessionId session, const core::DirectorMessage& message) {
  RunEngine([this, session, message](agent::AgentEngine& engine) {
    if (std::holds_alternative<core::StartRun>(message) && IgnoresStarts()) {
      if (context_.settings.ends_session_on_start) EndSession();
      return;
    }
    const auto* acknowledged = std::get_if<core::ResultAck>(&message);
    if (acknowledged != nullptr && engine.IsOpen(session) &&
        journal_.results.contains(acknowledged->token)) {
      context_.referee.OnResultForgotten(acknowledged->token);
    }
    engine.Handle(session, message, Time());
  });
}

// ---- The processes of its tasks -----------------------------------------------------------------

void SimulatedAgent::StartProcess(const ports::RunRequest& request) {
  const Settings& settings = context_.settings;
  test::FakeRandom& random = context_.random;
  const FenceToken token = request.token;
  Process& process = processes_[token];
  process.fence_at = request.fence_at;
  process.incarnation = incarnation_;
  process.result.result = absl::StrCat(token.dispatch.value());
  process.result.exit_code = 0;
  context_.referee.OnProcessStarted(name_, token);
  absl::Duration length = absl::Milliseconds(100 + random.Below(40'000));
  if (!quiet_ && random.Chance(settings.run_fails)) {
    process.result.end = End::kFailed;
    process.result.exit_code = 1;
  }
  if (!quiet_ && random.Chance(settings.run_hangs)) {
    length = absl::Hours(2);
  } else if (length > request.spec->timeout) {
    length = request.spec->timeout;
    process.result.end = End::kTimedOut;
    process.result.exit_code.reset();
  }
  if (!quiet_ && random.Chance(settings.run_cannot_begin)) {
    length = absl::Milliseconds(random.Below(2'000));
    process.result = {.end = End::kNotStarted, .error = "no space left"};
  }
  context_.timeline.After(length, [this, token] {
    const auto found = processes_.find(token);
    if (found == processes_.end() || found->second.ending) return;
    // A copy: the process is erased before its result is handled.
    const RunResult result = found->second.result;
    OnProcessGone(token, result);
  });
  WatchFence(token);
}

// The dead-man timer of the supervisor: it works even when the agent does not.
void SimulatedAgent::WatchFence(const FenceToken& token) {
  const auto process = processes_.find(token);
  if (process == processes_.end() || process->second.ending) return;
  const absl::Duration left = process->second.fence_at - Time();
  if (left <= absl::ZeroDuration()) return EndProcess(token);
  context_.timeline.After(left / clock_rate_ + absl::Microseconds(1),
                          [this, token] { WatchFence(token); });
}

void SimulatedAgent::EndProcess(const FenceToken& token) {
  const auto process = processes_.find(token);
  if (process == processes_.end() || process->second.ending) return;
  process->second.ending = true;
  const absl::Duration grace = context_.settings.engine.lease.kill_grace *
                               (static_cast<double>(context_.random.Below(1000)) / 1000);
  context_.timeline.After(grace, [this, token] {
    OnProcessGone(token, {.end = End::kCancelled, .signal = "SIGTERM"});
  });
}

void SimulatedAgent::OnProcessGone(const FenceToken& token, const RunResult& result) {
  const auto process = processes_.find(token);
  if (process == processes_.end()) return;
  context_.referee.OnProcessGone(name_, token);
  if (result.end == End::kNotStarted) context_.referee.OnRunNotStarted(token);
  const bool was_ours = is_up() && process->second.incarnation == incarnation_;
  processes_.erase(process);
  if (!was_ours) return;
  RunEngine([token, result](agent::AgentEngine& engine) { engine.OnEnded(token, result); });
}

}  // namespace callboard::simulation
