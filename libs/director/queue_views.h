#ifndef CALLBOARD_LIBS_DIRECTOR_QUEUE_VIEWS_H_
#define CALLBOARD_LIBS_DIRECTOR_QUEUE_VIEWS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "libs/core/ids.h"
#include "libs/core/queue.h"
#include "libs/director/engine_types.h"
#include "libs/director/fleet.h"
#include "libs/director/matcher.h"
#include "libs/director/task_table.h"
#include "libs/director/waiter_queue.h"
#include "libs/ports/environment.h"

namespace callboard::director {

// Describes the queue to users: its status, its tasks, sessions and agents, and the reason why a
// task waits. Reads the state of an engine and changes nothing.
//
// Not thread-safe. Cheap to create; create new views after each change of the engine, because
// `delayed` and the flags are copies.
class QueueViews {
 public:
  // The state that the views show. All references outlive the views.
  struct State {
    const EngineOptions& options;
    const TaskTable& tasks;
    const Fleet& fleet;
    const Matcher& matcher;
    const WaiterQueue& waiter_queue;
    const Tickets& tickets;
    const core::DrainRate& drain_rate;
    // Pending tasks in backoff or before their earliest start.
    uint64_t delayed;
    bool is_draining;
    // False while the queue is paused, and after the director has announced that it goes away.
    bool can_dispatch;
  };

  explicit QueueViews(const State& state) : state_(state) {}

  core::QueueStatus Status(Moment now) const;

  // ---- Tasks ----

  // Returns whether the task starts as soon as one of its agents has a free slot.
  bool IsReady(core::QueueId id) const;
  // Error: NOT_FOUND/TASK_NOT_FOUND.
  absl::StatusOr<TaskSummary> Summarize(core::QueueId id) const;
  // Returns the task that a repeated submit with this request id would return. The summary of a
  // deleted task has only its id and its state. Errors: FAILED_PRECONDITION/WAITING while a submit
  // with this id waits for a place, else NOT_FOUND/TASK_NOT_FOUND.
  absl::StatusOr<TaskSummary> FindByRequestId(const std::string& identity,
                                              const std::string& request_id, Moment now) const;
  ListPage List(const ListQuery& query) const;
  // Error: NOT_FOUND/TASK_NOT_FOUND.
  absl::StatusOr<Explanation> Explain(core::QueueId id, Moment now) const;

  // ---- Sessions and agents ----

  TaskSessionPage ListTaskSessions(const TaskSessionQuery& query) const;
  // Error: NOT_FOUND/AGENT_NOT_FOUND.
  absl::StatusOr<AgentView> FindAgent(const std::string& name, Moment now) const;
  AgentPage ListAgents(const AgentQuery& query, Moment now) const;

 private:
  bool IsReady(const Entry& entry) const { return state_.can_dispatch && Matcher::IsServed(entry); }
  bool IsListed(const Entry& entry, const ListQuery& query) const;
  TaskSummary SummaryOf(const Entry& entry) const;
  std::string WhyPending(const Entry& entry, const Explanation& explanation, Moment now) const;

  const State state_;
};

}  // namespace callboard::director

#endif  // CALLBOARD_LIBS_DIRECTOR_QUEUE_VIEWS_H_
