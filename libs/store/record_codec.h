// The stored form of records: one key and one value each. docs/FORMAT.md describes both.

#ifndef CALLBOARD_LIBS_STORE_RECORD_CODEC_H_
#define CALLBOARD_LIBS_STORE_RECORD_CODEC_H_

#include <google/protobuf/arena.h>
#include <rocksdb/write_batch.h>

#include <array>
#include <cstddef>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "callboard/storage/v1/record.pb.h"
#include "libs/core/fingerprint.h"
#include "libs/core/ids.h"
#include "libs/core/queue.h"
#include "libs/core/record.h"
#include "libs/core/task.h"
#include "libs/wire/enums.h"

namespace callboard::store {

using wire::EnumPair;

// ---- Enums of libs/core and those of callboard.storage.v1 ----

inline constexpr EnumPair<core::TaskEventKind, storage::v1::TaskEventKind> kTaskEventKinds[] = {
    {core::TaskEventKind::kSubmitted, storage::v1::TASK_EVENT_KIND_SUBMITTED},
    {core::TaskEventKind::kAdmitted, storage::v1::TASK_EVENT_KIND_ADMITTED},
    {core::TaskEventKind::kDenied, storage::v1::TASK_EVENT_KIND_DENIED},
    {core::TaskEventKind::kDispatching, storage::v1::TASK_EVENT_KIND_DISPATCHING},
    {core::TaskEventKind::kBusy, storage::v1::TASK_EVENT_KIND_BUSY},
    {core::TaskEventKind::kRetry, storage::v1::TASK_EVENT_KIND_RETRY},
    {core::TaskEventKind::kRunning, storage::v1::TASK_EVENT_KIND_RUNNING},
    {core::TaskEventKind::kCancelRequested, storage::v1::TASK_EVENT_KIND_CANCEL_REQUESTED},
    {core::TaskEventKind::kDone, storage::v1::TASK_EVENT_KIND_DONE},
    {core::TaskEventKind::kFailed, storage::v1::TASK_EVENT_KIND_FAILED},
    {core::TaskEventKind::kCancelled, storage::v1::TASK_EVENT_KIND_CANCELED},
    {core::TaskEventKind::kTimeout, storage::v1::TASK_EVENT_KIND_TIMEOUT},
    {core::TaskEventKind::kEvicted, storage::v1::TASK_EVENT_KIND_EVICTED},
    {core::TaskEventKind::kExpired, storage::v1::TASK_EVENT_KIND_EXPIRED},
    {core::TaskEventKind::kOrphanResult, storage::v1::TASK_EVENT_KIND_ORPHAN_RESULT},
    {core::TaskEventKind::kRedriven, storage::v1::TASK_EVENT_KIND_REDRIVEN},
};

inline constexpr EnumPair<core::Fault, storage::v1::Fault> kFaults[] = {
    {core::Fault::kTask, storage::v1::FAULT_TASK},
    {core::Fault::kAgent, storage::v1::FAULT_AGENT},
    {core::Fault::kDirector, storage::v1::FAULT_DIRECTOR},
    {core::Fault::kCaller, storage::v1::FAULT_CALLER},
};

inline constexpr EnumPair<core::LifecycleState, storage::v1::TaskState> kTaskStates[] = {
    {core::LifecycleState::kPending, storage::v1::TASK_STATE_PENDING},
    {core::LifecycleState::kDispatching, storage::v1::TASK_STATE_DISPATCHING},
    {core::LifecycleState::kWorking, storage::v1::TASK_STATE_WORKING},
    {core::LifecycleState::kCompleted, storage::v1::TASK_STATE_COMPLETED},
    {core::LifecycleState::kFailed, storage::v1::TASK_STATE_FAILED},
    {core::LifecycleState::kCancelled, storage::v1::TASK_STATE_CANCELLED},
};

inline constexpr EnumPair<core::FailureReason, storage::v1::FailureReason> kFailureReasons[] = {
    {core::FailureReason::kAgentRejected, storage::v1::FAILURE_REASON_AGENT_REJECTED},
    {core::FailureReason::kMaxAttempts, storage::v1::FAILURE_REASON_MAX_ATTEMPTS},
    {core::FailureReason::kExecFailed, storage::v1::FAILURE_REASON_EXEC_FAILED},
    {core::FailureReason::kTimedOut, storage::v1::FAILURE_REASON_TIMED_OUT},
    {core::FailureReason::kAgentLost, storage::v1::FAILURE_REASON_AGENT_LOST},
    {core::FailureReason::kExpired, storage::v1::FAILURE_REASON_EXPIRED},
    {core::FailureReason::kEvicted, storage::v1::FAILURE_REASON_EVICTED},
    {core::FailureReason::kCoalesced, storage::v1::FAILURE_REASON_COALESCED},
    {core::FailureReason::kPoison, storage::v1::FAILURE_REASON_POISON},
};

inline constexpr EnumPair<core::DispatchFailure, storage::v1::DispatchFailure> kDispatchFailures[] =
    {
        {core::DispatchFailure::kNone, storage::v1::DISPATCH_FAILURE_NONE},
        {core::DispatchFailure::kAgentFailed, storage::v1::DISPATCH_FAILURE_AGENT_FAILED},
        {core::DispatchFailure::kAgentLost, storage::v1::DISPATCH_FAILURE_AGENT_LOST},
};

inline constexpr EnumPair<core::RunResult::End, storage::v1::RunResult::End> kRunEnds[] = {
    {core::RunResult::End::kCompleted, storage::v1::RunResult::END_COMPLETED},
    {core::RunResult::End::kFailed, storage::v1::RunResult::END_FAILED},
    {core::RunResult::End::kTimedOut, storage::v1::RunResult::END_TIMED_OUT},
    {core::RunResult::End::kCancelled, storage::v1::RunResult::END_CANCELLED},
    {core::RunResult::End::kNotStarted, storage::v1::RunResult::END_NOT_STARTED},
};

inline constexpr EnumPair<core::TaskSource, storage::v1::TaskSource> kTaskSources[] = {
    {core::TaskSource::kApi, storage::v1::TASK_SOURCE_API},
    {core::TaskSource::kWeb, storage::v1::TASK_SOURCE_WEB},
    {core::TaskSource::kScheduler, storage::v1::TASK_SOURCE_SCHEDULER},
    {core::TaskSource::kCli, storage::v1::TASK_SOURCE_CLI},
};

inline constexpr EnumPair<core::Priority, storage::v1::Priority> kPriorities[] = {
    {core::Priority::kLow, storage::v1::PRIORITY_LOW},
    {core::Priority::kNormal, storage::v1::PRIORITY_NORMAL},
    {core::Priority::kHigh, storage::v1::PRIORITY_HIGH},
};

inline constexpr EnumPair<core::Constraint, storage::v1::Constraint> kConstraints[] = {
    {core::Constraint::kCpuHeavy, storage::v1::CONSTRAINT_CPU_HEAVY},
    {core::Constraint::kDiskWriteHeavy, storage::v1::CONSTRAINT_DISK_WRITE_HEAVY},
    {core::Constraint::kNetworkHeavy, storage::v1::CONSTRAINT_NETWORK_HEAVY},
};

inline constexpr EnumPair<core::RunWhen, storage::v1::RunWhen> kRunWhens[] = {
    {core::RunWhen::kAnytime, storage::v1::RUN_WHEN_ANYTIME},
    {core::RunWhen::kQuiet, storage::v1::RUN_WHEN_QUIET},
};

inline constexpr EnumPair<core::OnAgentLost, storage::v1::OnAgentLost> kOnAgentLosts[] = {
    {core::OnAgentLost::kFail, storage::v1::ON_AGENT_LOST_FAIL},
    {core::OnAgentLost::kRequeue, storage::v1::ON_AGENT_LOST_REQUEUE},
};

inline constexpr EnumPair<core::OverlapPolicy, storage::v1::OverlapPolicy> kOverlapPolicies[] = {
    {core::OverlapPolicy::kSkip, storage::v1::OVERLAP_POLICY_SKIP},
    {core::OverlapPolicy::kQueueOne, storage::v1::OVERLAP_POLICY_QUEUE_ONE},
    {core::OverlapPolicy::kAllow, storage::v1::OVERLAP_POLICY_ALLOW},
};

inline constexpr EnumPair<core::QueuePolicy, storage::v1::QueuePolicy> kQueuePolicies[] = {
    {core::QueuePolicy::kReject, storage::v1::QUEUE_POLICY_REJECT},
    {core::QueuePolicy::kBlock, storage::v1::QUEUE_POLICY_BLOCK},
    {core::QueuePolicy::kDropOldest, storage::v1::QUEUE_POLICY_DROP_OLDEST},
    {core::QueuePolicy::kDropLatest, storage::v1::QUEUE_POLICY_DROP_LATEST},
};

// ---- Task records and their messages ----

// The fields of a message that this version does not understand.
class DecodeErrors {
 public:
  // Adds a field. Only the first one is kept.
  void Add(absl::string_view field) {
    if (field_.empty()) field_ = field;
  }
  // Returns DATA_LOSS with the name of the field when there is one.
  absl::Status ToStatus() const;

