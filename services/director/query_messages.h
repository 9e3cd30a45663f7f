// Conversions between callboard.v1 and the director's queries and their answers: agents, tasks,
// events, watches, task sessions and explanations.

#ifndef CALLBOARD_SERVICES_DIRECTOR_QUERY_MESSAGES_H_
#define CALLBOARD_SERVICES_DIRECTOR_QUERY_MESSAGES_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "callboard/v1/fleet.pb.h"
#include "callboard/v1/queue.pb.h"
#include "libs/core/ids.h"
#include "libs/core/session.h"
#include "libs/core/task.h"
#include "libs/director/driver.h"
#include "libs/director/engine_types.h"
#include "libs/director/fleet.h"
#include "libs/director/task_watch.h"
#include "libs/wire/enums.h"

namespace callboard {

// ---- Agents ----

inline constexpr wire::EnumPair<director::AgentState, v1::Agent::State> kAgentStates[] = {
    {director::AgentState::kIdle, v1::Agent::STATE_IDLE},
    {director::AgentState::kBusy, v1::Agent::STATE_BUSY},
    {director::AgentState::kDraining, v1::Agent::STATE_DRAINING},
    {director::AgentState::kCordoned, v1::Agent::STATE_CORDONED},
    {director::AgentState::kSuspect, v1::Agent::STATE_SUSPECT},
    {director::AgentState::kUnreachable, v1::Agent::STATE_UNREACHABLE},
};

// Parse requests. They return INVALID_ARGUMENT with the name, limit and size of every wrong field.
absl::StatusOr<core::AgentAnnouncement> AnnouncementFrom(const v1::AnnounceAgentRequest& request);
absl::StatusOr<director::AgentQuery> AgentQueryFrom(const v1::ListAgentsRequest& request);
// Returns the operator's reason for the drain.
absl::StatusOr<std::string> DrainReasonFrom(const v1::DrainAgentRequest& request);

v1::Agent ToProto(const director::AgentView& agent);
// Converts a page. The page ends early where it would become too large for a message.
v1::ListAgentsResponse ListResponse(const director::AgentPage& page);

// ---- Tasks ----

// The task that a caller asks for: by its id or, if that is absent, by the request id of its
// submit.
struct TaskQuery {
  std::optional<core::QueueId> queue_id = {};
  std::string request_id = {};
  bool is_full_view = false;
};

// Parses a request. Returns INVALID_ARGUMENT with the name of each wrong field.
absl::StatusOr<TaskQuery> TaskQueryFrom(const v1::GetTaskRequest& request);
// Converts a task to the view that `query` asks for.
v1::Task TaskResponse(const core::Task& task, const TaskQuery& query);

// Parses a request. Returns INVALID_ARGUMENT with the name of each wrong field.
absl::StatusOr<director::ListQuery> ListQueryFrom(const v1::ListTasksRequest& request);

// Converts a page. The page ends early where it would become too large for a message.
v1::ListTasksResponse ListResponse(const director::TaskPage& page);

// ---- Events of a task ----

// Parses a request. Returns INVALID_ARGUMENT with the name of each wrong field.
absl::StatusOr<director::EventQuery> EventQueryFrom(const v1::ListTaskEventsRequest& request);

// Converts a page. The page ends early where it would become too large for a message.
v1::ListTaskEventsResponse ListResponse(const director::EventPage& page);

// ---- Watches ----

// Parses a request. Returns INVALID_ARGUMENT with the name of each wrong field.
absl::StatusOr<director::WatchQuery> WatchQueryFrom(const v1::WatchTasksRequest& request);

// Converts a message of a watch. Tasks are shown as in a list.
v1::WatchTasksResponse ToProto(const director::WatchUpdate& update);

// ---- Sessions of tasks ----

// Parses a request. Returns INVALID_ARGUMENT with the name of each wrong field.
absl::StatusOr<director::TaskSessionQuery> TaskSessionQueryFrom(
    const v1::ListSessionsRequest& request);

// Converts a page. It always fits into a message: names are short, and a page has at most 1000.
v1::ListSessionsResponse ListResponse(const director::TaskSessionPage& page);

// ---- Explanations ----

// Converts an explanation why a task has not started.
v1::ExplainTaskResponse ToProto(core::QueueId id, const director::Explanation& explanation);

}  // namespace callboard

#endif  // CALLBOARD_SERVICES_DIRECTOR_QUERY_MESSAGES_H_
