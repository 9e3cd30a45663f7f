#include "libs/director/director.h"

#include <algorithm>
#include <utility>

#include "libs/base/check.h"
#include "libs/base/error.h"

namespace callboard::director {
namespace {

constexpr absl::Duration kReopenPeriod = absl::Seconds(1);
// Not more often, because there may be thousands of agents.
constexpr absl::Duration kReportAgentsPeriod = absl::Seconds(1);

absl::Status StoreFull() {
  return base::WithRetryAfter(
      base::WithReason(
          absl::ResourceExhaustedError("the director's disk is full; free some space, then retry"),
          "STORE_FULL"),
      kReopenPeriod);
}

absl::Status OutcomeUnknown() {
  return base::WithRetryAfter(
      base::WithReason(absl::UnavailableError(
                           "the director's store failed, and it is unknown whether this request "
                           "was executed; retry with the same request_id"),
                       "OUTCOME_UNKNOWN"),
      kReopenPeriod);
}

}  // namespace

absl::Status StoreUnavailable(absl::Duration retry_after) {
  return base::WithRetryAfter(
      base::WithReason(absl::UnavailableError("the director's store is not available; retry"),
                       "STORE_UNAVAILABLE"),
      retry_after);
}

Director::~Director() {
  Close();
  for (const CommandPtr& command : replies_) command->Fail(StoreUnavailable(kReopenPeriod));
  waiters_.FailAll(StoreUnavailable(kReopenPeriod));
}

void Director::SetStoreListener(std::function<void(const ports::EventStore*)> on_store) {
  on_store_ = std::move(on_store);
  on_store_(store_.get());
}

void Director::SetChangeFeed(ChangeFeed& feed) {
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
      deps_.agents.Redial(engine_->epoch());
      SetService(Service::kFull, status);
      return Flush(std::move(first));
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
    SetService(Service::kReadOnly, why);
  } else {
    Close();
    SetService(Service::kNone, why);
  }
}

absl::Status Director::Load(ports::StoreAccess access) {
  ASSIGN_OR_RETURN(store_, deps_.stores.Open(access));
  engine_ = std::make_unique<DirectorEngine>(options_, deps_.random);
  return store_->Load([this](const core::Record& record) { return engine_->Recover(record); });
}

void Director::Close() {
  if (on_store_) on_store_(nullptr);
  service_ = Service::kNone;
  engine_.reset();
  store_.reset();
}

void Director::SetService(Service service, const absl::Status& why) {
  service_ = service;
  if (on_store_) on_store_(store_.get());
  if (feed_ != nullptr && engine_ != nullptr) feed_->Begin(engine_->epoch());
  ReportService(service, why);
  ReportLevels();
}

void Director::ReportService(Service service, const absl::Status& why) {
  // Before the first success the error is only returned by Open().
  has_served_ |= service != Service::kNone;
  if (deps_.observer != nullptr && has_served_) deps_.observer->OnService(service, why);
}

void Director::ReopenIfDue() {
  if (service_ != Service::kFull && Now().monotonic >= reopen_at_) Open().IgnoreError();
}

void Director::Decide(absl::Span<CommandPtr> commands, Moment now) {
  for (CommandPtr& command : commands) {
    const bool served = service_ == Service::kFull || (service_ == Service::kReadOnly &&
                                                       command->access() == Command::Access::kRead);
    if (!served) {
      command->Fail(UnservedError());
      continue;
    }
    // The previous command may have admitted waiters. They no longer wait, so this command cannot
    // cancel their wait.
    CollectAnswers();
    const size_t weight = command->weight();
    switch (command->Decide(*engine_, waiters_, now)) {
      case Command::DecideResult::kReply:
        calls_in_turn_ += weight;
        replies_.push_back(std::move(command));
        break;
      case Command::DecideResult::kWait:
        waiters_.Add(std::move(command));
        break;
      case Command::DecideResult::kNoReply:
        break;
    }
  }
  CollectAnswers();
  // A caller that starts or stops waiting does not make a turn.
  if (engine_ != nullptr && engine_->waiter_queue().size() != reported_waiting_) ReportLevels();
}

void Director::FireTimers(Moment now) {
  ReportAgents(now);
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
    CommandPtr command = waiters_.Remove(answer.waiter);
    if (command == nullptr) continue;
    *command->decision() = std::move(answer.decision);
    calls_in_turn_ += command->weight();
    replies_.push_back(std::move(command));
  }
}

bool Director::has_turn() const {
  return !replies_.empty() || (engine_ != nullptr && !engine_->outcome().empty());
}

Turn Director::TakeTurn() {
  calls_in_turn_ = 0;
  if (service_ != Service::kNone) ReportLevels();
  return {engine_ == nullptr ? Outcome() : engine_->TakeOutcome(), std::exchange(replies_, {})};
}

