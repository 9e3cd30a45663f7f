// The enums of libs/core and of callboard.storage.v1, side by side.
#ifndef CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_STORAGE_ENUMS_H_
#define CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_STORAGE_ENUMS_H_

#include "callboard/storage/v1/record.pb.h"
#include "libs/core/queue.h"
#include "libs/core/record.h"
#include "libs/core/task.h"
#include "libs/wire/enum_pair.h"

namespace callboard::adapters {

using wire::EnumPair;

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
    {core::TaskEventKind::kCanceled, storage::v1::TASK_EVENT_KIND_CANCELED},
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

inline constexpr EnumPair<core::TaskState, storage::v1::TaskState> kTaskStates[] = {
    {core::TaskState::kPending, storage::v1::TASK_STATE_PENDING},
    {core::TaskState::kDispatching, storage::v1::TASK_STATE_DISPATCHING},
    {core::TaskState::kWorking, storage::v1::TASK_STATE_WORKING},
    {core::TaskState::kCompleted, storage::v1::TASK_STATE_COMPLETED},
    {core::TaskState::kFailed, storage::v1::TASK_STATE_FAILED},
    {core::TaskState::kCancelled, storage::v1::TASK_STATE_CANCELLED},
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

inline constexpr EnumPair<core::Blame, storage::v1::Blame> kBlames[] = {
    {core::Blame::kNobody, storage::v1::BLAME_NOBODY},
    {core::Blame::kAgentFailedIt, storage::v1::BLAME_AGENT_FAILED_IT},
    {core::Blame::kTookAgentDown, storage::v1::BLAME_TOOK_AGENT_DOWN},
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

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_ROCKSDB_STORE_STORAGE_ENUMS_H_