 private:
  absl::string_view field_;
};

// Decodes an enum that is always written: an unspecified value is an error.
template <class Core, class Proto, size_t N>
Core ReadEnum(absl::string_view field, const EnumPair<Core, Proto> (&table)[N], Proto value,
              DecodeErrors& errors) {
  const std::optional<Core> core = wire::FromProto(table, value);
  if (!core.has_value()) errors.Add(field);
  return core.value_or(Core{});
}

// Fills an empty message. The queue id and the number are not written: they are in the key.
void Write(const core::TaskRecord& record, storage::v1::TaskRecord& message);
// Fills an empty record, except for the queue id and the number.
void Read(const storage::v1::TaskRecord& message, core::TaskRecord& record, DecodeErrors& errors);

// ---- Keys and values ----

// Key of the store's format number, which is stored in decimal.
inline constexpr absl::string_view kFormatKey = "format";

// Prefix of the keys of all task records.
inline constexpr absl::string_view kTaskPrefix = "task/";

std::string TaskKey(core::QueueId id, uint64_t number);

// Returns a readable form of a key.
std::string KeyText(absl::string_view key);

// Memory for one message at a time.
class MessageArena {
 public:
  MessageArena();

  // Returns an empty message, which lives until the next call.
  template <class Message>
  Message& New() {
    arena_.Reset();
    return *google::protobuf::Arena::CreateMessage<Message>(&arena_);
  }

 private:
  // Large enough for a typical task, so that a typical record needs few allocations.
  alignas(std::max_align_t) std::array<char, 4096> block_;
  google::protobuf::Arena arena_;
};

// Turns records into writes of RocksDB. Not thread-safe.
class RecordEncoder {
 public:
  // Appends the puts and deletes of the record to `batch`. REQUIRES: identities contain no NUL.
  void Append(const core::Record& record, rocksdb::WriteBatch& batch);

 private:
  struct BatchAppender;

  MessageArena arena_;
  std::string key_;
  std::string value_;
};

// Turns keys and values of RocksDB into records. Not thread-safe.
class RecordDecoder {
 public:
  // Decodes a key and its value into `record`. Returns StoreRefusedError(), which names the key,
  // when this version does not understand them. REQUIRES: key != kFormatKey.
  absl::Status Decode(absl::string_view key, absl::string_view value, core::Record& record);

 private:
  struct Parser;

  MessageArena arena_;
};

}  // namespace callboard::store

#endif  // CALLBOARD_LIBS_STORE_RECORD_CODEC_H_
