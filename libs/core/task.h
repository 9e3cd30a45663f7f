// Value types of a task: its spec, its state and its events.

#ifndef CALLBOARD_LIBS_CORE_TASK_H_
#define CALLBOARD_LIBS_CORE_TASK_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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

// Defaults of fields of a submit.
inline constexpr absl::string_view kDefaultLane = "default";
inline constexpr absl::Duration kDefaultTimeout = absl::Seconds(1800);

enum class OnAgentLost { kFail, kRequeue };
enum class OverlapPolicy { kSkip, kQueueOne, kAllow };

// Limits how many tasks with the same key are live at a time.
struct Overlap {
  std::string key;
  OverlapPolicy policy = OverlapPolicy::kSkip;
  // Number of live tasks of the key from which on the policy applies; 0 means 1.
  uint32_t n = 0;

  uint64_t live_tasks_max() const { return n == 0 ? 1 : n; }

  friend bool operator==(const Overlap&, const Overlap&) = default;
};

// ---- The spec of a task, as the director sees it ----

// A serialized callboard.v1.TaskSpec, validated and with the defaults filled in. Stored, sent and
// shown without being changed. Shared instead of copied.
using SpecBytes = std::shared_ptr<const std::string>;

// The part of a spec that the director schedules by. Many tasks have equal terms.
struct PlacementTerms {
  // Identity of the submitter; set at admission.
  std::string identity;
  TaskSource source = TaskSource::kApi;
  std::string source_job;
  std::string job_type;
  std::map<std::string, std::string> labels;
  std::map<std::string, std::string> required_labels;
  std::string lane = std::string(kDefaultLane);
  std::string fairness_key;
  absl::Duration timeout = kDefaultTimeout;
  uint32_t max_attempts = 0;
  std::vector<RetryRule> retry_on;
  OnAgentLost on_agent_lost = OnAgentLost::kFail;
  std::optional<Overlap> overlap;

  friend bool operator==(const PlacementTerms&, const PlacementTerms&) = default;
  template <class H>
  friend H AbslHashValue(H h, const PlacementTerms& terms) {
    // The other fields seldom differ between terms that are equal in these.
    return H::combine(std::move(h), terms.identity, terms.source_job, terms.labels, terms.lane,
                      terms.fairness_key, terms.timeout, terms.max_attempts);
  }
};

// The spec of a task: its bytes, and what the director decides by, which is read from them.
struct TaskSpec {
  // Null only in an empty spec.
  SpecBytes bytes;
  std::string request_id;
  std::string session_id;
  absl::Time earliest_start_at = absl::InfinitePast();
  absl::Time deadline_at = absl::InfiniteFuture();
  PlacementTerms terms;

  // Compares the contents of `bytes`.
  friend bool operator==(const TaskSpec& a, const TaskSpec& b) {
    const bool same_bytes =
        a.bytes == nullptr || b.bytes == nullptr ? a.bytes == b.bytes : *a.bytes == *b.bytes;
    return same_bytes && a.request_id == b.request_id && a.session_id == b.session_id &&
           a.earliest_start_at == b.earliest_start_at && a.deadline_at == b.deadline_at &&
           a.terms == b.terms;
  }
};
// An immutable spec that is shared instead of copied.
using SpecPtr = std::shared_ptr<const TaskSpec>;

// A hash of the contents of a submit. Two submits with the same request id are the same submit if
// their fingerprints are equal.
//
// A field that has its default value adds nothing, so an absent value and an explicit default are
// equal, and so are requests from before and after a field was added to the API. The fields
// request_id, policy, ticket and validate_only are left out.
struct Fingerprint {
  uint64_t high = 0;
  uint64_t low = 0;
  // max_attempts of the submit; 0 if absent. Not part of the hash, because its default is a setting
  // that may change.
  uint32_t max_attempts = 0;

  // Returns true if both are fingerprints of the same submit. `max_attempts_default` is the current
  // default.
  bool Matches(const Fingerprint& other, uint32_t max_attempts_default) const {
    const auto attempts = [=](uint32_t sent) { return sent == 0 ? max_attempts_default : sent; };
    return high == other.high && low == other.low &&
           (max_attempts == other.max_attempts ||
            attempts(max_attempts) == attempts(other.max_attempts));
  }

  friend auto operator<=>(const Fingerprint&, const Fingerprint&) = default;
};

// A submit: the spec of a task, and options of its admission.
struct Submission {
  TaskSpec spec;
  // Computed only if the spec has a request id.
  Fingerprint fingerprint;
  // The policy of the queue if absent.
  std::optional<QueuePolicy> policy;
  // A ticket that reserves a place; empty for none.
  std::string ticket;
  bool validate_only = false;
  // The span of the submit; SpanContext() if the submitter sent no trace.
  SpanContext trace = {};

  friend bool operator==(const Submission&, const Submission&) = default;
};

// ---- The spec of a task, as an agent sees it ----

// The project that a task works in.
struct Project {
  std::string name;
  // Folder on the agent.
  std::string path;

  friend bool operator==(const Project&, const Project&) = default;
};

// The part of a spec that an agent needs to run the task.
struct RunSpec {
  std::string prompt;
  std::string payload;
  std::string model;
  // Zero for the agent's default.
  absl::Duration timeout;
  std::string session_id;
  Project project;
  std::map<std::string, std::string> env;
  std::optional<bool> thinking;
  std::string lane = std::string(kDefaultLane);

  friend bool operator==(const RunSpec&, const RunSpec&) = default;
};
using RunSpecPtr = std::shared_ptr<const RunSpec>;

// ---- A task and its events, as users see them ----

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
  // Null if the task was deleted, and only its id and state are known.
  SpecBytes spec;
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

}  // namespace callboard::core

#endif  // CALLBOARD_LIBS_CORE_TASK_H_
