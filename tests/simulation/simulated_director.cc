#include "tests/simulation/simulated_director.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/check.h"
#include "tests/simulation/simulated_agent.h"

namespace callboard::simulation {

SimulatedDirector::SimulatedDirector(Ground& ground)
    : ground_(ground),
      stores_([this] { return DecideCommit(); },
              [this](const core::Record& record) {
                ground_.referee.OnWritten(record, TakeCommitMoment());
              }) {}

// A director that has just opened its store commits what it decides at once.
director::Moment SimulatedDirector::TakeCommitMoment() {
  if (commit_moments_.empty()) return Now();
  const director::Moment moment = commit_moments_.front();
  commit_moments_.pop_front();
  return moment;
}

void SimulatedDirector::Start() {
  ground_.referee.Note("director starts");
  dying_ = false;
  says_left_ = -1;
  stores_.FailToOpen(absl::OkStatus());
  director_ = std::make_unique<director::Director>(
      ground_.settings.engine,
      director::World{ground_.clock, ground_.random, stores_, *this, &gauges_});
  director_->Open().IgnoreError();
  if (dying_) return Die();
  PlanTurn(UntilNextTurn());
}

absl::Duration SimulatedDirector::UntilNextTurn() const {
  return std::max(director_->NextTurnAt() - director_->Now().monotonic, absl::ZeroDuration());
}

core::TaskSpec SimulatedDirector::SpecOf(core::QueueId id) const {
  const auto* records = stores_.disk().Find(id);
  if (records == nullptr) return {};
  return *std::get<core::Admitted>(records->begin()->second.change).spec;
}

void SimulatedDirector::Die() {
  if (!is_up()) return;
  ground_.referee.Note("director dies");
  ++crashes_;
  ++plan_;
  planned_at_ = absl::InfiniteDuration();
  Vanish();
  inbox_.clear();
  committing_.reset();
  commit_moments_.clear();
  open_moments_.clear();
  sessions_.clear();
  ground_.referee.OnKnocksLost();
  if (on_death_) on_death_();
  ground_.timeline.After(absl::Milliseconds(500 + ground_.random.Below(20'000)), [this] {
    if (!is_up()) Start();
  });
}

void SimulatedDirector::Vanish() {
  dying_ = true;
  director_.reset();
}

test::FaultyEventStores::Fate SimulatedDirector::DecideCommit() {
  const Settings& settings = ground_.settings;
  test::FakeRandom& random = ground_.random;
  if (ground_.quiet) return {absl::OkStatus()};
  if (disk_full_) return {absl::ResourceExhaustedError("no space left"), /*written=*/false};
  if (random.Chance(settings.dies_at_commit)) {
    const uint64_t when = random.Below(3);
    if (when == 2) {
      says_left_ = static_cast<int>(random.Below(4));
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
    ground_.referee.Note("slow commit");
    commit_takes_ = absl::Milliseconds(random.Below(90'000));
  }
  return {absl::OkStatus()};
}

bool SimulatedDirector::Speaks() {
  if (dying_) return false;
  if (says_left_ < 0) return true;
  if (says_left_-- > 0) return true;
  dying_ = true;
  stores_.FailToOpen(absl::UnavailableError("the process died"));
  return false;
}

void SimulatedDirector::Tell(Address caller, std::function<void()> what) {
  if (Speaks()) ground_.network.Send(kDirector, caller, std::move(what));
}

bool SimulatedDirector::Post(director::CommandPtr command) {
  if (!is_up()) return false;
  inbox_.push_back(std::move(command));
  PlanTurn(absl::Microseconds(ground_.random.Below(3000)));
  return true;
}

void SimulatedDirector::PlanTurn(absl::Duration delay) {
  const absl::Duration at = ground_.timeline.now() + delay;
  if (at >= planned_at_ || at == absl::InfiniteDuration()) return;
  planned_at_ = at;
  ground_.timeline.After(at - ground_.timeline.now(), [this, plan = ++plan_] {
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
  // What comes at the very end of a timer's time must not lead to a turn in the same moment for
  // ever.
  PlanTurn(inbox_.empty() ? std::max(UntilNextTurn(), absl::Microseconds(1))
                          : absl::ZeroDuration());
}

void SimulatedDirector::BeginCommit() {
  while (!committing_.has_value() && !dying_) {
    if (!director_->has_turn()) {
      if (director_->service() == director::Service::kFull) {
        ground_.referee.OnTurn(*director_->engine(), stores_.disk(), gauges_, Now());
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
    // The director goes on meanwhile.
    ground_.timeline.After(commit_takes_, [this, life = life()] {
      if (!is_up() || life != crashes_) return;
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
    CHECK_OK(director_->Say(std::move(turn)));
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
  const core::SessionId session(++last_session_);
  sessions_[session] = {agent};
  ground_.network.Send(
      kDirector, agents_[agent]->address(),
      [this, agent, session, epoch = epoch_] { agents_[agent]->HearOpen(session, epoch); });
  // Nothing comes back, or the connection stands and is cut later: both are noticed after a while.
  ground_.timeline.After(absl::Seconds(5), [this, session] {
    const auto found = sessions_.find(session);
    if (found != sessions_.end() && !found->second.opened) CloseSession(session);
  });
}

void SimulatedDirector::HearOpened(core::SessionId session, const core::AgentOpened& opened) {
  const auto found = sessions_.find(session);
  if (!is_up() || found == sessions_.end() || found->second.opened) return;
  found->second.opened = true;
  ground_.referee.Note(absl::StrCat("opened ", opened.name, " session ", session.value()));
  Post(director::AgentCommand(
      [session, opened](director::DirectorEngine& engine, director::Moment now) {
        CHECK_OK(engine.OnOpened(session, opened, now));
      }));
}

void SimulatedDirector::HearItem(core::SessionId session, const core::AgentItem& item) {
  const auto found = sessions_.find(session);
  if (!is_up() || found == sessions_.end()) return;
  Post(director::AgentCommand(
      [session, item](director::DirectorEngine& engine, director::Moment now) {
        engine.OnItems(session, {item}, now);
      }));
  if (const auto* heartbeat = std::get_if<core::Heartbeat>(&item)) {
    // Acknowledged when queued.
    SimulatedAgent& agent = *agents_[found->second.agent];
    ground_.network.Send(kDirector, agent.address(), [&agent, session, t = heartbeat->agent_time] {
      agent.HearHeartbeatAck(session, t);
    });
  }
}

void SimulatedDirector::Say(core::SessionId session, std::vector<core::DirectorItem> items) {
  // The network takes them one by one, so that any of them can be lost without the others.
  for (const core::DirectorItem& item : items) SayOne(session, item);
}

void SimulatedDirector::SayOne(core::SessionId session, const core::DirectorItem& item) {
  if (!Speaks()) return;
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) {
    if (const auto* start = std::get_if<core::StartRun>(&item)) {
      Post(director::AgentCommand(
          [token = start->token](director::DirectorEngine& engine, director::Moment now) {
            engine.OnNotWritten(token, now);
          }));
    }
    return;
  }
  SimulatedAgent& agent = *agents_[found->second.agent];
  if (const auto* start = std::get_if<core::StartRun>(&item)) {
    ground_.referee.OnStartSaid(start->token, start->agent_time);
  }
  ground_.network.Send(kDirector, agent.address(),
                       [&agent, session, item] { agent.HearItem(session, item); });
}

void SimulatedDirector::BreakSession(size_t agent) {
  for (const auto& [session, known] : sessions_) {
    if (known.agent == agent) return CloseSession(session);
  }
}

void SimulatedDirector::CloseSession(core::SessionId session) {
  const auto found = sessions_.find(session);
  if (!is_up() || found == sessions_.end()) return;
  const size_t agent = found->second.agent;
  const bool was_open = found->second.opened;
  const std::string name = agents_[agent]->name();
  sessions_.erase(found);
  ground_.referee.Note(absl::StrCat("broken ", name, " session ", session.value()));
  Post(director::AgentCommand(
      [session, was_open, name](director::DirectorEngine& engine, director::Moment now) {
        if (was_open) {
          engine.OnBroken(session, absl::UnavailableError("cut"), now);
        } else {
          engine.OnUnreachable(name, absl::UnavailableError("no answer"), now);
        }
      }));
  ground_.timeline.After(absl::Milliseconds(100 + ground_.random.Below(3000)),
                         [this, agent, epoch = epoch_, life = life()] {
                           if (is_up() && life == crashes_ && epoch == epoch_) Dial(agent);
                         });
}

}  // namespace callboard::simulation
