#include "libs/adapters/grpc_link/session_call.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "libs/base/error.h"
#include "libs/base/status_macros.h"
#include "libs/ports/agent_link.h"
#include "libs/wire/session.h"
#include "libs/wire/status.h"
#include "libs/wire/task.h"

namespace callboard::adapters::internal {
namespace {

// What was not taken is brought again after so long.
constexpr absl::Duration kAgainAfter = absl::Milliseconds(10);

// A call whose reads are over ends within this time, unless its last message did not parse.
constexpr absl::Duration kEndTakes = absl::Seconds(1);

bool IsIdle(const core::LaneLoads& lanes) {
  return std::all_of(lanes.begin(), lanes.end(),
                     [](const auto& lane) { return lane.second.used == 0; });
}

// gRPC ends a call with these words when a message is larger than one of its ends takes. There is
// no other sign of it.
absl::Status WithReasonIfTooLarge(const absl::Status& status) {
  if (!absl::IsResourceExhausted(status) ||
      !absl::StrContains(status.message(), "message larger than max")) {
    return status;
  }
  return base::WithReason(status, ports::kMessageTooLarge);
}

}  // namespace

void SetAlarm(grpc::Alarm& alarm, absl::Duration wait, std::function<void()> then) {
  alarm.Set(gpr_time_from_millis(absl::ToInt64Milliseconds(wait), GPR_TIMESPAN),
            [then = std::move(then)](bool elapsed) {
              if (elapsed) then();
            });
}

void SessionCall::Start(v1::AgentService::Stub& stub, const core::SessionTerms& terms) {
  self_ = shared_from_this();
  {
    base::MutexLock lock(mutex_);
    stub.async()->Session(&context_.emplace(), this);
  }
  StartRead(&incoming_);
  // Others than gRPC write.
  AddHold();
  StartCall();
  Say({terms});
}

bool SessionCall::Say(absl::Span<const core::DirectorWord> words) {
  std::vector<v1::SessionRequest::Item> items;
  items.reserve(words.size());
  for (const core::DirectorWord& word : words) items.push_back(wire::ToProto(word));
  base::MutexLock lock(mutex_);
  if (over_ || closing_) return false;
  for (v1::SessionRequest::Item& item : items) outgoing_.Add(std::move(item));
  WriteNext();
  return true;
}

void SessionCall::WriteNext() {
  if (writing_ || over_) return;
  // gRPC hears of it later, on a thread of its own: it never comes back into this call.
  if (!outgoing_.empty()) {
    current_ = outgoing_.Take();
    writing_ = true;
    ++writes_;
    StartWrite(&current_);
    ReadNow();
  } else if (closing_) {
    writing_ = true;
    StartWritesDone();
  }
}

void SessionCall::ReadNow() {
  if (std::exchange(reading_, Reading::kGoesOn) != Reading::kGoesOn) StartRead(&incoming_);
}

bool SessionCall::ReadOn() {
  base::MutexLock lock(mutex_);
  if (reading_ == Reading::kPutOff) {
    reading_ = Reading::kPutOffForLong;
    return true;
  }
  ReadNow();
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
  ReadNow();
}

void SessionCall::Cancel(const absl::Status& why) {
  base::MutexLock lock(mutex_);
  if (why_.ok()) why_ = why;
  if (context_.has_value()) context_->TryCancel();
  ReadNow();
}

absl::Status SessionCall::ReadWords() {
  words_.clear();
  for (const v1::SessionResponse::Item& item : incoming_.items()) {
    ASSIGN_OR_RETURN(core::AgentWord word, wire::FromProto(item));
    words_.push_back(std::move(word));
  }
  return absl::OkStatus();
}

// A result is acknowledged, mostly together with the next start. Until then there is nothing to
// read from an agent that runs nothing else.
bool SessionCall::AwaitsAnswer() {
  bool has_result = false;
  for (const core::AgentWord& word : words_) {
    if (const auto* opened = std::get_if<core::AgentOpened>(&word)) {
      agent_is_idle_ = IsIdle(opened->lanes);
    } else if (const auto* item = std::get_if<core::AgentItem>(&word)) {
      has_result = has_result || std::holds_alternative<core::RunEnded>(*item);
      if (const auto* load = std::get_if<core::LoadReported>(item)) {
        agent_is_idle_ = IsIdle(load->lanes);
      }
    }
  }
  return has_result && agent_is_idle_;
}

void SessionCall::OnReadDone(bool ok) {
  if (ok) {
    if (const absl::Status read = ReadWords(); !read.ok()) {
      Cancel(base::Annotate(read, "the agent says"));
      words_.clear();
    }
    return Deliver();
  }
  {
    base::MutexLock lock(mutex_);
    over_ = true;
  }
  // gRPC also ends the reads when a message does not parse, and then leaves the call open.
  again_ = std::make_unique<grpc::Alarm>();
  SetAlarm(*again_, kEndTakes, [weak = weak_from_this()] {
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
  if (!words_.empty() && !events_.on_words(*this, words_)) {
    // While nothing is read the agent's own line fills up.
    again_ = std::make_unique<grpc::Alarm>();
    SetAlarm(*again_, kAgainAfter, [self = self_] { self->Deliver(); });
    return;
  }
  const bool awaits_answer = AwaitsAnswer();
  {
    base::MutexLock lock(mutex_);
    // One that ends hears of it by reading.
    const bool is_over = closing_ || !why_.ok();
    if (!awaits_answer || is_over || writes_ != writes_before) return StartRead(&incoming_);
    reading_ = Reading::kPutOff;
  }
  events_.on_put_off();
}

void SessionCall::OnDone(const grpc::Status& status) {
  absl::Status why;
  std::vector<core::FenceToken> unwritten;
  {
    base::MutexLock lock(mutex_);
    context_.reset();
    why = why_.ok() ? WithReasonIfTooLarge(wire::FromGrpc(status)) : why_;
    for (const v1::SessionRequest::Item& item : outgoing_.TakeRest()) {
      if (!item.has_start()) continue;
      const auto token = wire::FromProto(item.start().token());
      if (token.ok()) unwritten.push_back(*token);
    }
  }
  const std::shared_ptr<SessionCall> self = std::move(self_);
  events_.on_done(*this, why, std::move(unwritten));
}

}  // namespace callboard::adapters::internal
