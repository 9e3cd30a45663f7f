// Enums of libs/core and of protos: tables that map one to the other, and the text form of values.

#ifndef CALLBOARD_LIBS_WIRE_ENUMS_H_
#define CALLBOARD_LIBS_WIRE_ENUMS_H_

#include <google/protobuf/descriptor.h>

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "callboard/v1/agent.pb.h"
#include "callboard/v1/task.pb.h"
#include "libs/base/check.h"
#include "libs/core/queue.h"
#include "libs/core/record.h"
#include "libs/core/task.h"

namespace callboard::wire {

template <class Core, class Proto>
using EnumPair = std::pair<Core, Proto>;

// Returns the proto value of `value`. CHECK-fails if the table does not contain `value`.
template <class Core, class Proto, size_t N>
Proto ToProto(const EnumPair<Core, Proto> (&table)[N], Core value) {
  for (const auto& [core, proto] : table) {
    if (core == value) return proto;
  }
  CHECK(false) << "the table does not contain the value";
  return {};
}

// Returns null for the unspecified value and for a value that this version does not know.
template <class Core, class Proto, size_t N>
std::optional<Core> FromProto(const EnumPair<Core, Proto> (&table)[N], Proto value) {
  for (const auto& [core, proto] : table) {
    if (proto == value) return core;
  }
  return std::nullopt;
}

// ---- Tables for callboard.v1 ----

inline constexpr EnumPair<core::LifecycleState, v1::Task::State> kTaskStates[] = {
    {core::LifecycleState::kPending, v1::Task::STATE_PENDING},
    {core::LifecycleState::kDispatching, v1::Task::STATE_DISPATCHING},
    {core::LifecycleState::kWorking, v1::Task::STATE_WORKING},
    {core::LifecycleState::kCompleted, v1::Task::STATE_COMPLETED},
    {core::LifecycleState::kFailed, v1::Task::STATE_FAILED},
    {core::LifecycleState::kCancelled, v1::Task::STATE_CANCELLED},
};

inline constexpr EnumPair<core::FailureReason, v1::Task::Reason> kFailureReasons[] = {
    {core::FailureReason::kAgentRejected, v1::Task::REASON_AGENT_REJECTED},
    {core::FailureReason::kMaxAttempts, v1::Task::REASON_MAX_ATTEMPTS},
    {core::FailureReason::kExecFailed, v1::Task::REASON_EXEC_FAILED},
    {core::FailureReason::kTimedOut, v1::Task::REASON_TIMED_OUT},
    {core::FailureReason::kAgentLost, v1::Task::REASON_AGENT_LOST},
    {core::FailureReason::kExpired, v1::Task::REASON_EXPIRED},
    {core::FailureReason::kEvicted, v1::Task::REASON_EVICTED},
    {core::FailureReason::kCoalesced, v1::Task::REASON_COALESCED},
    {core::FailureReason::kPoison, v1::Task::REASON_POISON},
};

inline constexpr EnumPair<core::TaskEventKind, v1::TaskEvent::Kind> kTaskEventKinds[] = {
    {core::TaskEventKind::kSubmitted, v1::TaskEvent::KIND_SUBMITTED},
    {core::TaskEventKind::kAdmitted, v1::TaskEvent::KIND_ADMITTED},
    {core::TaskEventKind::kDenied, v1::TaskEvent::KIND_DENIED},
    {core::TaskEventKind::kDispatching, v1::TaskEvent::KIND_DISPATCHING},
    {core::TaskEventKind::kBusy, v1::TaskEvent::KIND_BUSY},
    {core::TaskEventKind::kRetry, v1::TaskEvent::KIND_RETRY},
    {core::TaskEventKind::kRunning, v1::TaskEvent::KIND_RUNNING},
    {core::TaskEventKind::kCancelRequested, v1::TaskEvent::KIND_CANCEL_REQUESTED},
    {core::TaskEventKind::kDone, v1::TaskEvent::KIND_DONE},
    {core::TaskEventKind::kFailed, v1::TaskEvent::KIND_FAILED},
    {core::TaskEventKind::kCancelled, v1::TaskEvent::KIND_CANCELED},
    {core::TaskEventKind::kTimeout, v1::TaskEvent::KIND_TIMEOUT},
    {core::TaskEventKind::kEvicted, v1::TaskEvent::KIND_EVICTED},
    {core::TaskEventKind::kExpired, v1::TaskEvent::KIND_EXPIRED},
    {core::TaskEventKind::kOrphanResult, v1::TaskEvent::KIND_ORPHAN_RESULT},
    {core::TaskEventKind::kRedriven, v1::TaskEvent::KIND_REDRIVEN},
};

inline constexpr EnumPair<core::Fault, v1::TaskEvent::Fault> kFaults[] = {
    {core::Fault::kTask, v1::TaskEvent::FAULT_TASK},
    {core::Fault::kAgent, v1::TaskEvent::FAULT_AGENT},
    {core::Fault::kDirector, v1::TaskEvent::FAULT_DIRECTOR},
    {core::Fault::kCaller, v1::TaskEvent::FAULT_CALLER},
};

inline constexpr EnumPair<core::OnAgentLost, v1::OnAgentLost> kOnAgentLosts[] = {
    {core::OnAgentLost::kFail, v1::ON_AGENT_LOST_FAIL},
    {core::OnAgentLost::kRequeue, v1::ON_AGENT_LOST_REQUEUE},
};

inline constexpr EnumPair<core::OverlapPolicy, v1::Overlap::Policy> kOverlapPolicies[] = {
    {core::OverlapPolicy::kSkip, v1::Overlap::POLICY_SKIP},
    {core::OverlapPolicy::kQueueOne, v1::Overlap::POLICY_QUEUE_ONE},
    {core::OverlapPolicy::kAllow, v1::Overlap::POLICY_ALLOW},
};

inline constexpr EnumPair<core::RunResult::End, v1::AgentRun::State> kRunEnds[] = {
    {core::RunResult::End::kCompleted, v1::AgentRun::STATE_COMPLETED},
    {core::RunResult::End::kFailed, v1::AgentRun::STATE_FAILED},
    {core::RunResult::End::kTimedOut, v1::AgentRun::STATE_TIMED_OUT},
    {core::RunResult::End::kCancelled, v1::AgentRun::STATE_CANCELLED},
    {core::RunResult::End::kNotStarted, v1::AgentRun::STATE_NOT_STARTED},
};

inline constexpr EnumPair<core::QueuePolicy, v1::QueuePolicy> kQueuePolicies[] = {
    {core::QueuePolicy::kReject, v1::QUEUE_POLICY_REJECT},
    {core::QueuePolicy::kBlock, v1::QUEUE_POLICY_BLOCK},
    {core::QueuePolicy::kDropOldest, v1::QUEUE_POLICY_DROP_OLDEST},
    {core::QueuePolicy::kDropLatest, v1::QUEUE_POLICY_DROP_LATEST},
};

// ---- Text form, outside of gRPC ----

// Returns the text form: the name without the common prefix of the enum, in lower case with
// hyphens. For example, QUEUE_POLICY_DROP_OLDEST is `drop-oldest`. The option text_case of the enum
// can select another form: REASON_AGENT_LOST is `AGENT_LOST`, and OUTCOME_SKIPPED_OVERLAP is
// `skipped_overlap`.
std::string EnumText(const google::protobuf::EnumValueDescriptor& value);

// Returns the text form of the value `number`. An unknown value, sent by a newer peer, is written
// as a number.
std::string EnumText(const google::protobuf::EnumDescriptor& type, int number);

// Returns the value whose text form is `text`. Returns null if there is none, and for the
// unspecified value.
const google::protobuf::EnumValueDescriptor* FindEnumValue(
    const google::protobuf::EnumDescriptor& type, absl::string_view text);

// Returns all texts that FindEnumValue() accepts, in order of declaration.
std::vector<std::string> EnumTexts(const google::protobuf::EnumDescriptor& type);

}  // namespace callboard::wire

#endif  // CALLBOARD_LIBS_WIRE_ENUMS_H_
