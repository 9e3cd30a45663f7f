#include "libs/director/director.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "libs/base/check.h"
#include "libs/base/error.h"
#include "libs/base/status_macros.h"

namespace callboard::director {
namespace {

constexpr absl::Duration kReopenPeriod = absl::Seconds(1);
// There may be thousands of agents.
constexpr absl::Duration kShowAgentsPeriod = absl::Seconds(1);

absl::Status StoreUnavailable() {
  return base::WithRetryAfter(
      base::WithReason(absl::UnavailableError("the director's store is not available; retry"),
                       "STORE_UNAVAILABLE"),
      kReopenPeriod);
}

absl::Status StoreFull() {
  return base::WithRetryAfter(
      base::WithReason(absl::ResourceExhaustedError(
                           "the director's disk is full; nothing can be accepted until it is not"),
                       "STORE_FULL"),
      kReopenPeriod);
}

absl::Status OutcomeUnknown() {
  return base::WithRetryAfter(
      base::WithReason(
          absl::UnavailableError("the director's store failed, and whether this was done is not "
                                 "known; retry with the same request_id"),
          "OUTCOME_UNKNOWN"),
      kReopenPeriod);
}

}  // namespace

Director::~Director() {
  Close();
  for (const CommandPtr& command : answers_) command->Refuse(StoreUnavailable());
  desk_.RefuseAll(StoreUnavailable());
}

void Director::OnStore(std::function<void(const ports::EventStore*)> told) {
  on_store_ = std::move(told);
  on_store_(store_.get());
}

void Director::Feed(ChangeFeed& feed) {
  feed_ = &feed;
  if (engine_ != nullptr) feed_->Begin(engine_->epoch());
}

absl::Status Director::Open() {
  Close();
  absl::Status status = Load(ports::StoreAccess::kReadWrite);
  if (status.ok()) {
    engine_->Begin(Now());
    if (shutting_down_) engine_->BeginShutdown(Now());
    Turn first = TakeTurn();
    status = Commit(first);
    if (status.ok()) {
      disk_full_ = false;
      world_.agents.Redial(engine_->epoch());
      Serve(Service::kFull, status);
      return Say(std::move(first));
    }
  }
  disk_full_ = absl::IsResourceExhausted(status);
  OpenReadOnly(status);
  return status;
}

void Director::OpenReadOnly(const absl::Status& why) {
  Close();
  reopen_at_ = Now().monotonic + kReopenPeriod;
  if (disk_full_ && Load(ports::StoreAccess::kReadOnly).ok()) {
    Serve(Service::kReadOnly, why);
  } else {
    Close();
    Serve(Service::kNone, why);
  }
}

absl::Status Director::Load(ports::StoreAccess access) {
  ASSIGN_OR_RETURN(store_, world_.stores.Open(access));
  engine_ = std::make_unique<DirectorEngine>(options_, world_.random);
  return store_->Load([this](const core::Record& record) { return engine_->Recover(record); });
}

void Director::Close() {
  if (on_store_) on_store_(nullptr);
  service_ = Service::kNone;
  engine_.reset();
  store_.reset();
}

void Director::Serve(Service service, const absl::Status& why) {
  service_ = service;
  if (on_store_) on_store_(store_.get());
  if (feed_ != nullptr && engine_ != nullptr) feed_->Begin(engine_->epoch());
  Tell(service, why);
  ShowLevels();
}

void Director::Tell(Service service, const absl::Status& why) {
  // A director that never served has no more to say than what Open() returns.
  has_served_ |= service != Service::kNone;
  if (world_.observer != nullptr && has_served_) world_.observer->OnService(service, why);
}

void Director::ReopenIfDue() {
  if (service_ != Service::kFull && Now().monotonic >= reopen_at_) Open().IgnoreError();
}

void Director::Decide(absl::Span<CommandPtr> commands, Moment now) {
  for (CommandPtr& command : commands) {
    const bool served = service_ == Service::kFull ||
                        (service_ == Service::kReadOnly && command->need() == Command::Need::kRead);
    if (!served) {
      command->Refuse(Unserved());
      continue;
    }
    // A caller whom the command before let in waits no longer, and cannot leave the line any more.
    CollectAnswers();
    const size_t weight = command->weight();
    switch (command->Decide(*engine_, desk_, now)) {
      case Command::Then::kSay:
        calls_ += weight;
        answers_.push_back(std::move(command));
        break;
      case Command::Then::kWait:
        desk_.Seat(absl::WrapUnique(static_cast<DoorCommand*>(command.release())));
        break;
      case Command::Then::kNothing:
        break;
    }
  }
  CollectAnswers();
  // Who begins to wait, or leaves, makes no turn.
  if (engine_ != nullptr && engine_->waiting_line().size() != waiting_shown_) ShowLevels();
}

void Director::FireTimers(Moment now) {
  ShowAgents(now);
  if (service_ != Service::kFull) return;
  engine_->FireTimers(now);
  CollectAnswers();
}

void Director::BeginShutdown(Moment now) {
  shutting_down_ = true;
  if (service_ != Service::kFull) return;
  engine_->BeginShutdown(now);
  CollectAnswers();
}

void Director::CollectAnswers() {
  if (engine_ == nullptr || engine_->outcome().answers.empty()) return;
  for (Outcome::Answer& answer : engine_->TakeAnswers()) {
    std::unique_ptr<DoorCommand> caller = desk_.Take(answer.waiter);
    if (caller == nullptr) continue;
    caller->SetDecision(std::move(answer.decision));
    calls_ += caller->weight();
    answers_.push_back(std::move(caller));
  }
}

bool Director::has_turn() const {
  return !answers_.empty() || (engine_ != nullptr && !engine_->outcome().empty());
}

Turn Director::TakeTurn() {
  calls_ = 0;
  if (service_ != Service::kNone) ShowLevels();
  return {engine_ == nullptr ? Outcome() : engine_->TakeOutcome(), std::exchange(answers_, {})};
}

absl::Status Director::Commit(const Turn& turn) {
  const std::vector<core::Record>& records = turn.outcome.records;
  if (records.empty()) return absl::OkStatus();
  const absl::Duration began = world_.clock.MonotonicNow();
  RETURN_IF_ERROR(store_->Commit(records));
  if (world_.observer != nullptr) {
    world_.observer->OnCommit(records.size(), world_.clock.MonotonicNow() - began);
  }
  return absl::OkStatus();
}

absl::Status Director::Say(Turn turn) {
  if (feed_ != nullptr) feed_->Publish(turn.outcome.records);
  // They have work to do; and whoever is answered can be sure that they were told.
  const absl::Status status = SayToAgents(std::move(turn.outcome.messages));
  for (const CommandPtr& command : turn.answers) command->Say();
  if (world_.observer != nullptr) {
    ShowTasks(turn.outcome);
    world_.observer->OnTurn(turn.outcome.records, turn.outcome.steps);
    if (!turn.outcome.orphans.empty()) world_.observer->OnOrphans(turn.outcome.orphans);
  }
  return status;
}

absl::Status Director::SayToAgents(std::vector<Outcome::Message> messages) {
  // What a turn has for an agent is one message.
  std::stable_sort(messages.begin(), messages.end(), [](const auto& left, const auto& right) {
    return left.session < right.session;
  });
  std::vector<core::DirectorItem> items;
  for (size_t i = 0; i < messages.size(); ++i) {
    if (auto* start = std::get_if<core::StartRun>(&messages[i].item);
        start != nullptr && !start->spec) {
      ASSIGN_OR_RETURN(start->spec, store_->TaskSpec(start->token.queue_id));
      CHECK(start->spec != nullptr) << ToString(start->token.queue_id);
    }
    items.push_back(std::move(messages[i].item));
    const bool is_last = i + 1 == messages.size() || messages[i + 1].session != messages[i].session;
    if (is_last) world_.agents.Say(messages[i].session, std::exchange(items, {}));
  }
  return absl::OkStatus();
}

void Director::ShowTasks(const Outcome& outcome) const {
  for (const TaskStep& step : outcome.steps) {
    const auto& record = std::get<core::TaskRecord>(outcome.records[step.record]);
    if (std::holds_alternative<core::Dispatched>(record.change)) {
      world_.observer->OnDispatch(record, step);
    } else if (const std::optional<CancelPhase> phase = CancelPhaseOf(record, step)) {
      world_.observer->OnCancel({.phase = *phase,
                                 .queue_id = record.queue_id,
                                 .who = record.event.who,
                                 .dispatch = record.event.dispatch,
                                 .agent = record.event.agent,
                                 .at = record.event.at,
                                 .origin = {.arrived = step.submitted_at, .trace = step.trace}});
    }
  }
}

void Director::ShowLevels() {
  if (world_.observer == nullptr || engine_ == nullptr) return;
  const Book& book = engine_->book();
  QueueLevels levels = {.pending = book.counts().pending,
                        .in_flight = book.counts().dispatching + book.counts().working,
                        .waiting = engine_->waiting_line().size(),
                        .max_size = options_.queue.max_size,
                        .remembered_requests = book.remembered().size()};
  if (const Entry* oldest = book.OldestPending()) levels.oldest = oldest->life.created_at;
  waiting_shown_ = levels.waiting;
  world_.observer->OnStateChange(levels);
}

void Director::ShowAgents(Moment now) {
  if (engine_ == nullptr || now.monotonic < show_agents_at_) return;
  AgentCounts agents;
  for (const auto& [name, agent] : engine_->fleet().agents()) {
    ++agents[ViewOf(agent, options_.lease, now).state];
  }
  show_agents_at_ = now.monotonic + kShowAgentsPeriod;
  world_.observer->OnAgents(agents);
}

void Director::Fail(const Turn& turn, const absl::Status& why) {
  disk_full_ = absl::IsResourceExhausted(why);
  // Before anybody who reads from the store is waited for.
  Tell(Service::kNone, why);
  for (const CommandPtr& command : turn.answers) command->Refuse(OutcomeUnknown());
  // What came after it was not written, and what it rests on may not be true.
  const Turn after = TakeTurn();
  for (const CommandPtr& command : after.answers) command->Refuse(StoreUnavailable());
  desk_.RefuseAll(StoreUnavailable());
  if (disk_full_) {
    OpenReadOnly(why);
  } else {
    Open().IgnoreError();
  }
}

void Director::RunTurn(std::vector<CommandPtr> commands) {
  ReopenIfDue();
  const Moment now = Now();
  Decide(absl::MakeSpan(commands), now);
  FireTimers(now);
  Turn turn = TakeTurn();
  if (const absl::Status status = Commit(turn); !status.ok()) return Fail(turn, status);
  if (const absl::Status status = Say(std::move(turn)); !status.ok()) Fail({}, status);
}

absl::Status Director::Unserved() const {
  return service_ == Service::kReadOnly ? StoreFull() : StoreUnavailable();
}

absl::Duration Director::NextTurnAt() const {
  const Moment now = Now();
  const absl::Duration due =
      service_ == Service::kFull ? now.monotonic + engine_->UntilNextTimer(now) : reopen_at_;
  const absl::Duration shown = engine_ == nullptr ? absl::InfiniteDuration() : show_agents_at_;
  return std::min(due, shown);
}

}  // namespace callboard::director
