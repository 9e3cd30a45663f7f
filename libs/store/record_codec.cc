#include "libs/store/record_codec.h"

#include <google/protobuf/message_lite.h>
#include <rocksdb/slice.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <variant>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "callboard/storage/v1/record.pb.h"
#include "libs/base/check.h"
#include "libs/base/error.h"
#include "libs/base/text.h"
#include "libs/store/database.h"
#include "libs/wire/spec.h"
#include "libs/wire/task.h"

namespace callboard::store {

namespace disk = storage::v1;

namespace {

using wire::EnumPair;
using wire::kFailureReasons;
using wire::kFaults;
using wire::kQueuePolicies;
using wire::kTaskEventKinds;
using wire::kTaskStates;

constexpr EnumPair<core::DispatchFailure, disk::DispatchFailure> kDispatchFailures[] = {
    {core::DispatchFailure::kNone, disk::DISPATCH_FAILURE_NONE},
    {core::DispatchFailure::kAgentFailed, disk::DISPATCH_FAILURE_AGENT_FAILED},
    {core::DispatchFailure::kAgentLost, disk::DISPATCH_FAILURE_AGENT_LOST},
};

// ---- Single fields ------------------------------------------------------------------------------

// Sets a field unless the text is empty, because setting an empty text would allocate.
template <class Message>
void SetText(Message& message, std::string* (Message::*field)(), const std::string& text) {
  if (!text.empty()) *(message.*field)() = text;
}

// Encodes null as the unspecified value.
template <class Core, class Proto, size_t N>
Proto OptionalToProto(const EnumPair<Core, Proto> (&table)[N], std::optional<Core> value) {
  return value.has_value() ? wire::ToProto(table, *value) : Proto{};
}

// Decodes the unspecified value as null.
template <class Core, class Proto, size_t N>
std::optional<Core> ReadOptionalEnum(absl::string_view field,
                                     const EnumPair<Core, Proto> (&table)[N], Proto value,
                                     DecodeErrors& errors) {
  if (value == Proto{}) return std::nullopt;
  return ReadEnum(field, table, value, errors);
}

// An id is encoded as bytes whose order is that of the ids.
constexpr size_t kQueueIdBytes = 16;

void AppendQueueId(core::QueueId id, std::string& bytes) {
  AppendBigEndian(id.value().high(), bytes);
  AppendBigEndian(id.value().low(), bytes);
}

core::QueueId ReadQueueId(absl::string_view field, absl::string_view bytes, DecodeErrors& errors) {
  if (bytes.size() != kQueueIdBytes) {
    errors.Add(field);
    return {};
  }
  return core::QueueId(core::Ulid(ReadBigEndian(bytes), ReadBigEndian(bytes.substr(kNumberBytes))));
}

// ---- Changes ------------------------------------------------------------------------------------

void Write(const core::TaskDispatched& dispatched, disk::Dispatched& proto) {
  proto.set_dispatch(dispatched.dispatch.value());
  proto.set_director_epoch(dispatched.director_epoch);
  SetText(proto, &disk::Dispatched::mutable_instance_id, dispatched.instance_id);
  SetText(proto, &disk::Dispatched::mutable_agent_url, dispatched.agent_url);
}

void Write(const core::SpanContext& trace, std::string& bytes) {
  bytes.append(trace.trace_id.value().begin(), trace.trace_id.value().end());
  bytes.append(trace.span_id.value().begin(), trace.span_id.value().end());
  bytes.push_back(trace.sampled ? 1 : 0);
}

core::SpanContext ReadTrace(absl::string_view bytes, DecodeErrors& errors) {
  std::array<uint8_t, 16> trace_id;
  std::array<uint8_t, 8> span_id;
  const bool has_flags = bytes.size() == trace_id.size() + span_id.size() + 1;
  if (!has_flags || static_cast<uint8_t>(bytes.back()) > 1) {
    errors.Add("trace");
    return {};
  }
  std::copy_n(bytes.begin(), trace_id.size(), trace_id.begin());
  std::copy_n(bytes.begin() + trace_id.size(), span_id.size(), span_id.begin());
  return {.trace_id = core::TraceId(trace_id),
          .span_id = core::SpanId(span_id),
          .sampled = bytes.back() != 0};
}

// Writes a change into the message of its record.
struct ChangeWriter {
  disk::TaskRecord& message;

