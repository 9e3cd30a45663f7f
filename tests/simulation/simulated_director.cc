#include "tests/simulation/simulated_director.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/check.h"
#include "libs/testing/submissions.h"
#include "libs/wire/spec.h"
#include "tests/simulation/simulated_agent.h"

namespace callboard::simulation {

SimulatedDirector::SimulatedDirector(SimulationContext& context)
    : context_(context),
      stores_([this] { return DecideCommit(); },
              [this](const core::Record& record) {
                context_.referee.OnWritten(record, TakeCommitMoment());
              }) {}

// A director that has just opened its store commits its first decisions directly.
director::Moment SimulatedDirector::TakeCommitMoment() {
  if (commit_moments_.empty()) return Now();
  const director::Moment moment = commit_moments_.front();
  commit_moments_.pop_front();
  return moment;
}

void SimulatedDirector::Start() {
  context_.referee.Log("director starts");
  dying_ = false;
  sends_left_ = -1;
  stores_.FailToOpen(absl::OkStatus());
  director_ = std::make_unique<director::Director>(
      context_.settings.engine,
      director::Deps{context_.clock, context_.random, stores_, *this, &gauges_});
  director_->Open().IgnoreError();
  if (dying_) return Die();
  PlanTurn(UntilNextTurn());
}

absl::Duration SimulatedDirector::UntilNextTurn() const {
  return std::max(director_->NextTurnAt() - director_->Now().monotonic, absl::ZeroDuration());
}

core::SpecBytes SimulatedDirector::StoredSpec(core::QueueId id) const {
  const auto* records = stores_.disk().Find(id);
  if (records == nullptr) return {};
  return std::get<core::TaskAdmitted>(records->begin()->second.change).spec->bytes;
}

void SimulatedDirector::Die() {
  if (!is_up()) return;
  context_.referee.Log("director dies");
  ++crashes_;
  ++plan_;
  planned_at_ = absl::InfiniteDuration();
  Stop();
  inbox_.clear();
  committing_.reset();
  commit_moments_.clear();
  open_moments_.clear();
  sessions_.clear();
  context_.referee.OnWaitersLost();
  if (on_death_) on_death_();
  context_.timeline.After(absl::Milliseconds(500 + context_.random.Below(20'000)), [this] {
    if (!is_up()) Start();
  });
}

void SimulatedDirector::Stop() {
  dying_ = true;
  director_.reset();
}

test::FaultyEventStores::CommitResult SimulatedDirector::DecideCommit() {
  const Settings& settings = context_.settings;
  test::FakeRandom& random = context_.random;
  if (context_.quiet) return {absl::OkStatus()};
  if (disk_full_) return {absl::ResourceExhaustedError("no space left"), /*written=*/false};
  if (random.Chance(settings.dies_at_commit)) {
    const uint64_t when = random.Below(3);
    if (when == 2) {
      sends_left_ = static_cast<int>(random.Below(4));
      return {absl::OkStatus()};
    }
    dying_ = true;
    stores_.FailToOpen(absl::UnavailableError("the process died"));
    return {absl::UnavailableError("the process died"), /*written=*/when == 1};
  }
  if (random.Chance(settings.commit_fails)) {
    return {absl::InternalError("I/O error"), /*written=*/false};
  }
  if (random.Chance(settings.commit_fails_but_wrote)) {
    return {absl::InternalError("I/O error"), /*written=*/true};
  }
  if (random.Chance(settings.commit_is_slow)) {
    context_.referee.Log("slow commit");
    commit_takes_ = absl::Milliseconds(random.Below(90'000));
  }
  return {absl::OkStatus()};
}

bool SimulatedDirector::CanSend() {
  if (dying_) return false;
  if (sends_left_ < 0) return true;
  if (sends_left_-- > 0) return true;
  dying_ = true;
  stores_.FailToOpen(absl::UnavailableError("the process died"));
  return false;
}

void SimulatedDirector::SendToCaller(Address caller, std::function<void()> what) {
  if (CanSend()) context_.network.Send(kDirector, caller, std::move(what));
}

bool SimulatedDirector::Post(director::CommandPtr command) {
  if (!is_up()) return false;
  inbox_.push_back(std::move(command));
  PlanTurn(absl::Microseconds(context_.random.Below(3000)));
  return true;
}

void SimulatedDirector::PlanTurn(absl::Duration delay) {
  const absl::Duration at = context_.timeline.now() + delay;
  if (at >= planned_at_ || at == absl::InfiniteDuration()) return;
  planned_at_ = at;
  context_.timeline.After(at - context_.timeline.now(), [this, plan = ++plan_] {
    if (plan == plan_) Turn();
  });
}

void SimulatedDirector::Turn() {
  planned_at_ = absl::InfiniteDuration();
  if (!committing_.has_value()) director_->ReopenIfDue();
  if (dying_) return Die();
  const director::Moment now = director_->Now();
  std::vector<director::CommandPtr> commands = std::exchange(inbox_, {});
  director_->Decide(absl::MakeSpan(commands), now);
  director_->FireTimers(now);
  if (director_->engine() != nullptr) {
    open_moments_.resize(director_->engine()->outcome().records.size(), now);
  }
  BeginCommit();
  if (dying_) return Die();
  // A timer that fires at the very end of its time must not cause endless turns in the same moment.
  PlanTurn(inbox_.empty() ? std::max(UntilNextTurn(), absl::Microseconds(1))
                          : absl::ZeroDuration());
}

void SimulatedDirector::BeginCommit() {
  while (!committing_.has_value() && !dying_) {
    if (!director_->has_turn()) {
      if (director_->service() == director::Service::kFull) {
        context_.referee.OnTurn(*director_->engine(), stores_.disk(), gauges_, Now());
      }
      return;
    }
    committing_ = director_->TakeTurn();
    commit_moments_.assign(open_moments_.begin(), open_moments_.end());
    open_moments_.clear();
    commit_takes_ = absl::ZeroDuration();
    commit_status_ = director_->Commit(*committing_);
    if (dying_) return;
    if (commit_takes_ == absl::ZeroDuration()) {
      EndCommit();
      continue;
    }
    // The director continues meanwhile.
    context_.timeline.After(commit_takes_, [this, incarnation = incarnation()] {
      if (!is_up() || incarnation != crashes_) return;
      EndCommit();
      if (dying_) return Die();
      PlanTurn(absl::ZeroDuration());
    });
  }
}

void SimulatedDirector::EndCommit() {
  director::Turn turn = *std::exchange(committing_, std::nullopt);
  commit_moments_.clear();
  if (commit_status_.ok()) {
    CHECK_OK(director_->Flush(std::move(turn)));
  } else {
    open_moments_.clear();
    director_->Fail(turn, commit_status_);
  }
}

// ---- Sessions ----

void SimulatedDirector::Redial(uint64_t director_epoch) {
  epoch_ = director_epoch;
  sessions_.clear();
  for (size_t agent = 0; agent < agents_.size(); ++agent) Dial(agent);
}

void SimulatedDirector::Dial(size_t agent) {
  const core::AgentSessionId session(++last_session_);
  sessions_[session] = {agent};
  context_.network.Send(
      kDirector, agents_[agent]->address(),
      [this, agent, session, epoch = epoch_] { agents_[agent]->OnOpenSession(session, epoch); });
  // The agent does not answer, or the connection is cut later: both are noticed after a while.
  context_.timeline.After(absl::Seconds(5), [this, session] {
    const auto found = sessions_.find(session);
    if (found != sessions_.end() && !found->second.opened) CloseSession(session);
  });
}

void SimulatedDirector::OnSessionOpened(core::AgentSessionId session,
                                        const core::SessionOpened& opened) {
  const auto found = sessions_.find(session);
  if (!is_up() || found == sessions_.end() || found->second.opened) return;
  found->second.opened = true;
  context_.referee.Log(absl::StrCat("opened ", opened.name, " session ", session.value()));
  Post(director::MakeCommand(
      {.origin = director::Command::Origin::kAgent},
      [session, opened](director::DirectorEngine& engine, director::Moment now) {
        CHECK_OK(engine.OnSessionOpened(session, opened, now));
      }));
}

void SimulatedDirector::OnMessage(core::AgentSessionId session, const core::AgentMessage& message) {
  const auto found = sessions_.find(session);
  if (!is_up() || found == sessions_.end()) return;
  Post(director::MakeCommand(
      {.origin = director::Command::Origin::kAgent},
      [session, message](director::DirectorEngine& engine, director::Moment now) {
        engine.OnMessages(session, {message}, now);
      }));
  if (const auto* heartbeat = std::get_if<core::Heartbeat>(&message)) {
    // Heartbeats are acknowledged when they are queued.
    SimulatedAgent& agent = *agents_[found->second.agent];
    context_.network.Send(kDirector, agent.address(), [&agent, session, t = heartbeat->agent_time] {
      agent.OnHeartbeatAck(session, t);
    });
  }
}

void SimulatedDirector::Send(core::AgentSessionId session,
                             std::vector<core::DirectorMessage> messages) {
  // The network carries single messages, so that each of them can be lost without the others.
  for (core::DirectorMessage& message : messages) SendMessage(session, std::move(message));
}

void SimulatedDirector::SendMessage(core::AgentSessionId session, core::DirectorMessage message) {
  if (!CanSend()) return;
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) {
    if (const auto* start = std::get_if<core::StartRun>(&message)) {
      Post(director::MakeCommand(
          {.origin = director::Command::Origin::kAgent},
          [token = start->token](director::DirectorEngine& engine, director::Moment now) {
            engine.OnStartNotSent(token, now);
          }));
    }
    return;
  }
  SimulatedAgent& agent = *agents_[found->second.agent];
  if (auto* start = std::get_if<core::StartRun>(&message)) {
    context_.referee.OnStartSent(start->token, start->agent_time);
    start->run = std::make_shared<const core::RunSpec>(
        wire::ReadRunSpec(test::ParseSpec(std::exchange(start->spec, nullptr))));
  }
  context_.network.Send(
      kDirector, agent.address(),
      [&agent, session, message = std::move(message)] { agent.OnMessage(session, message); });
}

void SimulatedDirector::BreakSession(size_t agent) {
  for (const auto& [session, known] : sessions_) {
    if (known.agent == agent) return CloseSession(session);
  }
}

void SimulatedDirector::CloseSession(core::AgentSessionId session) {
  const auto found = sessions_.find(session);
  if (!is_up() || found == sessions_.end()) return;
  const size_t agent = found->second.agent;
  const bool was_open = found->second.opened;
  const std::string name = agents_[agent]->name();
  sessions_.erase(found);
  context_.referee.Log(absl::StrCat("broken ", name, " session ", session.value()));
  Post(director::MakeCommand(
      {.origin = director::Command::Origin::kAgent},
      [session, was_open, name](director::DirectorEngine& engine, director::Moment now) {
        if (was_open) {
          engine.OnSessionClosed(session, absl::UnavailableError("cut"), now);
        } else {
          engine.OnUnreachable(name, absl::UnavailableError("no answer"), now);
        }
      }));
  context_.timeline.After(absl::Milliseconds(100 + context_.random.Below(3000)),
                          [this, agent, epoch = epoch_, incarnation = incarnation()] {
                            if (is_up() && incarnation == crashes_ && epoch == epoch_) Dial(agent);
                          });
}

}  // namespace callboard::simulation
