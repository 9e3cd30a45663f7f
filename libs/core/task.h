// A task as values: what was asked for, where it stands, what happened to it.
#ifndef CALLBOARD_LIBS_CORE_TASK_H_
#define CALLBOARD_LIBS_CORE_TASK_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/core/ids.h"
#include "libs/core/queue.h"
#include "libs/core/retry_rule.h"
#include "libs/core/trace_context.h"

namespace callboard::core {

enum class TaskSource { kApi, kWeb, kScheduler, kCli };
inline constexpr TaskSource kTaskSources[] = {TaskSource::kApi, TaskSource::kWeb,
                                              TaskSource::kScheduler, TaskSource::kCli};
constexpr absl::string_view Name(TaskSource source) {
  switch (source) {
    case TaskSource::kApi:
      return "api";
    case TaskSource::kWeb:
      return "web";
    case TaskSource::kScheduler:
      return "scheduler";
    case TaskSource::kCli:
      return "cli";
  }
  return "";
}

enum class Priority { kLow, kNormal, kHigh };
enum class Constraint { kCpuHeavy, kDiskWriteHeavy, kNetworkHeavy };
enum class RunWhen { kAnytime, kQuiet };
enum class OnAgentLost { kFail, kRequeue };
enum class OverlapPolicy { kSkip, kQueueOne, kAllow };

// Where the work of a task belongs.
struct Project {
  std::string name;
  // Folder on the agent.
  std::string path;

  friend bool operator==(const Project&, const Project&) = default;
};

// How a task lives with others of its key.
struct Overlap {
  std::string key;
  std::optional<OverlapPolicy> policy;
  // Live tasks of the key before the policy applies; 1 when 0.
  uint32_t n = 0;

  uint64_t most_at_once() const { return n == 0 ? 1 : n; }

  friend bool operator==(const Overlap&, const Overlap&) = default;
};

// What a submitter gets that does not say.
inline constexpr absl::string_view kDefaultLane = "default";
inline constexpr absl::Duration kDefaultTimeout = absl::Seconds(1800);

// What a submitter asks for. An absent, empty or zero value leaves the choice to the queue.
struct TaskSpec {
  std::string prompt;
  std::string payload;
  std::string model;
  absl::Duration timeout;
  std::string session_id;
  std::optional<Project> project;
  std::map<std::string, std::string> env;
  std::optional<bool> thinking;
  std::string request_id;
  std::optional<TaskSource> source;
  std::string source_job;
  std::string job_type;
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> required_labels;
  std::string lane;
  std::optional<Priority> priority;
  std::string fairness_key;
  uint32_t cost_units = 0;
  std::vector<Constraint> constraints;
  std::optional<RunWhen> run_when;
  bool time_sensitive = false;
  std::optional<absl::Time> earliest_start_at;
  std::optional<absl::Time> deadline_at;
  absl::Duration expected_duration;
  uint32_t max_attempts = 0;
  std::vector<RetryRule> retry_on;
  std::optional<OnAgentLost> on_agent_lost;
  std::optional<Overlap> overlap;

  friend bool operator==(const TaskSpec&, const TaskSpec&) = default;
};
// One that no longer changes, and so is never copied.
using SpecPtr = std::shared_ptr<const TaskSpec>;

// A submit: a task to be, and how to get it in.
struct Submission {
  TaskSpec spec;
  // The queue's own when absent.
  std::optional<QueuePolicy> policy;
  // A place reserved before; none when empty.
  std::string ticket;
  bool validate_only = false;
  // The span of the submit; of a submitter that brings no trace, none.
  SpanContext trace = {};

  friend bool operator==(const Submission&, const Submission&) = default;
};

// pending → dispatching → working → completed | failed | cancelled.
enum class TaskState { kPending, kDispatching, kWorking, kCompleted, kFailed, kCancelled };

// Why a task failed.
enum class FailureReason {
  kAgentRejected,
  kMaxAttempts,
  kExecFailed,
  kTimedOut,
  kAgentLost,
  kExpired,
  kEvicted,
  kCoalesced,
  kPoison,
};

// A task at one moment.
struct Task {
  QueueId queue_id;
  TaskSpec spec;
  std::optional<QueuePolicy> policy;
  TaskState state = TaskState::kPending;
  // Present when it failed.
  std::optional<FailureReason> reason;
  // 1 + the pending tasks ahead; 0 when it is not pending.
  uint64_t position = 0;
  // When its submit arrived, and when it was accepted.
  std::optional<absl::Time> submitted_at;
  std::optional<absl::Time> created_at;
  std::optional<absl::Time> dispatched_at;
  std::optional<absl::Time> finished_at;
  // grpc://host:port of the current or last dispatch.
  std::string agent_url;
  // The current or last dispatch; 0 before the first.
  DispatchNumber dispatch;
  uint32_t attempts = 0;
  uint32_t busy_rejections = 0;
  std::optional<absl::Time> not_before;
  std::string last_error;
  std::optional<absl::Time> cancel_requested_at;
  std::optional<int32_t> exit_code;
  std::string signal;
  std::string result;
  bool result_truncated = false;
  // Of its submit and its first dispatch.
  std::optional<TraceId> trace_id;
  std::optional<QueueId> redrive_of;
  std::optional<QueueId> redriven_as;

  friend bool operator==(const Task&, const Task&) = default;
};

// What can happen to a task.
enum class TaskEventKind {
  kSubmitted,
  kAdmitted,
  kDenied,
  kDispatching,
  kBusy,
  kRetry,
  kRunning,
  kCancelRequested,
  kDone,
  kFailed,
  kCanceled,
  kTimeout,
  kEvicted,
  kExpired,
  kOrphanResult,
  kRedriven,
};

// Whose fault something was.
enum class Fault { kTask, kAgent, kDirector, kCaller };

// One thing that happened to a task.
struct TaskEvent {
  // SUBMITTED is 1, ADMITTED 2. Numbers only grow and never repeat; an event that a later one took
  // the place of leaves a gap.
  uint64_t number = 0;
  TaskEventKind kind = TaskEventKind::kSubmitted;
  absl::Time at = {};
  // An identity, an agent's name, or `director`.
  std::string who = {};
  // For people.
  std::string why = {};
  std::optional<Fault> fault = {};
  // Positions; 0 when not pending.
  uint64_t place_before = 0;
  uint64_t place_after = 0;
  // 0 and empty when it belongs to no dispatch.
  DispatchNumber dispatch = {};
  std::string agent = {};

  friend bool operator==(const TaskEvent&, const TaskEvent&) = default;
};

}  // namespace callboard::core

#endif  // CALLBOARD_LIBS_CORE_TASK_H_