  void operator()(const core::TaskAdmitted& admitted) const {
    disk::Admitted& proto = *message.mutable_admitted();
    proto.set_spec(*admitted.spec->bytes);
    proto.set_fingerprint_high(admitted.fingerprint.high);
    proto.set_fingerprint_low(admitted.fingerprint.low);
    proto.set_fingerprint_max_attempts(admitted.fingerprint.max_attempts);
    proto.set_policy(OptionalToProto(kQueuePolicies, admitted.policy));
    SetText(proto, &disk::Admitted::mutable_identity, admitted.identity);
    proto.set_submitted_at_ns(absl::ToUnixNanos(admitted.submitted_at));
    proto.set_sequence(admitted.sequence);
    if (admitted.redrive_of.has_value()) {
      AppendQueueId(*admitted.redrive_of, *proto.mutable_redrive_of());
    }
    Write(admitted.trace, *proto.mutable_trace());
  }
  void operator()(const core::TaskDispatched& dispatched) const {
    Write(dispatched, *message.mutable_dispatched());
  }
  void operator()(const core::StartAccepted&) const { message.mutable_accepted(); }
  void operator()(const core::StartAnsweredBusy& bounced) const {
    disk::Bounced& proto = *message.mutable_bounced();
    Write(bounced.dispatched, *proto.mutable_dispatched());
    proto.set_dispatched_at_ns(absl::ToUnixNanos(bounced.dispatched_at));
    proto.set_sequence(bounced.sequence);
    proto.set_busy_rejections(bounced.busy_rejections);
  }
  void operator()(const core::TaskReturned& returned) const {
    disk::Returned& proto = *message.mutable_returned();
    proto.set_sequence(returned.sequence);
    proto.set_counts(returned.counts_as_attempt);
    proto.set_failure(wire::ToProto(kDispatchFailures, returned.failure));
    proto.set_reported(returned.reported);
    proto.set_backoff_ns(absl::ToInt64Nanoseconds(returned.backoff));
    SetText(proto, &disk::Returned::mutable_error, returned.error);
  }
  void operator()(const core::CancelRequested&) const { message.mutable_cancel_requested(); }
  void operator()(const core::TaskEnded& ended) const {
    disk::Ended& proto = *message.mutable_ended();
    proto.set_state(wire::ToProto(kTaskStates, ended.state));
    proto.set_reason(OptionalToProto(kFailureReasons, ended.reason));
    proto.set_counts(ended.counts_as_attempt);
    proto.set_failure(wire::ToProto(kDispatchFailures, ended.failure));
    if (ended.run.has_value()) wire::WriteResult(*ended.run, *proto.mutable_run());
    SetText(proto, &disk::Ended::mutable_error, ended.error);
  }
  void operator()(const core::EventOnly&) const { message.mutable_noted(); }
};

core::TaskAdmitted Read(const disk::Admitted& proto, DecodeErrors& errors) {
  absl::StatusOr<core::TaskSpec> spec = wire::ReadSpec(proto.spec());
  if (proto.spec().empty() || !spec.ok()) errors.Add("spec");
  core::TaskAdmitted admitted = {
      .spec = std::make_shared<const core::TaskSpec>(std::move(spec).value_or(core::TaskSpec())),
      .fingerprint = {proto.fingerprint_high(), proto.fingerprint_low(),
                      proto.fingerprint_max_attempts()},
      .policy = ReadOptionalEnum("policy", kQueuePolicies, proto.policy(), errors),
      .identity = base::ValidUtf8(proto.identity()),
      .submitted_at = absl::FromUnixNanos(proto.submitted_at_ns()),
      .sequence = proto.sequence()};
  if (!proto.redrive_of().empty()) {
    admitted.redrive_of = ReadQueueId("redrive_of", proto.redrive_of(), errors);
  }
  admitted.trace = ReadTrace(proto.trace(), errors);
  return admitted;
}

core::TaskDispatched Read(const disk::Dispatched& proto) {
  return {.dispatch = core::DispatchNumber(proto.dispatch()),
          .director_epoch = proto.director_epoch(),
          .instance_id = base::ValidUtf8(proto.instance_id()),
          .agent_url = base::ValidUtf8(proto.agent_url())};
}

core::StartAnsweredBusy Read(const disk::Bounced& proto, DecodeErrors& errors) {
  if (!proto.has_dispatched()) errors.Add("dispatched");
  return {.dispatched = Read(proto.dispatched()),
          .dispatched_at = absl::FromUnixNanos(proto.dispatched_at_ns()),
          .sequence = proto.sequence(),
          .busy_rejections = proto.busy_rejections()};
}

core::TaskReturned Read(const disk::Returned& proto, DecodeErrors& errors) {
  return {.sequence = proto.sequence(),
          .counts_as_attempt = proto.counts(),
          .failure = ReadEnum("failure", kDispatchFailures, proto.failure(), errors),
          .reported = proto.reported(),
          .backoff = absl::Nanoseconds(proto.backoff_ns()),
          .error = base::ValidUtf8(proto.error())};
}

core::TaskEnded Read(const disk::Ended& proto, DecodeErrors& errors) {
  core::TaskEnded ended = {
      .state = ReadEnum("state", kTaskStates, proto.state(), errors),
      .reason = ReadOptionalEnum("reason", kFailureReasons, proto.reason(), errors),
      .counts_as_attempt = proto.counts(),
      .failure = ReadEnum("failure", kDispatchFailures, proto.failure(), errors),
      .error = base::ValidUtf8(proto.error())};
  if (proto.has_run()) {
    absl::StatusOr<core::RunResult> run = wire::ReadResult(proto.run());
    if (run.ok()) {
      ended.run = *std::move(run);
    } else {
      errors.Add("run.state");
    }
  }
  return ended;
}

void ReadChange(const disk::TaskRecord& message, core::TaskChange& change, DecodeErrors& errors) {
  using Message = disk::TaskRecord;
  switch (message.change_case()) {
    case Message::kAdmitted:
      change = Read(message.admitted(), errors);
      return;
    case Message::kDispatched:
      change = Read(message.dispatched());
      return;
    case Message::kAccepted:
      change = core::StartAccepted();
      return;
    case Message::kBounced:
      change = Read(message.bounced(), errors);
      return;
    case Message::kReturned:
      change = Read(message.returned(), errors);
      return;
    case Message::kCancelRequested:
      change = core::CancelRequested();
      return;
    case Message::kEnded:
      change = Read(message.ended(), errors);
      return;
    case Message::kNoted:
      change = core::EventOnly();
      return;
    case Message::CHANGE_NOT_SET:
      errors.Add("change");
  }
}

}  // namespace

absl::Status DecodeErrors::ToStatus() const {
  if (field_.empty()) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(field_, " is missing, or has a value that this version does not know"));
}

