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

// How often an agent that reopens its Session does so.
constexpr absl::Duration kReopenPeriod = absl::Seconds(3);

double RateFor(Ground& ground) {
  const double drift = ground.settings.clock_drift;
  return 1 - drift / 2 + drift * static_cast<double>(ground.random.Below(1001)) / 1000;
}

}  // namespace

SimulatedAgent::SimulatedAgent(Ground& ground, SimulatedDirector& director, Address address)
    : ground_(ground),
      director_(director),
      address_(address),
      name_(absl::StrCat("agent-", address)),
      clock_rate_(RateFor(ground)),
      time_base_(absl::Seconds(ground.random.Below(100'000))) {}

void SimulatedAgent::Start() {
  if (is_up() || dead_) return;
  ground_.referee.Note(name_ + " starts");
  ++life_;
  // It opens no Session before what its predecessor started is dead.
  for (const auto& [token, process] : processes_) ground_.referee.OnProcessGone(name_, token);
  processes_.clear();
  const std::string instance_id = absl::StrCat(name_, "/", life_);
  ground_.referee.OnAgentStarted(name_, instance_id);
  engine_ = std::make_unique<agent::AgentEngine>(
      agent::EngineOptions{.name = name_,
                           .instance_id = instance_id,
                           .url = absl::StrCat("grpc://", name_),
                           .labels = LabelsOfAgent(name_),
                           .lanes = {{"default", static_cast<uint32_t>(ground_.settings.slots)}},
                           .check = [this](const core::TaskSpec&) { return Check(); }},
      journal_);
  if (life_ == 1 && IgnoresStarts() && ground_.settings.reopens_session) ReopenSession();
}

bool SimulatedAgent::IgnoresStarts() const {
  const Settings& settings = ground_.settings;
  return !quiet_ && address_ == settings.agents &&
         (settings.ends_session_on_start || settings.reopens_session);
}

void SimulatedAgent::ReopenSession() {
  ground_.timeline.After(kReopenPeriod, [this] {
    if (quiet_) return;
    if (is_up()) EndSession();
    ReopenSession();
  });
}

void SimulatedAgent::EndSession() { director_.BreakSession(static_cast<size_t>(address_ - 1)); }

void SimulatedAgent::Crash(bool power_cut) {
  if (!is_up()) return;
  ground_.referee.Note(name_ + (power_cut ? " loses power" : " crashes"));
  engine_.reset();
  ++life_;
  session_ = core::SessionId();
  if (power_cut) {
    journal_ = {};
    for (const auto& [token, process] : processes_) ground_.referee.OnProcessGone(name_, token);
    processes_.clear();
  }
  ground_.timeline.After(absl::Milliseconds(200 + ground_.random.Below(120'000)),
                         [this] { Start(); });
}

void SimulatedAgent::Die() {
  Crash(/*power_cut=*/true);
  dead_ = true;
}

void SimulatedAgent::Freeze(absl::Duration time) { frozen_until_ = ground_.timeline.now() + time; }

void SimulatedAgent::BecomeQuiet() {
  quiet_ = true;
  frozen_until_ = ground_.timeline.now();
  Start();
}

// ---- The agent's own code -----------------------------------------------------------------------

void SimulatedAgent::Act(std::function<void(agent::AgentEngine&)> what) {
  if (!is_up()) return;
  if (ground_.timeline.now() < frozen_until_) {
    ground_.timeline.After(frozen_until_ - ground_.timeline.now(),
                           [this, life = life_, what = std::move(what)] {
                             if (life == life_) Act(what);
                           });
    return;
  }
  what(*engine_);
  Follow();
}

void SimulatedAgent::Follow() {
  engine_->EndTurn();
  const agent::Outcome outcome = engine_->TakeOutcome();
  for (const agent::JournalRecord& record : outcome.journal) journal_.Apply(record);
  struct Order {
    void operator()(const ports::RunOrder& order) const { agent.Begin(order); }
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
  for (const agent::RunnerOrder& order : outcome.orders) std::visit(Order{*this}, order);
  struct Saying {
    void operator()(const core::AgentOpened& opened) const {
      agent.ground_.network.Send(agent.address_, kDirector,
                                 [&agent = agent, session = session, opened] {
                                   agent.director_.HearOpened(session, opened);
                                 });
    }
    void operator()(const core::AgentItem& item) const {
      agent.ground_.network.Send(
          agent.address_, kDirector,
          [&agent = agent, session = session, item] { agent.director_.HearItem(session, item); });
    }
    void operator()(const core::OutputWritten&) const {}
    void operator()(const core::UnknownItem&) const {}
    SimulatedAgent& agent;
    core::SessionId session;
  };
  for (const core::AgentWord& word : outcome.words) std::visit(Saying{*this, session_}, word);
  PlanTimers();
}

void SimulatedAgent::PlanTimers() {
  const absl::Duration wait = engine_->UntilNextTimer(Time());
  if (wait == absl::InfiniteDuration()) return;
  ground_.timeline.After(wait / clock_rate_ + absl::Microseconds(1),
                         [this, life = life_, plan = ++plan_] {
                           if (life != life_ || plan != plan_) return;
                           Act([this](agent::AgentEngine& engine) { engine.FireTimers(Time()); });
                         });
}

absl::Status SimulatedAgent::Check() {
  const Settings& settings = ground_.settings;
  test::FakeRandom& random = ground_.random;
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

void SimulatedAgent::HearOpen(core::SessionId session, uint64_t director_epoch) {
  // A connection that is older than the one it has was given up by the director; a frozen agent
  // takes none.
  if (!is_up() || ground_.timeline.now() < frozen_until_ || session <= session_) return;
  const core::SessionTerms terms = {director_epoch, ground_.settings.engine.lease};
  if (!engine_->Open(session, terms, Time()).ok()) return;
  session_ = session;
  Follow();
}

void SimulatedAgent::HearHeartbeatAck(core::SessionId session, absl::Duration t) {
  Act([this, session, t](agent::AgentEngine& engine) {
    engine.Hear(session, core::HeartbeatAcknowledged{t}, Time());
  });
}

void SimulatedAgent::HearItem(core::SessionId session, const core::DirectorItem& item) {
  Act([this, session, item](agent::AgentEngine& engine) {
    if (std::holds_alternative<core::StartRun>(item) && IgnoresStarts()) {
      if (ground_.settings.ends_session_on_start) EndSession();
      return;
    }
    const auto* acknowledged = std::get_if<core::ResultAcknowledged>(&item);
    if (acknowledged != nullptr && engine.IsOpen(session) &&
        journal_.results.contains(acknowledged->token)) {
      ground_.referee.OnResultForgotten(acknowledged->token);
    }
    engine.Hear(session, item, Time());
  });
}

// ---- The processes of its tasks -----------------------------------------------------------------

void SimulatedAgent::Begin(const ports::RunOrder& order) {
  const Settings& settings = ground_.settings;
  test::FakeRandom& random = ground_.random;
  const FenceToken token = order.token;
  Process& process = processes_[token];
  process.fence_at = order.fence_at;
  process.life = life_;
  process.result.result = absl::StrCat(token.dispatch.value());
  process.result.exit_code = 0;
  ground_.referee.OnProcessStarted(name_, token);
  absl::Duration length = absl::Milliseconds(100 + random.Below(40'000));
  if (!quiet_ && random.Chance(settings.run_fails)) {
    process.result.end = End::kFailed;
    process.result.exit_code = 1;
  }
  if (!quiet_ && random.Chance(settings.run_hangs)) {
    length = absl::Hours(2);
  } else if (length > order.spec->timeout) {
    length = order.spec->timeout;
    process.result.end = End::kTimedOut;
    process.result.exit_code.reset();
  }
  if (!quiet_ && random.Chance(settings.run_cannot_begin)) {
    length = absl::Milliseconds(random.Below(2'000));
    process.result = {.end = End::kNotStarted, .error = "no space left"};
  }
  ground_.timeline.After(length, [this, token] {
    const auto found = processes_.find(token);
    if (found == processes_.end() || found->second.ending) return;
    // A copy: the process is gone by the time its result is told.
    const RunResult result = found->second.result;
    OnProcessGone(token, result);
  });
  WatchFence(token);
}

// The supervisor's dead-man timer: it works also when the agent does not.
void SimulatedAgent::WatchFence(const FenceToken& token) {
  const auto process = processes_.find(token);
  if (process == processes_.end() || process->second.ending) return;
  const absl::Duration left = process->second.fence_at - Time();
  if (left <= absl::ZeroDuration()) return EndProcess(token);
  ground_.timeline.After(left / clock_rate_ + absl::Microseconds(1),
                         [this, token] { WatchFence(token); });
}

void SimulatedAgent::EndProcess(const FenceToken& token) {
  const auto process = processes_.find(token);
  if (process == processes_.end() || process->second.ending) return;
  process->second.ending = true;
  const absl::Duration grace = ground_.settings.engine.lease.kill_grace *
                               (static_cast<double>(ground_.random.Below(1000)) / 1000);
  ground_.timeline.After(grace, [this, token] {
    OnProcessGone(token, {.end = End::kCancelled, .signal = "SIGTERM"});
  });
}

void SimulatedAgent::OnProcessGone(const FenceToken& token, const RunResult& result) {
  const auto process = processes_.find(token);
  if (process == processes_.end()) return;
  ground_.referee.OnProcessGone(name_, token);
  if (result.end == End::kNotStarted) ground_.referee.OnCouldNotBegin(token);
  const bool was_ours = is_up() && process->second.life == life_;
  processes_.erase(process);
  if (!was_ours) return;
  Act([token, result](agent::AgentEngine& engine) { engine.OnEnded(token, result); });
}

}  // namespace callboard::simulation
