#include "services/director/submit_tasks.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/impl/serialization_traits.h>
#include <grpcpp/support/slice.h>

#include <iterator>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "libs/base/check.h"
#include "libs/base/status_macros.h"
#include "libs/core/limits.h"
#include "libs/wire/enum_pairs.h"
#include "libs/wire/field_checks.h"
#include "libs/wire/parse.h"
#include "libs/wire/status.h"
#include "libs/wire/task.h"
#include "services/director/queue_calls.h"

namespace callboard {
namespace {

using director::SubmitStream;

// Items that may be unanswered before the next message is read, and bytes of messages. A caller
// that never reads holds an answer for each: 2,000 refusals take about 2 MiB.
constexpr size_t kOpenItems = 1024;
constexpr size_t kOpenBytes = 1 << 20;
// Answers in a message; the longest, each with all that is wrong with a task, still fit.
constexpr size_t kAnswersMax = 400;

std::string BytesOf(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  // Only a compressed one cannot be read, and none of those arrives.
  if (!buffer.Dump(&slices).ok()) return "";
  std::string bytes;
  bytes.reserve(buffer.Length());
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

grpc::ByteBuffer BufferOf(const v1::SubmitTasksResponse& response) {
  grpc::ByteBuffer buffer;
  bool owns = false;
  const grpc::Status written =
      grpc::SerializationTraits<v1::SubmitTasksResponse>::Serialize(response, &buffer, &owns);
  CHECK(written.ok()) << written.error_message();
  return buffer;
}

// The items of a v1::SubmitTasksRequest, each still as it was sent. INVALID_ARGUMENT when it is
// none, or has too many.
absl::StatusOr<std::vector<absl::string_view>> SplitItems(absl::string_view message) {
  using google::protobuf::internal::WireFormatLite;
  std::vector<absl::string_view> items;
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const uint8_t*>(message.data()),
                                            static_cast<int>(message.size()));
  const uint32_t item_tag = WireFormatLite::MakeTag(v1::SubmitTasksRequest::kItemsFieldNumber,
                                                    WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
  bool is_whole = true;
  while (const uint32_t tag = in.ReadTag()) {
    if (tag != item_tag) {
      is_whole = WireFormatLite::SkipField(&in, tag);
      if (!is_whole) break;
      continue;
    }
    int size = 0;
    is_whole = in.ReadVarintSizeAsInt(&size);
    const auto begin = static_cast<size_t>(in.CurrentPosition());
    is_whole = is_whole && begin + static_cast<size_t>(size) <= message.size() && in.Skip(size);
    if (!is_whole) break;
    items.push_back(message.substr(begin, static_cast<size_t>(size)));
  }
  if (!is_whole || !in.ConsumedEntireMessage()) {
    return wire::ParseError(*v1::SubmitTasksRequest::descriptor());
  }
  wire::FieldChecks checks;
  checks.AtMost("items", items.size(), core::kSubmitItemsMax, "entries");
  RETURN_IF_ERROR(checks.status());
  return items;
}

// `request` stays empty when `item` is none.
absl::StatusOr<core::Submission> SubmissionFrom(absl::string_view item,
                                                v1::SubmitTaskRequest& request) {
  const absl::Status parsed = wire::Parse(item, request);
  if (!parsed.ok()) {
    request.Clear();
    return parsed;
  }
  return wire::FromProto(request);
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
  call_.OnMessage(
      [self = shared_from_this()](const grpc::ByteBuffer* request) { self->OnMessage(request); });
  call_.OnSent([tell] { tell(&SubmitTasksCall::OnSent); });
  call_.OnAbandoned([self = shared_from_this()] { self->OnAbandoned(); });
  base::MutexLock lock(mutex_);
  ReadIfWanted();
}

absl::StatusOr<std::vector<SubmitStream::Item>> SubmitTasksCall::ItemsFrom(
    const grpc::ByteBuffer& request, std::vector<director::SubmitOrigin>& origins) const {
  const absl::Time arrived = clock_.WallNow();
  const std::string message = BytesOf(request);
  ASSIGN_OR_RETURN(const std::vector<absl::string_view> sent, SplitItems(message));
  std::vector<SubmitStream::Item> items;
  items.reserve(sent.size());
  for (const absl::string_view item : sent) {
    v1::SubmitTaskRequest submit;
    absl::StatusOr<core::Submission> submission = SubmissionFrom(item, submit);
    origins.push_back(OriginOf(submit, arrived, trace_.value_or(core::SpanContext())));
    if (submission.ok()) {
      submission->trace = tracer_.Begin(trace_).context;
      // Its line and its span of a cancel are in the trace of the task that it would have been.
      if (!trace_.has_value()) origins.back().trace = submission->trace;
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

void SubmitTasksCall::OnMessage(const grpc::ByteBuffer* request) {
  absl::StatusOr<std::vector<SubmitStream::Item>> items;
  std::vector<director::SubmitOrigin> origins;
  if (request != nullptr) items = ItemsFrom(*request, origins);
  if (request == nullptr || !items.ok()) {
    {
      base::MutexLock lock(mutex_);
      end_ = request == nullptr ? absl::OkStatus() : items.status();
    }
    return Send();
  }
  {
    base::MutexLock lock(mutex_);
    open_ += items->size();
    open_bytes_ += request->Length();
    origins_.insert(origins_.end(), origins.begin(), origins.end());
    // Until it is known, or told.
    has_room_ = false;
  }
  const bool has_room = stream_->Submit(*std::move(items));
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
    if (open_ == 0) open_bytes_ = 0;
    ReadIfWanted();
  }
  Send();
}

void SubmitTasksCall::OnAbandoned() {
  {
    base::MutexLock lock(mutex_);
    is_abandoned_ = true;
    sending_ = 0;
  }
  stream_->Stop(shared_from_this());
  // Answers that were not sent are logged all the same.
  Send();
}

void SubmitTasksCall::ReadIfWanted() {
  if (is_reading_ || !has_room_ || end_.has_value()) return;
  if (open_ >= kOpenItems || open_bytes_ >= kOpenBytes) return;
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
    answers = stream_->Take(is_abandoned_ ? std::numeric_limits<size_t>::max() : kAnswersMax);
    if (!is_abandoned_) {
      for (const SubmitStream::Answer& answer : answers) Write(answer, *response.add_items());
      sending_ = answers.size();
    }
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
  if (response.items_size() > 0) std::ignore = call_.Write(BufferOf(response));
}

}  // namespace callboard