void Write(const core::TaskRecord& record, disk::TaskRecord& message) {
  const core::TaskEvent& event = record.event;
  message.set_kind(wire::ToProto(kTaskEventKinds, event.kind));
  message.set_at_ns(absl::ToUnixNanos(event.at));
  SetText(message, &disk::TaskRecord::mutable_who, event.who);
  SetText(message, &disk::TaskRecord::mutable_why, event.why);
  message.set_fault(OptionalToProto(kFaults, event.fault));
  message.set_place_before(event.place_before);
  message.set_place_after(event.place_after);
  message.set_dispatch(event.dispatch.value());
  SetText(message, &disk::TaskRecord::mutable_agent, event.agent);
  message.set_replaces(record.replaces);
  message.set_event_number(event.number);
  std::visit(ChangeWriter{message}, record.change);
}

void Read(const disk::TaskRecord& message, core::TaskRecord& record, DecodeErrors& errors) {
  core::TaskEvent& event = record.event;
  event.kind = ReadEnum("kind", kTaskEventKinds, message.kind(), errors);
  event.at = absl::FromUnixNanos(message.at_ns());
  event.who = base::ValidUtf8(message.who());
  event.why = base::ValidUtf8(message.why());
  event.fault = ReadOptionalEnum("fault", kFaults, message.fault(), errors);
  event.place_before = message.place_before();
  event.place_after = message.place_after();
  event.dispatch = core::DispatchNumber(message.dispatch());
  event.agent = base::ValidUtf8(message.agent());
  record.replaces = message.replaces();
  event.number = message.event_number();
  ReadChange(message, record.change, errors);
}

