#include "libs/link/session_call.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "libs/base/error.h"
#include "libs/core/dispatch_rules.h"
#include "libs/core/hash.h"
#include "libs/ports/agent_link.h"
#include "libs/wire/alarm.h"
#include "libs/wire/status.h"
#include "libs/wire/task.h"

namespace callboard::link::internal {
namespace {

// The delay before messages are delivered again that on_messages() did not take.
constexpr absl::Duration kRedeliverAfter = absl::Milliseconds(10);

// After its reads have ended, a call ends within this time, unless its last message did not parse.
constexpr absl::Duration kEndTimeout = absl::Seconds(1);

bool IsIdle(const core::LaneLoads& lanes) {
  return std::all_of(lanes.begin(), lanes.end(),
                     [](const auto& lane) { return lane.second.used == 0; });
}

// Adds a reason to the error with which gRPC ends a call when a message is larger than one of its
// ends accepts. Only the error's text tells.
absl::Status WithReasonIfTooLarge(const absl::Status& status) {
  if (!absl::IsResourceExhausted(status) ||
      !absl::StrContains(status.message(), "message larger than max")) {
    return status;
  }
  return base::WithReason(status, ports::kMessageTooLarge);
}

}  // namespace

void SessionCall::Start(v1::AgentService::Stub& stub, const core::SessionTerms& terms) {
  self_ = shared_from_this();
  {
    base::MutexLock lock(mutex_);
    stub.async()->Session(&context_.emplace(), this);
  }
  StartRead(&incoming_);
  // Writes are started outside of reactions, so gRPC requires a hold.
  AddHold();
  StartCall();
  Send({terms});
}

bool SessionCall::Send(absl::Span<const core::DirectorMessage> messages) {
  std::vector<v1::SessionRequest::Item> items;
  items.reserve(messages.size());
  for (const core::DirectorMessage& message : messages) items.push_back(wire::ToProto(message));
  base::MutexLock lock(mutex_);
  if (reads_ended_ || closing_) return false;
  for (v1::SessionRequest::Item& item : items) outgoing_.Add(std::move(item));
  WriteNext();
  return true;
}

void SessionCall::WriteNext() {
  if (writing_ || reads_ended_) return;
  // gRPC only queues the operation. It does not call back into this object from here.
  if (!outgoing_.empty()) {
    current_ = outgoing_.TakeMessage();
    writing_ = true;
    ++writes_;
    StartWrite(&current_);
    StartDeferredRead();
  } else if (closing_) {
    writing_ = true;
    StartWritesDone();
  }
}

void SessionCall::StartDeferredRead() {
  if (std::exchange(read_state_, ReadState::kActive) != ReadState::kActive) StartRead(&incoming_);
}

bool SessionCall::ResumeDeferredRead() {
  base::MutexLock lock(mutex_);
  if (read_state_ == ReadState::kDeferred) {
    read_state_ = ReadState::kDeferredLong;
    return true;
  }
  StartDeferredRead();
  return false;
}

void SessionCall::OnWriteDone(bool ok) {
  base::MutexLock lock(mutex_);
  writing_ = false;
  if (ok) WriteNext();
}

void SessionCall::Close() {
  base::MutexLock lock(mutex_);
  if (std::exchange(closing_, true)) return;
  WriteNext();
  StartDeferredRead();
}

void SessionCall::Cancel(const absl::Status& reason) {
  base::MutexLock lock(mutex_);
  if (cancel_reason_.ok()) cancel_reason_ = reason;
  if (context_.has_value()) context_->TryCancel();
  StartDeferredRead();
}

absl::Status SessionCall::ParseIncoming() {
  messages_.clear();
  for (const v1::SessionResponse::Item& item : incoming_.items()) {
    ASSIGN_OR_RETURN(core::AgentMessage message, wire::FromProto(item));
    messages_.push_back(std::move(message));
  }
  return absl::OkStatus();
}

// Returns whether the next message to expect is ours: the agent sent a result and runs nothing
// else, so it waits for the acknowledgement, which usually comes together with the next start.
bool SessionCall::AwaitsAnswer() {
  bool has_result = false;
  for (const core::AgentMessage& message : messages_) {
    if (const auto* opened = std::get_if<core::SessionOpened>(&message)) {
      agent_is_idle_ = IsIdle(opened->lanes);
    } else if (const auto* load = std::get_if<core::LoadReport>(&message)) {
      agent_is_idle_ = IsIdle(load->lanes);
    } else {
      has_result = has_result || std::holds_alternative<core::RunEnded>(message);
    }
  }
  return has_result && agent_is_idle_;
}

void SessionCall::OnReadDone(bool ok) {
  if (ok) {
    if (const absl::Status read = ParseIncoming(); !read.ok()) {
      Cancel(base::Annotate(read, "the agent sent an invalid item"));
      messages_.clear();
    }
    return Deliver();
  }
  {
    base::MutexLock lock(mutex_);
    reads_ended_ = true;
  }
  // gRPC also ends the reads when a message does not parse, but then leaves the call open.
  alarm_ = std::make_unique<grpc::Alarm>();
  wire::SetAlarm(*alarm_, kEndTimeout, [weak = weak_from_this()] {
    if (const std::shared_ptr<SessionCall> self = weak.lock()) {
      self->Cancel(absl::InvalidArgumentError("the agent sent a message that does not parse"));
    }
  });
  RemoveHold();
}

void SessionCall::Deliver() {
  uint64_t writes_before = 0;
  {
    base::MutexLock lock(mutex_);
    writes_before = writes_;
  }
  if (!messages_.empty() && !events_.on_messages(*this, messages_)) {
    // Until they are taken nothing is read, and flow control stops the agent.
    alarm_ = std::make_unique<grpc::Alarm>();
    wire::SetAlarm(*alarm_, kRedeliverAfter, [self = self_] { self->Deliver(); });
    return;
  }
  const bool awaits_answer = AwaitsAnswer();
  {
    base::MutexLock lock(mutex_);
    // A call that is ending must read to learn of the end.
    const bool is_ending = closing_ || !cancel_reason_.ok();
    if (!awaits_answer || is_ending || writes_ != writes_before) return StartRead(&incoming_);
    read_state_ = ReadState::kDeferred;
  }
  events_.on_read_deferred();
}

void SessionCall::OnDone(const grpc::Status& status) {
  absl::Status reason;
  std::vector<core::FenceToken> unsent;
  {
    base::MutexLock lock(mutex_);
    context_.reset();
    reason = cancel_reason_.ok() ? WithReasonIfTooLarge(wire::FromGrpc(status)) : cancel_reason_;
    for (const v1::SessionRequest::Item& item : outgoing_.TakeRest()) {
      if (!item.has_start()) continue;
      const auto token = wire::FromProto(item.start().token());
      if (token.ok()) unsent.push_back(*token);
    }
  }
  const std::shared_ptr<SessionCall> self = std::move(self_);
  events_.on_done(*this, reason, std::move(unsent));
}

// ---- Dialling again -----------------------------------------------------------------------------

absl::Duration RedialDelay(absl::string_view address, uint32_t failures, absl::Duration min,
                           absl::Duration max) {
  const uint64_t hash = core::StableHash().Add(address).Add(failures).value();
  return core::WithJitter(core::ExponentialBackoff(min, 2, failures, max), hash);
}

absl::Duration RedialDelayMax(size_t waiting, uint32_t per_second, absl::Duration max) {
  return std::max(max, absl::Seconds(1) * static_cast<double>(waiting) / per_second);
}

bool FirstDialLimiter::TryAcquire(absl::Duration now) {
  const absl::Duration until = std::max(made_until_, now - absl::Seconds(1)) + period_;
  if (until > now) return false;
  made_until_ = until;
  return true;
}

uint32_t CountFailures(const SessionOutcome& session, uint32_t failures, absl::Duration max) {
  const absl::Duration success_min = session.did_work ? std::min(max, kWorkDurationMin) : max;
  return session.opened && session.duration >= success_min ? 0 : failures + 1;
}

}  // namespace callboard::link::internal
