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
#include "libs/base/error.h"
#include "libs/core/limits.h"
#include "libs/wire/fields.h"
#include "libs/wire/spec.h"
#include "libs/wire/status.h"
#include "services/director/queue_service.h"

namespace callboard {
namespace {

using director::SubmitStream;

// No further message is read while this many items, or bytes of messages, are unanswered. This
// bounds the memory for a caller that never reads its answers: 2,000 rejections take about 2 MiB.
constexpr size_t kUnansweredItemsMax = 1024;
constexpr size_t kUnansweredBytesMax = 1 << 20;
// Answers per message. The message stays within its size limit even if every answer is the longest
// possible list of wrong fields.
constexpr size_t kAnswersMax = 400;

std::string ReadBytes(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  // Dump() fails only for compressed buffers, and the server accepts no compressed messages.
  if (!buffer.Dump(&slices).ok()) return "";
  std::string bytes;
  bytes.reserve(buffer.Length());
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

grpc::ByteBuffer Serialize(const v1::SubmitTasksResponse& response) {
  grpc::ByteBuffer buffer;
  bool owns = false;
  const grpc::Status written =
      grpc::SerializationTraits<v1::SubmitTasksResponse>::Serialize(response, &buffer, &owns);
  CHECK(written.ok()) << written.error_message();
  return buffer;
}

// Splits a serialized v1::SubmitTasksRequest into its serialized items. Returns INVALID_ARGUMENT
// when the message is malformed or has too many items.
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
  checks.CheckLimit("items", items.size(), core::kSubmitItemsMax, "entries");
  RETURN_IF_ERROR(checks.status());
  return items;
}

void Write(const SubmitStream::Answer& answer, v1::SubmitTasksResponse::Item& item) {
  item.set_index(answer.index);
  if (const auto* error = std::get_if<absl::Status>(&answer.decision)) {
    *item.mutable_refused() = wire::ToProto(*error);
    return;
  }
  *item.mutable_accepted() = SubmitResponse(std::get<director::SubmitResult>(answer.decision));
}

}  // namespace

void SubmitTasksCall::Begin() {
  const std::weak_ptr<SubmitTasksCall> weak = weak_from_this();
  const auto invoke = [weak](void (SubmitTasksCall::*method)()) {
    if (const auto self = weak.lock()) (self.get()->*method)();
  };
  stream_ = driver_.SubmitTasks({.on_answers = [invoke] { invoke(&SubmitTasksCall::Send); },
                                 .on_room = [invoke] { invoke(&SubmitTasksCall::OnRoom); }});
  // The message hook and the abandon hook own this object until the call ends.
  call_.SetMessageHook(
      [self = shared_from_this()](const grpc::ByteBuffer* request) { self->OnMessage(request); });
  call_.SetSentHook([invoke] { invoke(&SubmitTasksCall::OnSent); });
  call_.SetAbandonHook([self = shared_from_this()] { self->OnAbandoned(); });
  base::MutexLock lock(mutex_);
  MaybeRead();
}

absl::StatusOr<std::vector<SubmitStream::Item>> SubmitTasksCall::ItemsFrom(
    const grpc::ByteBuffer& request, std::vector<director::SubmitOrigin>& origins) const {
  const absl::Time arrived = clock_.WallNow();
  const std::string message = ReadBytes(request);
  ASSIGN_OR_RETURN(const std::vector<absl::string_view> sent, SplitItems(message));
  std::vector<SubmitStream::Item> items;
  items.reserve(sent.size());
  for (const absl::string_view item : sent) {
    v1::SubmitTaskRequest submit;
    const absl::Status parsed = wire::Parse(item, submit);
    if (!parsed.ok()) submit.Clear();
    origins.push_back(OriginOf(submit, arrived, trace_.value_or(core::SpanContext())));
    absl::StatusOr<core::Submission> submission =
        parsed.ok() ? wire::ReadSubmit(std::move(submit), driver_.default_max_attempts()) : parsed;
    if (submission.ok()) {
      submission->trace = tracer_.Begin(trace_).context;
      // If the submit is rejected or cancelled, its log line and span are in the trace that the
      // task would have had.
      if (!trace_.has_value()) origins.back().trace = submission->trace;
      items.push_back(
          director::MakeSubmitRequest(server::kIdentity, *std::move(submission), arrived));
    } else {
      items.push_back(submission.status());
    }
  }
  return items;
}

void SubmitTasksCall::EndSpan(const SubmitStream::Answer& answer) const {
  const auto* submitted = std::get_if<director::SubmitResult>(&answer.decision);
  // Only a new task has a submit span: not a rejected, repeated or validate_only submit.
  if (submitted == nullptr || submitted->admitted.trace == core::SpanContext()) return;
  const core::TaskAdmitted& admitted = submitted->admitted;
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
      end_status_ = request == nullptr ? absl::OkStatus() : items.status();
    }
    return Send();
  }
  {
    base::MutexLock lock(mutex_);
    unanswered_items_ += items->size();
    unanswered_bytes_ += request->Length();
    origins_.insert(origins_.end(), origins.begin(), origins.end());
    // Set again by the result of Submit() below, or by OnRoom(), which may come before it returns.
    has_room_ = false;
  }
  const bool has_room = stream_->Submit(*std::move(items));
  base::MutexLock lock(mutex_);
  is_reading_ = false;
  has_room_ = has_room_ || has_room;
  MaybeRead();
}

void SubmitTasksCall::OnRoom() {
  base::MutexLock lock(mutex_);
  has_room_ = true;
  MaybeRead();
}

void SubmitTasksCall::OnSent() {
  {
    base::MutexLock lock(mutex_);
    unanswered_items_ -= std::exchange(items_being_sent_, 0);
    if (unanswered_items_ == 0) unanswered_bytes_ = 0;
    MaybeRead();
  }
  Send();
}

void SubmitTasksCall::OnAbandoned() {
  {
    base::MutexLock lock(mutex_);
    is_abandoned_ = true;
    items_being_sent_ = 0;
  }
  stream_->Stop(shared_from_this());
  // Observes the answers that are not sent.
  Send();
}

void SubmitTasksCall::MaybeRead() {
  if (is_reading_ || !has_room_ || end_status_.has_value()) return;
  if (unanswered_items_ >= kUnansweredItemsMax || unanswered_bytes_ >= kUnansweredBytesMax) return;
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
    if (items_being_sent_ > 0) return;
    answers =
        stream_->TakeAnswers(is_abandoned_ ? std::numeric_limits<size_t>::max() : kAnswersMax);
    if (!is_abandoned_) {
      for (const SubmitStream::Answer& answer : answers) Write(answer, *response.add_items());
      items_being_sent_ = answers.size();
    }
    const auto answered = origins_.begin() + static_cast<ptrdiff_t>(answers.size());
    origins.assign(std::make_move_iterator(origins_.begin()), std::make_move_iterator(answered));
    origins_.erase(origins_.begin(), answered);
    if (answers.empty() && unanswered_items_ == 0) end = end_status_;
  }
  for (const SubmitStream::Answer& answer : answers) {
    EndSpan(answer);
    if (const auto* why = std::get_if<absl::Status>(&answer.decision)) {
      ReportRejectedSubmit(*why, origins.front(), clock_.WallNow(), observer_);
    }
    origins.pop_front();
  }
  if (end.has_value()) return call_.Finish(*std::move(end));
  // Write() fails only when the stream has ended; the abandon hook reports that.
  if (response.items_size() > 0) std::ignore = call_.Write(Serialize(response));
}

}  // namespace callboard