// ---- Keys ---------------------------------------------------------------------------------------

namespace {

constexpr absl::string_view kEpochKey = "queue/epoch";
constexpr absl::string_view kSwitchedKey = "queue/switched";
constexpr absl::string_view kLeasesKey = "queue/leases";
constexpr absl::string_view kForgottenKey = "queue/forgotten";
constexpr absl::string_view kAgentPrefix = "queue/agent/";
constexpr absl::string_view kRequestPrefix = "queue/request/";
constexpr size_t kTaskKeyBytes = kTaskPrefix.size() + kQueueIdBytes + kNumberBytes;

void SetTaskKey(core::QueueId id, uint64_t number, std::string& key) {
  key.assign(kTaskPrefix.data(), kTaskPrefix.size());
  AppendQueueId(id, key);
  AppendBigEndian(number, key);
}

// Put() and Delete() of a batch fail only when the batch has a size limit.
void Put(absl::string_view key, absl::string_view value, rocksdb::WriteBatch& batch) {
  CHECK(batch.Put(ToSlice(key), ToSlice(value)).ok());
}
void Delete(absl::string_view key, rocksdb::WriteBatch& batch) {
  CHECK(batch.Delete(ToSlice(key)).ok());
}

}  // namespace

std::string TaskKey(core::QueueId id, uint64_t number) {
  std::string key;
  SetTaskKey(id, number, key);
  return key;
}

std::string KeyText(absl::string_view key) {
  if (key.size() != kTaskKeyBytes || !absl::StartsWith(key, kTaskPrefix)) {
    return absl::CHexEscape(key);
  }
  DecodeErrors errors;
  const core::QueueId id = ReadQueueId("", key.substr(kTaskPrefix.size(), kQueueIdBytes), errors);
  return absl::StrCat(kTaskPrefix, core::ToString(id), "/",
                      ReadBigEndian(key.substr(kTaskKeyBytes - kNumberBytes)));
}

MessageArena::MessageArena()
    : arena_([this] {
        google::protobuf::ArenaOptions options;
        options.initial_block = block_.data();
        options.initial_block_size = block_.size();
        return options;
      }()) {}

// ---- Writing ------------------------------------------------------------------------------------

struct RecordEncoder::BatchAppender {
  RecordEncoder& encoder;
  rocksdb::WriteBatch& batch;

