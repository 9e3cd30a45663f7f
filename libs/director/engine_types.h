// The values that go into and come out of a DirectorEngine: options, results of commands, effects
// of a turn, queries and pages.

#ifndef CALLBOARD_LIBS_DIRECTOR_ENGINE_TYPES_H_
#define CALLBOARD_LIBS_DIRECTOR_ENGINE_TYPES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/core/ids.h"
#include "libs/core/queue.h"
#include "libs/core/record.h"
#include "libs/core/session.h"
#include "libs/core/task.h"
#include "libs/director/task_step.h"
#include "libs/director/waiter_queue.h"

namespace callboard::director {

struct EngineOptions {
  core::QueueOptions queue = {};
  core::LeaseOptions lease = {};
  core::RetentionOptions retention = {};

  friend bool operator==(const EngineOptions&, const EngineOptions&) = default;
};

// ---- Results of commands ----

// The result of an accepted submit, or of a duplicate of one.
struct SubmitResult {
  core::QueueId queue_id = {};
  // For a new task: pending, with its position. For a duplicate: the current state of the task.
  core::LifecycleState state = core::LifecycleState::kPending;
  uint64_t position = 0;
  bool deduplicated = false;
  // Complete for a new task; without a spec for a duplicate.
  core::TaskAdmitted admitted = {};
  absl::Time created_at = {};
};

// A reserved place in the queue, valid until `expires_at`.
struct GrantedTicket {
  std::string ticket;
  absl::Time expires_at;
};

// The result of a submit or a reservation. A WaiterId means that the caller waits; the final
// decision then comes in Outcome::answers.
using Decision = std::variant<absl::Status, SubmitResult, GrantedTicket, WaiterId>;

enum class CancelResult { kCancelled, kRequested, kAlreadyEnded };

// The number of backoffs and suspicions that a kick has ended.
struct KickResult {
  uint32_t backoffs = 0;
  uint32_t suspicions = 0;
};

// NOT_FOUND/TASK_NOT_FOUND.
absl::Status TaskNotFound(core::QueueId id);
absl::Status TaskNotFound(const std::string& request_id);
// NOT_FOUND/AGENT_NOT_FOUND.
absl::Status AgentNotFound(const std::string& name);

// Effects of a turn. Commit `records` before sending anything else.
struct Outcome {
  struct Answer {
    WaiterId waiter;
    Decision decision;
  };
  struct Message {
    core::AgentSessionId session;
    core::DirectorMessage message;
  };

  std::vector<core::Record> records = {};
  // One for each record that changes a task, in the same order.
  std::vector<TaskStep> steps = {};
  // For each of them there is also a message to the agent.
  std::vector<OrphanResult> orphans = {};
  std::vector<Answer> answers = {};
  std::vector<Message> messages = {};

  bool empty() const { return records.empty() && answers.empty() && messages.empty(); }
};

// ---- Queries and pages ----

// The part of a task's description that its own records do not contain.
struct TaskSummary {
  core::QueueId queue_id;
  core::LifecycleState state = core::LifecycleState::kPending;
  core::DispatchNumber dispatch;
  uint64_t position = 0;
  std::optional<core::QueueId> redriven_as;
};

// A position in the list of all tasks.
struct ListCursor {
  // The sequence number of a live task. If absent, `ended` is the position of an ended task.
  std::optional<uint64_t> live = {};
  std::pair<absl::Time, core::QueueId> ended = {};

  friend bool operator==(const ListCursor&, const ListCursor&) = default;
};

// Lists the tasks that match all given conditions.
struct ListQuery {
  // Empty: any state.
  std::set<core::LifecycleState> states = {};
  std::optional<core::TaskSource> source = {};
  std::string source_job = {};
  std::string job_type = {};
  std::string session_id = {};
  std::string label = {};
  // Required value of `label`; absent: any value.
  std::optional<std::string> label_value = {};
  std::optional<bool> ready = {};
  size_t page_size = 50;
  // The page starts after this task.
  std::optional<ListCursor> after = {};
};

// Live tasks in queue order, then ended ones, the latest end first. If `next` is present there may
// be more tasks, even if the page is not full, because a page examines a bounded number of tasks.
struct ListPage {
  struct Item {
    TaskSummary summary;
    ListCursor cursor;
  };
  std::vector<Item> tasks;
  std::optional<ListCursor> next;
};

// The reason why a task has not started.
struct Explanation {
  struct AgentFit {
    std::string agent;
    bool fits = false;
    std::string why_not;
  };

  core::LifecycleState state = core::LifecycleState::kPending;
  uint64_t position = 0;
  // Pending tasks ahead of it that start as soon as one of their agents has a free slot.
  uint64_t ready_ahead = 0;
  // The explanation in one sentence.
  std::string summary = {};
  // Present for a task that is in backoff or delayed.
  std::optional<absl::Time> not_before = {};
  std::vector<AgentFit> agents = {};
  // Absent when no rate was measured, the queue is not dispatching, or no agent serves the task.
  std::optional<absl::Time> estimated_start_at = {};
};

// A session: tasks that run one after the other on one agent.
struct TaskSessionView {
  std::string session_id = {};
  // The agent that owns the session; empty before the first dispatch.
  std::string agent = {};
  uint64_t queued = 0;
  std::optional<core::QueueId> running = {};
  absl::Time active_at = {};
};

// Lists sessions that have live tasks, by name, starting after `after`. If `next` is present there
// may be more sessions, even if the page is not full.
struct TaskSessionQuery {
  std::string after = {};
  size_t page_size = 50;
};
struct TaskSessionPage {
  std::vector<TaskSessionView> sessions = {};
  std::optional<std::string> next = {};
};

}  // namespace callboard::director

#endif  // CALLBOARD_LIBS_DIRECTOR_ENGINE_TYPES_H_
