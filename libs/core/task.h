// Value types of a task: its spec, its state and its events.
#ifndef CALLBOARD_LIBS_CORE_TASK_H_
#define CALLBOARD_LIBS_CORE_TASK_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/core/dispatch_rules.h"
#include "libs/core/ids.h"
#include "libs/core/queue.h"
#include "libs/core/trace.h"

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

// The project that a task works in.
struct Project {
  std::string name;
  // Folder on the agent.
  std::string path;

  friend bool operator==(const Project&, const Project&) = default;
};

// Limits how many tasks with the same key are live at a time.
struct Overlap {
  std::string key;
  std::optional<OverlapPolicy> policy;
  // Number of live tasks of the key from which on the policy applies; 0 means 1.
  uint32_t n = 0;

  uint64_t live_tasks_max() const { return n == 0 ? 1 : n; }

  friend bool operator==(const Overlap&, const Overlap&) = default;
};

// Defaults of TaskSpec fields.
inline constexpr absl::string_view kDefaultLane = "default";
inline constexpr absl::Duration kDefaultTimeout = absl::Seconds(1800);

// The contents of a submit. An absent, empty or zero field means the queue's default.
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
// An immutable spec that is shared instead of copied.
using SpecPtr = std::shared_ptr<const TaskSpec>;

// A submit: the spec of a task, and options of its admission.
struct Submission {
  TaskSpec spec;
  // The policy of the queue if absent.
  std::optional<QueuePolicy> policy;
  // A ticket that reserves a place; empty for none.
  std::string ticket;
  bool validate_only = false;
  // The span of the submit; SpanContext() if the submitter sent no trace.
  SpanContext trace = {};

  friend bool operator==(const Submission&, const Submission&) = default;
};

// pending → dispatching → working → completed | failed | cancelled.
enum class LifecycleState { kPending, kDispatching, kWorking, kCompleted, kFailed, kCancelled };

// The cause of a task's failure.
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

// A snapshot of a task.
struct Task {
  QueueId queue_id;
  TaskSpec spec;
  std::optional<QueuePolicy> policy;
  LifecycleState state = LifecycleState::kPending;
  // Present if the task failed.
  std::optional<FailureReason> reason;
  // 1 + the number of pending tasks ahead; 0 if the task is not pending.
  uint64_t position = 0;
  // Times at which the submit arrived and was admitted.
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
  // The trace of the submit and the first dispatch.
  std::optional<TraceId> trace_id;
  std::optional<QueueId> redrive_of;
  std::optional<QueueId> redriven_as;

  friend bool operator==(const Task&, const Task&) = default;
};

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
  kCancelled,
  kTimeout,
  kEvicted,
  kExpired,
  kOrphanResult,
  kRedriven,
};

// The party at fault for an event.
enum class Fault { kTask, kAgent, kDirector, kCaller };

// An event in the history of a task.
struct TaskEvent {
  // SUBMITTED has number 1 and ADMITTED number 2. Numbers increase and are never reused. An event
  // that was replaced by a later one leaves a gap.
  uint64_t number = 0;
  TaskEventKind kind = TaskEventKind::kSubmitted;
  absl::Time at = {};
  // The cause of the event: an identity, the name of an agent, or `director`.
  std::string who = {};
  // A human-readable reason.
  std::string why = {};
  std::optional<Fault> fault = {};
  // Positions before and after the event; 0 if not pending.
  uint64_t place_before = 0;
  uint64_t place_after = 0;
  // The dispatch of the event; 0 and empty if there is none.
  DispatchNumber dispatch = {};
  std::string agent = {};

  friend bool operator==(const TaskEvent&, const TaskEvent&) = default;
};

// Returns UNIMPLEMENTED with the reason FIELD_NOT_SUPPORTED, naming the field, if `spec` uses a
// field that is part of the API but not implemented yet. Values that mean the default are accepted.
// The director checks every submit, and the scheduler every job when it reads the jobs file.
absl::Status CheckSupported(const TaskSpec& spec);

}  // namespace callboard::core

#endif  // CALLBOARD_LIBS_CORE_TASK_H_