  void operator()(const core::TaskRecord& record) const {
    const uint64_t number = record.number;
    for (uint64_t i = 1; i < record.replaces; ++i) DeleteTaskRecord(record.queue_id, number + i);
    auto& message = encoder.arena_.New<storage::v1::TaskRecord>();
    Write(record, message);
    SetTaskKey(record.queue_id, number, encoder.key_);
    PutMessage(encoder.key_, message);
  }
  void operator()(const core::TaskForgotten& forgotten) const {
    for (uint64_t i = 1; i <= forgotten.records; ++i) DeleteTaskRecord(forgotten.queue_id, i);
  }
  void operator()(const core::EpochBegan& began) const {
    storage::v1::EpochBegan message;
    message.set_epoch(began.epoch);
    PutMessage(kEpochKey, message);
  }
  void operator()(const core::QueueSwitched& switched) const {
    storage::v1::QueueSwitched message;
    message.set_paused(switched.paused);
    message.set_draining(switched.draining);
    if (switched.pause.has_value()) WriteCause(*switched.pause, *message.mutable_pause());
    if (switched.drain.has_value()) WriteCause(*switched.drain, *message.mutable_drain());
    PutMessage(kSwitchedKey, message);
  }
  void operator()(const core::LeasesExtended& extended) const {
    storage::v1::LeasesExtended message;
    message.set_epoch(extended.epoch);
    message.set_extension_ns(absl::ToInt64Nanoseconds(extended.extension));
    PutMessage(kLeasesKey, message);
  }
  void operator()(const core::AgentMarked& marked) const {
    const std::string key = absl::StrCat(kAgentPrefix, marked.name);
    if (!marked.draining && marked.cordoned_instance.empty()) return Delete(key, batch);
    storage::v1::AgentMarked message;
    message.set_draining(marked.draining);
    message.set_cordoned_instance(marked.cordoned_instance);
    message.set_why(marked.why);
    PutMessage(key, message);
  }
  void operator()(const core::RequestRemembered& request) const {
    storage::v1::RequestRemembered message;
    message.set_fingerprint_high(request.fingerprint.high);
    message.set_fingerprint_low(request.fingerprint.low);
    message.set_fingerprint_max_attempts(request.fingerprint.max_attempts);
    AppendQueueId(request.queue_id, *message.mutable_queue_id());
    message.set_state(wire::ToProto(kTaskStates, request.state));
    message.set_forget_at_ns(absl::ToUnixNanos(request.forget_at));
    PutMessage(RequestKey(request), message);
  }
  void operator()(const core::RequestForgotten& request) const {
    Delete(RequestKey(request), batch);
  }

  void operator()(const core::DispatchesForgotten& forgotten) const {
    storage::v1::DispatchesForgotten message;
    message.set_count(forgotten.count);
    PutMessage(kForgottenKey, message);
  }

  static void WriteCause(const core::SwitchCause& cause, storage::v1::SwitchCause& message) {
    message.set_who(cause.who);
    message.set_why(cause.why);
    message.set_at_ns(absl::ToUnixNanos(cause.at));
  }
  template <class Request>
  static std::string RequestKey(const Request& request) {
    CHECK(!absl::StrContains(request.identity, '\0')) << absl::CHexEscape(request.identity);
    return absl::StrCat(kRequestPrefix, request.identity, absl::string_view("\0", 1),
                        request.request_id);
  }
  void DeleteTaskRecord(core::QueueId id, uint64_t number) const {
    SetTaskKey(id, number, encoder.key_);
    Delete(encoder.key_, batch);
  }
  void PutMessage(absl::string_view key, const google::protobuf::MessageLite& message) const {
    encoder.value_.clear();
    CHECK(message.AppendToString(&encoder.value_));
    Put(key, encoder.value_, batch);
  }
};

void RecordEncoder::Append(const core::Record& record, rocksdb::WriteBatch& batch) {
  std::visit(BatchAppender{*this, batch}, record);
}

// ---- Reading ------------------------------------------------------------------------------------

// Decodes one key and its value into `record`.
struct RecordDecoder::Parser {
  MessageArena& arena;
  absl::string_view value;
  core::Record& record;
  DecodeErrors errors = {};