absl::Status Director::Commit(const Turn& turn) {
  const std::vector<core::Record>& records = turn.outcome.records;
  if (records.empty()) return absl::OkStatus();
  const absl::Duration began = deps_.clock.MonotonicNow();
  RETURN_IF_ERROR(store_->Commit(records));
  if (deps_.observer != nullptr) {
    deps_.observer->OnCommit(records.size(), deps_.clock.MonotonicNow() - began);
  }
  return absl::OkStatus();
}

absl::Status Director::Flush(Turn turn) {
  if (feed_ != nullptr) feed_->Publish(turn.outcome.records);
  // Agents first, because they have work to do. A caller that gets its reply can rely on the
  // messages having been sent.
  const absl::Status status = SendToAgents(std::move(turn.outcome.messages));
  for (const CommandPtr& command : turn.replies) command->SendReply();
  if (deps_.observer != nullptr) {
    ReportTasks(turn.outcome);
    deps_.observer->OnTurn(turn.outcome.records, turn.outcome.steps);
    if (!turn.outcome.orphans.empty()) deps_.observer->OnOrphans(turn.outcome.orphans);
  }
  return status;
}

absl::Status Director::SendToAgents(std::vector<Outcome::Message> messages) {
  // All messages for one agent are sent together.
  std::stable_sort(messages.begin(), messages.end(), [](const auto& left, const auto& right) {
    return left.session < right.session;
  });
  std::vector<core::DirectorMessage> together;
  for (size_t i = 0; i < messages.size(); ++i) {
    if (auto* start = std::get_if<core::StartRun>(&messages[i].message);
        start != nullptr && !start->spec) {
      ASSIGN_OR_RETURN(start->spec, store_->Spec(start->token.queue_id));
      CHECK(start->spec != nullptr) << ToString(start->token.queue_id);
    }
    together.push_back(std::move(messages[i].message));
    const bool is_last = i + 1 == messages.size() || messages[i + 1].session != messages[i].session;
    if (is_last) deps_.agents.Send(messages[i].session, std::exchange(together, {}));
  }
  return absl::OkStatus();
}

void Director::ReportTasks(const Outcome& outcome) const {
  for (const TaskStep& step : outcome.steps) {
    const auto& record = std::get<core::TaskRecord>(outcome.records[step.record]);
    if (std::holds_alternative<core::TaskDispatched>(record.change)) {
      deps_.observer->OnDispatch(record, step);
    } else if (const std::optional<CancelPhase> phase = CancelPhaseOf(record, step)) {
      deps_.observer->OnCancel({.phase = *phase,
                                .queue_id = record.queue_id,
                                .who = record.event.who,
                                .dispatch = record.event.dispatch,
                                .agent = record.event.agent,
                                .at = record.event.at,
                                .origin = {.arrived = step.submitted_at, .trace = step.trace}});
    }
  }
}

void Director::ReportLevels() {
  if (deps_.observer == nullptr || engine_ == nullptr) return;
  const TaskTable& tasks = engine_->tasks();
  QueueLevels levels = {.pending = tasks.counts().pending,
                        .in_flight = tasks.counts().dispatching + tasks.counts().working,
                        .waiting = engine_->waiter_queue().size(),
                        .max_size = options_.queue.max_size,
                        .remembered_requests = tasks.remembered().size()};
  if (const Entry* oldest = tasks.OldestPending()) levels.oldest = oldest->task.created_at;
  reported_waiting_ = levels.waiting;
  deps_.observer->OnStateChange(levels);
}

void Director::ReportAgents(Moment now) {
  if (engine_ == nullptr || now.monotonic < report_agents_at_) return;
  AgentCounts agents;
  for (const auto& [name, agent] : engine_->fleet().agents()) {
    ++agents[ViewOf(agent, options_.lease, now).state];
  }
  report_agents_at_ = now.monotonic + kReportAgentsPeriod;
  deps_.observer->OnAgents(agents);
}

void Director::Fail(const Turn& turn, const absl::Status& why) {
  disk_full_ = absl::IsResourceExhausted(why);
  // Report first: the next steps wait for running reads.
  ReportService(Service::kNone, why);
  for (const CommandPtr& command : turn.replies) command->Fail(OutcomeUnknown());
  // Commands decided after the failed turn were never written, and they build on state that may not
  // exist.
  const Turn after = TakeTurn();
  for (const CommandPtr& command : after.replies) command->Fail(StoreUnavailable(kReopenPeriod));
  waiters_.FailAll(StoreUnavailable(kReopenPeriod));
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
  if (const absl::Status status = Flush(std::move(turn)); !status.ok()) Fail({}, status);
}

absl::Status Director::UnservedError() const {
  return service_ == Service::kReadOnly ? StoreFull() : StoreUnavailable(kReopenPeriod);
}

absl::Duration Director::NextTurnAt() const {
  const Moment now = Now();
  const absl::Duration due =
      service_ == Service::kFull ? now.monotonic + engine_->TimeUntilNextTimer(now) : reopen_at_;
  const absl::Duration report = engine_ == nullptr ? absl::InfiniteDuration() : report_agents_at_;
  return std::min(due, report);
}

}  // namespace callboard::director
