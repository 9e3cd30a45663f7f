#include "libs/director/director.h"

#include <algorithm>
#include <utility>

#include "libs/base/error.h"
#include "libs/base/status_macros.h"

namespace callboard::director {
namespace {

constexpr absl::Duration kReopenPeriod = absl::Seconds(1);

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

Director::~Director() { desk_.TellAll(StoreUnavailable()); }

absl::Status Director::Open() {
  Close();
  absl::Status status = Load(ports::StoreAccess::kReadWrite);
  if (status.ok()) {
    engine_->Begin(Now());
    Outcome outcome = engine_->TakeOutcome();
    status = Commit(outcome);
    if (status.ok()) {
      service_ = Service::kFull;
      disk_full_ = false;
      world_.agents.Redial(engine_->epoch());
      Act(std::move(outcome));
      return status;
    }
  }
  disk_full_ = absl::IsResourceExhausted(status);
  OpenReadOnly();
  return status;
}

void Director::OpenReadOnly() {
  Close();
  reopen_at_ = Now().monotonic + kReopenPeriod;
  if (disk_full_ && Load(ports::StoreAccess::kReadOnly).ok()) {
    service_ = Service::kReadOnly;
  } else {
    Close();
  }
}

absl::Status Director::Load(ports::StoreAccess access) {
  ASSIGN_OR_RETURN(store_, world_.stores.Open(access));
  engine_ = std::make_unique<DirectorEngine>(options_, world_.random);
  return store_->Load([this](const core::Record& record) { engine_->Recover(record); });
}

void Director::Close() {
  service_ = Service::kNone;
  engine_.reset();
  store_.reset();
}

void Director::TakeTurn(std::vector<Command> commands) {
  if (service_ != Service::kFull && Now().monotonic >= reopen_at_) Open().IgnoreError();
  const Moment now = Now();
  if (service_ == Service::kFull && shutting_down_) engine_->BeginShutdown(now);
  std::vector<std::pair<Command::Reply, const Command*>> replies;
  for (const Command& command : commands) {
    const bool served = service_ == Service::kFull ||
                        (service_ == Service::kReadOnly && command.need == Command::Need::kRead);
    if (!served) {
      command.refuse(Unserved());
      continue;
    }
    if (Command::Reply reply = command.decide(*engine_, desk_, now)) {
      replies.emplace_back(std::move(reply), &command);
    }
  }
  if (service_ != Service::kFull) {
    for (const auto& [reply, command] : replies) reply();
    return;
  }
  // After all that has arrived: a lease must not end because its renewal waited behind a slow disk.
  engine_->FireTimers(now);
  Outcome outcome = engine_->TakeOutcome();
  if (const absl::Status status = Commit(outcome); status.ok()) {
    for (const auto& [reply, command] : replies) reply();
    Act(std::move(outcome));
  } else {
    disk_full_ = absl::IsResourceExhausted(status);
    Close();
    for (const auto& [reply, command] : replies) command->refuse(OutcomeUnknown());
    for (const Outcome::Answer& answer : outcome.answers) {
      desk_.Tell(answer.waiter, OutcomeUnknown());
    }
    desk_.TellAll(StoreUnavailable());
    if (disk_full_) {
      OpenReadOnly();
    } else {
      Open().IgnoreError();
    }
  }
}

absl::Status Director::Commit(const Outcome& outcome) {
  if (outcome.records.empty()) return absl::OkStatus();
  return store_->Commit(outcome.records);
}

void Director::Act(Outcome outcome) {
  for (const Outcome::Answer& answer : outcome.answers) desk_.Tell(answer.waiter, answer.decision);
  for (Outcome::Message& message : outcome.messages) {
    world_.agents.Say(message.session, std::move(message.item));
  }
}

absl::Status Director::Unserved() const {
  return service_ == Service::kReadOnly ? StoreFull() : StoreUnavailable();
}

absl::Duration Director::UntilNextTurn() const {
  const Moment now = Now();
  if (service_ == Service::kFull) return engine_->UntilNextTimer(now);
  return std::max(reopen_at_ - now.monotonic, absl::ZeroDuration());
}

}  // namespace callboard::director