  absl::Status ParseRecord(absl::string_view key) {
    if (absl::ConsumePrefix(&key, kTaskPrefix)) return ReadTask(key);
    if (absl::ConsumePrefix(&key, kRequestPrefix)) return ReadRequest(key);
    if (absl::ConsumePrefix(&key, kAgentPrefix)) {
      ASSIGN_OR_RETURN(const auto* message, Parse<storage::v1::AgentMarked>());
      record = core::AgentMarked{std::string(key), message->draining(),
                                 base::ValidUtf8(message->cordoned_instance()),
                                 base::ValidUtf8(message->why())};
    } else if (key == kEpochKey) {
      ASSIGN_OR_RETURN(const auto* message, Parse<storage::v1::EpochBegan>());
      record = core::EpochBegan{message->epoch()};
    } else if (key == kSwitchedKey) {
      ASSIGN_OR_RETURN(const auto* message, Parse<storage::v1::QueueSwitched>());
      core::QueueSwitched& switched = record.emplace<core::QueueSwitched>();
      switched = {.paused = message->paused(), .draining = message->draining()};
      if (message->has_pause()) switched.pause = ReadCause(message->pause());
      if (message->has_drain()) switched.drain = ReadCause(message->drain());
    } else if (key == kForgottenKey) {
      ASSIGN_OR_RETURN(const auto* message, Parse<storage::v1::DispatchesForgotten>());
      record = core::DispatchesForgotten{message->count()};
    } else if (key == kLeasesKey) {
      ASSIGN_OR_RETURN(const auto* message, Parse<storage::v1::LeasesExtended>());
      record = core::LeasesExtended{message->epoch(), absl::Nanoseconds(message->extension_ns())};
    } else {
      return absl::DataLossError("this version does not know the key");
    }
    return absl::OkStatus();
  }

  static core::SwitchCause ReadCause(const storage::v1::SwitchCause& message) {
    return {base::ValidUtf8(message.who()), base::ValidUtf8(message.why()),
            absl::FromUnixNanos(message.at_ns())};
  }
  absl::Status ReadTask(absl::string_view id_and_number) {
    if (id_and_number.size() != kQueueIdBytes + kNumberBytes) {
      return absl::DataLossError("the key has the wrong length");
    }
    ASSIGN_OR_RETURN(const auto* message, Parse<storage::v1::TaskRecord>());
    core::TaskRecord& task = record.emplace<core::TaskRecord>();
    task.queue_id = ReadQueueId("", id_and_number.substr(0, kQueueIdBytes), errors);
    task.number = ReadBigEndian(id_and_number.substr(kQueueIdBytes));
    Read(*message, task, errors);
    return errors.ToStatus();
  }
  absl::Status ReadRequest(absl::string_view identity_and_id) {
    const size_t end = identity_and_id.find('\0');
    if (end == absl::string_view::npos) {
      return absl::DataLossError("the key has no NUL after the identity");
    }
    ASSIGN_OR_RETURN(const auto* message, Parse<storage::v1::RequestRemembered>());
    record = core::RequestRemembered{
        .identity = std::string(identity_and_id.substr(0, end)),
        .request_id = std::string(identity_and_id.substr(end + 1)),
        .fingerprint = {message->fingerprint_high(), message->fingerprint_low(),
                        message->fingerprint_max_attempts()},
        .queue_id = ReadQueueId("queue_id", message->queue_id(), errors),
        .state = ReadEnum("state", kTaskStates, message->state(), errors),
        .forget_at = absl::FromUnixNanos(message->forget_at_ns())};
    return errors.ToStatus();
  }

  template <class Message>
  absl::StatusOr<const Message*> Parse() {
    Message& message = arena.New<Message>();
    if (!message.ParseFromArray(value.data(), static_cast<int>(value.size()))) {
      return absl::DataLossError(absl::StrCat("the value is not a ", message.GetTypeName()));
    }
    return &message;
  }
};

absl::Status RecordDecoder::Decode(absl::string_view key, absl::string_view value,
                                   core::Record& record) {
  const absl::Status status = Parser{arena_, value, record}.ParseRecord(key);
  if (status.ok()) return status;
  return StoreRefusedError(absl::StrCat("record ", KeyText(key), ": ", status.message()));
}

}  // namespace callboard::store
