#include "services/director/submit_tasks.h"

#include <iterator>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "libs/wire/enum_pairs.h"
#include "libs/wire/field_checks.h"
#include "libs/wire/status.h"
#include "libs/wire/task.h"
#include "services/director/queue_calls.h"

namespace callboard {
namespace {

using director::SubmitStream;

constexpr size_t kItemsMax = 1000;
// Items that may be unanswered before the next message is read.
constexpr size_t kOpenItems = 4096;
// Answers in a message; the longest, each with all that is wrong with a task, still fit.
constexpr size_t kAnswersMax = 400;

absl::Status CheckSize(const v1::SubmitTasksRequest& request) {
  wire::FieldChecks checks;
  checks.AtMost("items", static_cast<uint64_t>(request.items_size()), kItemsMax, "entries");
  return checks.status();
}

void Write(const SubmitStream::Answer& answer, v1::SubmitTasksResponse::Item& item) {
  item.set_index(answer.index);
  if (const auto* refused = std::get_if<absl::Status>(&answer.decision)) {
    *item.mutable_refused() = wire::ToProto(*refused);
    return;
  }
  const auto& submitted = std::get<director::Submitted>(answer.decision);
  v1::SubmitTaskResponse& accepted = *item.mutable_accepted();
  if (submitted.queue_id != core::QueueId()) {
    accepted.set_queue_id(core::ToString(submitted.queue_id));
  }
  accepted.set_position(submitted.position);
  accepted.set_state(wire::ToProto(wire::kTaskStates, submitted.state));
  accepted.set_deduplicated(submitted.deduplicated);
}

}  // namespace

void SubmitTasksCall::Begin() {
  const std::weak_ptr<SubmitTasksCall> weak = weak_from_this();
  const auto tell = [weak](void (SubmitTasksCall::*what)()) {
    if (const auto self = weak.lock()) (self.get()->*what)();
  };
  stream_ = driver_.SubmitTasks({.on_answers = [tell] { tell(&SubmitTasksCall::Send); },
                                 .on_room = [tell] { tell(&SubmitTasksCall::OnRoom); }});
  // These keep it, until the call is over.
  call_.OnMessage([self = shared_from_this()](const v1::SubmitTasksRequest* request) {
    self->OnMessage(request);
  });
  call_.OnSent([tell] { tell(&SubmitTasksCall::OnSent); });
  call_.OnAbandoned([stream = stream_] { stream->Stop(); });
  base::MutexLock lock(mutex_);
  ReadIfWanted();
}

std::vector<SubmitStream::Item> SubmitTasksCall::ItemsFrom(
    const v1::SubmitTasksRequest& request) const {
  const absl::Time arrived = clock_.WallNow();
  std::vector<SubmitStream::Item> items;
  items.reserve(static_cast<size_t>(request.items_size()));
  for (const v1::SubmitTaskRequest& item : request.items()) {
    absl::StatusOr<core::Submission> submission = wire::FromProto(item);
    if (submission.ok()) {
      submission->trace = tracer_.Begin(trace_).context;
      items.push_back(director::Submitter(server::kIdentity, *std::move(submission), arrived));
    } else {
      items.push_back(submission.status());
    }
  }
  return items;
}

void SubmitTasksCall::EndSpan(const SubmitStream::Answer& answer) const {
  const auto* submitted = std::get_if<director::Submitted>(&answer.decision);
  // Of one that was refused, or accepted before, or only asked after, nothing follows.
  if (submitted == nullptr || submitted->admitted.trace == core::SpanContext()) return;
  const core::Admitted& admitted = submitted->admitted;
  tracer_.End({.context = admitted.trace, .parent = trace_, .began = admitted.submitted_at},
              kSubmitMethod, absl::OkStatus());
}

void SubmitTasksCall::OnMessage(const v1::SubmitTasksRequest* request) {
  const absl::Status end = request == nullptr ? absl::OkStatus() : CheckSize(*request);
  if (request == nullptr || !end.ok()) {
    {
      base::MutexLock lock(mutex_);
      end_ = end;
    }
    return Send();
  }
  std::vector<SubmitStream::Item> items = ItemsFrom(*request);
  {
    base::MutexLock lock(mutex_);
    open_ += items.size();
    const absl::Time arrived = clock_.WallNow();
    for (const v1::SubmitTaskRequest& item : request->items()) {
      origins_.push_back(OriginOf(item, arrived, trace_.value_or(core::SpanContext())));
    }
    // Until it is known, or told.
    has_room_ = false;
  }
  const bool has_room = stream_->Submit(std::move(items));
  base::MutexLock lock(mutex_);
  is_reading_ = false;
  has_room_ = has_room_ || has_room;
  ReadIfWanted();
}

void SubmitTasksCall::OnRoom() {
  base::MutexLock lock(mutex_);
  has_room_ = true;
  ReadIfWanted();
}

void SubmitTasksCall::OnSent() {
  {
    base::MutexLock lock(mutex_);
    open_ -= std::exchange(sending_, 0);
    ReadIfWanted();
  }
  Send();
}

void SubmitTasksCall::ReadIfWanted() {
  if (is_reading_ || !has_room_ || end_.has_value() || open_ >= kOpenItems) return;
  is_reading_ = true;
  call_.Read();
}

void SubmitTasksCall::Send() {
  v1::SubmitTasksResponse response;
  std::optional<absl::Status> end;
  std::vector<SubmitStream::Answer> answers;
  std::deque<director::SubmitOrigin> origins;
  {
    base::MutexLock lock(mutex_);
    if (sending_ > 0) return;
    answers = stream_->Take(kAnswersMax);
    for (const SubmitStream::Answer& answer : answers) Write(answer, *response.add_items());
    sending_ = answers.size();
    const auto answered = origins_.begin() + static_cast<ptrdiff_t>(answers.size());
    origins.assign(std::make_move_iterator(origins_.begin()), std::make_move_iterator(answered));
    origins_.erase(origins_.begin(), answered);
    if (answers.empty() && open_ == 0) end = end_;
  }
  for (const SubmitStream::Answer& answer : answers) {
    EndSpan(answer);
    if (const auto* why = std::get_if<absl::Status>(&answer.decision)) {
      TellOfRefusal(*why, origins.front(), clock_.WallNow(), observer_);
    }
    origins.pop_front();
  }
  if (end.has_value()) return call_.Finish(*std::move(end));
  // A stream that is over says so through its hook.
  if (response.items_size() > 0) std::ignore = call_.Write(std::move(response));
}

}  // namespace callboard
