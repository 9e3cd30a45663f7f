#include "libs/adapters/rocksdb_store/record_codec.h"

#include <google/protobuf/message_lite.h>
#include <rocksdb/slice.h>

#include <variant>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "callboard/storage/v1/record.pb.h"
#include "libs/adapters/rocksdb_store/big_endian.h"
#include "libs/adapters/rocksdb_store/slice.h"
#include "libs/adapters/rocksdb_store/storage_enums.h"
#include "libs/adapters/rocksdb_store/store_error.h"
#include "libs/adapters/rocksdb_store/task_message.h"
#include "libs/base/check.h"
#include "libs/base/status_macros.h"
#include "libs/base/text.h"

namespace callboard::adapters {
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

// RocksDB's calls on a batch fail only when it was given a bound.
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

std::string TaskPrefix(core::QueueId id) {
  std::string prefix(kTaskPrefix);
  AppendQueueId(id, prefix);
  return prefix;
}

std::string KeyText(absl::string_view key) {
  if (key.size() != kTaskKeyBytes || !absl::StartsWith(key, kTaskPrefix)) {
    return absl::CHexEscape(key);
  }
  Doubts doubts;
  const core::QueueId id = ReadQueueId("", key.substr(kTaskPrefix.size(), kQueueIdBytes), doubts);
  return absl::StrCat(kTaskPrefix, core::ToString(id), "/",
                      ReadBigEndian(key.substr(kTaskKeyBytes - kNumberBytes)));
}

MessageMemory::MessageMemory()
    : arena_([this] {
        google::protobuf::ArenaOptions options;
        options.initial_block = block_.data();
        options.initial_block_size = block_.size();
        return options;
      }()) {}

// ---- Writing ------------------------------------------------------------------------------------

struct RecordEncoder::Step {
  RecordEncoder& encoder;
  rocksdb::WriteBatch& batch;

  void operator()(const core::TaskRecord& record) const {
    const uint64_t number = record.number;
    for (uint64_t i = 1; i < record.replaces; ++i) DeleteTaskRecord(record.queue_id, number + i);
    auto& message = encoder.memory_.New<storage::v1::TaskRecord>();
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
    message.set_fingerprint_version(request.fingerprint.version);
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
  std::visit(Step{*this, batch}, record);
}

// ---- Reading ------------------------------------------------------------------------------------

// One key and its value.
struct RecordDecoder::Parsing {
  MessageMemory& memory;
  absl::string_view value;
  core::Record& record;
  Doubts doubts = {};

  absl::Status Run(absl::string_view key) {
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
      return absl::DataLossError("this version knows no such key");
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
    task.queue_id = ReadQueueId("", id_and_number.substr(0, kQueueIdBytes), doubts);
    task.number = ReadBigEndian(id_and_number.substr(kQueueIdBytes));
    Read(*message, task, doubts);
    return doubts.ToStatus();
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
                        message->fingerprint_version()},
        .queue_id = ReadQueueId("queue_id", message->queue_id(), doubts),
        .state = ReadEnum("state", kTaskStates, message->state(), doubts),
        .forget_at = absl::FromUnixNanos(message->forget_at_ns())};
    return doubts.ToStatus();
  }

  template <class Message>
  absl::StatusOr<const Message*> Parse() {
    Message& message = memory.New<Message>();
    if (!message.ParseFromArray(value.data(), static_cast<int>(value.size()))) {
      return absl::DataLossError(absl::StrCat("the value is no ", message.GetTypeName()));
    }
    return &message;
  }
};

absl::Status RecordDecoder::Decode(absl::string_view key, absl::string_view value,
                                   core::Record& record) {
  const absl::Status status = Parsing{memory_, value, record}.Run(key);
  if (status.ok()) return status;
  return StoreRefused(absl::StrCat("record ", KeyText(key), ": ", status.message()));
}

}  // namespace callboard::adapters
