#include "tests/simulation/simulated_agent.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/error.h"

namespace callboard::simulation {
namespace {

using core::FenceToken;
using core::RunResult;
using End = RunResult::End;

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
  if (up_ || dead_) return;
  ground_.referee.Note(name_ + " starts");
  up_ = true;
  ++life_;
  // It opens no Session before what its predecessor started is dead.
  for (auto& [token, run] : runs_) {
    if (run.alive) ground_.referee.OnProcessGone(name_, token);
  }
  runs_.clear();
  Beat(life_);
}

void SimulatedAgent::Crash(bool power_cut) {
  if (!up_) return;
  ground_.referee.Note(name_ + (power_cut ? " loses power" : " crashes"));
  up_ = false;
  ++life_;
  session_ = core::SessionId();
  highest_epoch_ = 0;
  answers_.clear();
  beats_.clear();
  if (power_cut) {
    journal_.clear();
    results_.clear();
    for (auto& [token, run] : runs_) {
      if (run.alive) ground_.referee.OnProcessGone(name_, token);
    }
    runs_.clear();
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

void SimulatedAgent::Handle(core::SessionId session, std::function<void()> what) {
  if (!up_ || session != session_) return;
  if (ground_.timeline.now() < frozen_until_) {
    ground_.timeline.After(frozen_until_ - ground_.timeline.now(),
                           [this, session, what] { Handle(session, what); });
    return;
  }
  what();
}

void SimulatedAgent::Say(core::AgentItem item) {
  ground_.network.Send(address_, kDirector, [this, session = session_, item = std::move(item)] {
    director_.HearItem(session, item);
  });
}

core::LoadReported SimulatedAgent::Load() const {
  const auto used =
      std::count_if(runs_.begin(), runs_.end(), [](const auto& run) { return run.second.alive; });
  return {{{"default",
            {.slots = static_cast<uint32_t>(ground_.settings.slots),
             .used = static_cast<uint32_t>(used)}}}};
}

void SimulatedAgent::HearOpen(core::SessionId session, uint64_t director_epoch) {
  // Only the newest Session of the highest epoch; a frozen agent opens none.
  if (!up_ || ground_.timeline.now() < frozen_until_ || director_epoch < highest_epoch_ ||
      (director_epoch == highest_epoch_ && session <= session_)) {
    return;
  }
  highest_epoch_ = director_epoch;
  session_ = session;
  beats_.clear();
  core::AgentOpened opened;
  opened.name = name_;
  opened.instance_id = absl::StrCat(name_, "/", life_);
  opened.url = absl::StrCat("grpc://", name_);
  opened.labels = LabelsOfAgent(name_);
  opened.lanes = Load().lanes;
  opened.agent_time = Time();
  for (const FenceToken& token : journal_) {
    const auto run = runs_.find(token);
    if (results_.contains(token)) continue;
    (run != runs_.end() && run->second.alive ? opened.running : opened.lost).push_back(token);
  }
  for (const auto& [token, result] : results_) opened.unacknowledged.push_back({token, result});
  // A director is back: what its predecessor granted beyond the usual ends, without an answer.
  for (auto& [token, run] : runs_) {
    run.fence_at = std::min(run.fence_at, Time() + ground_.settings.engine.lease.self_fence);
    WatchFence(token);
  }
  ground_.network.Send(address_, kDirector,
                       [this, session, opened] { director_.HearOpened(session, opened); });
}

void SimulatedAgent::Beat(uint64_t life) {
  if (!up_ || life != life_) return;
  if (session_ != core::SessionId() && ground_.timeline.now() >= frozen_until_) {
    core::Heartbeat heartbeat = {Time(), {}};
    for (const auto& [token, run] : runs_) {
      if (run.alive) heartbeat.running.push_back(token);
    }
    beats_[heartbeat.agent_time] = heartbeat.running;
    Say(heartbeat);
    Say(Load());
    for (const auto& [token, result] : results_) Say(core::RunEnded{token, result});
  }
  ground_.timeline.After(ground_.settings.engine.lease.heartbeat / clock_rate_,
                         [this, life] { Beat(life); });
}

void SimulatedAgent::HearHeartbeatAck(core::SessionId session, absl::Duration t) {
  Handle(session, [this, t] {
    const auto beat = beats_.find(t);
    if (beat == beats_.end()) return;
    for (const FenceToken& token : beat->second) {
      const auto run = runs_.find(token);
      if (run == runs_.end()) continue;
      run->second.fence_at =
          std::max(run->second.fence_at, t + ground_.settings.engine.lease.self_fence);
    }
    beats_.erase(beats_.begin(), std::next(beat));
  });
}

void SimulatedAgent::HearItem(core::SessionId session, const core::DirectorItem& item) {
  Handle(session, [this, item] {
    if (const auto* start = std::get_if<core::StartRun>(&item)) {
      OnStart(*start);
    } else if (const auto* cancel = std::get_if<core::CancelRun>(&item)) {
      OnCancel(cancel->token);
    } else if (const auto* acknowledged = std::get_if<core::ResultAcknowledged>(&item)) {
      if (results_.erase(acknowledged->token) > 0) {
        ground_.referee.OnResultForgotten(acknowledged->token);
      }
      journal_.erase(acknowledged->token);
    } else if (const auto* fenced = std::get_if<core::FencedOff>(&item)) {
      EndProcess(fenced->token, {.end = End::kCancelled});
      journal_.erase(fenced->token);
      results_.erase(fenced->token);
    } else if (const auto* away = std::get_if<core::GoingAway>(&item)) {
      for (auto& [token, run] : runs_) run.fence_at += away->extension;
    }
  });
}

void SimulatedAgent::OnStart(const core::StartRun& start) {
  const auto [answered, is_new] = answers_.try_emplace(start.token);
  if (is_new) {
    answered->second = AnswerTo(start);
    if (answered->second.ok()) Begin(start);
  }
  Say(core::StartAnswered{start.token, answered->second});
  Say(Load());
  const auto result = results_.find(start.token);
  if (result != results_.end()) Say(core::RunEnded{start.token, result->second});
}

absl::Status SimulatedAgent::AnswerTo(const core::StartRun& start) {
  const Settings& settings = ground_.settings;
  test::FakeRandom& random = ground_.random;
  if (Time() > start.agent_time + settings.engine.lease.self_fence) {
    return base::WithReason(absl::AbortedError("too late"), "START_TOO_LATE");
  }
  const absl::Status busy = base::WithReason(absl::AbortedError("busy"), "AGENT_BUSY");
  if (Load().lanes.at("default").used >= static_cast<uint32_t>(settings.slots)) return busy;
  if (quiet_) return absl::OkStatus();
  if (random.Chance(settings.answers_busy)) return busy;
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

void SimulatedAgent::Begin(const core::StartRun& start) {
  const Settings& settings = ground_.settings;
  test::FakeRandom& random = ground_.random;
  const FenceToken token = start.token;
  journal_.insert(token);
  Run& run = runs_[token];
  run.fence_at = start.agent_time + settings.engine.lease.self_fence;
  run.life = life_;
  run.result.result = absl::StrCat(token.dispatch.value());
  run.result.exit_code = 0;
  ground_.referee.OnProcessStarted(name_, token);
  absl::Duration length = absl::Milliseconds(100 + random.Below(40'000));
  if (!quiet_ && random.Chance(settings.run_fails)) {
    run.result.end = End::kFailed;
    run.result.exit_code = 1;
  }
  if (!quiet_ && random.Chance(settings.run_hangs)) {
    length = absl::Hours(2);
  } else if (length > start.spec->timeout) {
    length = start.spec->timeout;
    run.result.end = End::kTimedOut;
    run.result.exit_code.reset();
  }
  ground_.timeline.After(length, [this, token] {
    const auto found = runs_.find(token);
    if (found == runs_.end() || found->second.ending) return;
    // A copy: the run is gone by the time its result is told.
    const RunResult result = found->second.result;
    OnProcessGone(token, result);
  });
  WatchFence(token);
}

// The supervisor's dead-man timer: it works also when the agent does not.
void SimulatedAgent::WatchFence(const FenceToken& token) {
  const auto run = runs_.find(token);
  if (run == runs_.end() || !run->second.alive || run->second.ending) return;
  const absl::Duration left = run->second.fence_at - Time();
  if (left <= absl::ZeroDuration()) return EndProcess(token, {.end = End::kCancelled});
  ground_.timeline.After(left / clock_rate_ + absl::Microseconds(1),
                         [this, token] { WatchFence(token); });
}

void SimulatedAgent::EndProcess(const FenceToken& token, const RunResult& result) {
  const auto run = runs_.find(token);
  if (run == runs_.end() || !run->second.alive || run->second.ending) return;
  run->second.ending = true;
  const absl::Duration grace = ground_.settings.engine.lease.kill_grace *
                               (static_cast<double>(ground_.random.Below(1000)) / 1000);
  ground_.timeline.After(grace, [this, token, result] { OnProcessGone(token, result); });
}

void SimulatedAgent::OnProcessGone(const FenceToken& token, const RunResult& result) {
  const auto run = runs_.find(token);
  if (run == runs_.end() || !run->second.alive) return;
  run->second.alive = false;
  ground_.referee.OnProcessGone(name_, token);
  const bool was_ours = up_ && run->second.life == life_;
  // Killed without being asked to by the director: nothing to report, it is lost.
  const bool is_result =
      !run->second.ending || result.end != End::kCancelled || !result.signal.empty();
  runs_.erase(run);
  if (!was_ours || !journal_.contains(token) || !is_result) {
    if (was_ours && session_ != core::SessionId()) Say(Load());
    return;
  }
  results_[token] = result;
  if (session_ == core::SessionId()) return;
  Say(core::RunEnded{token, result});
  Say(Load());
}

void SimulatedAgent::OnCancel(const FenceToken& token) {
  const RunResult cancelled = {.end = End::kCancelled, .signal = "SIGTERM"};
  if (const auto result = results_.find(token); result != results_.end()) {
    Say(core::RunEnded{token, result->second});
  } else if (runs_.contains(token)) {
    EndProcess(token, cancelled);
  } else {
    answers_.try_emplace(token, absl::CancelledError("cancelled before it started"));
    Say(core::RunEnded{token, cancelled});
  }
}

}  // namespace callboard::simulation
