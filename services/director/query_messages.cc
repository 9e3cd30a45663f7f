#include "services/director/query_messages.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "libs/base/error.h"
#include "libs/base/text.h"
#include "libs/core/limits.h"
#include "libs/core/session.h"
#include "libs/wire/enums.h"
#include "libs/wire/fields.h"
#include "libs/wire/page.h"
#include "libs/wire/session.h"
#include "libs/wire/spec.h"
#include "libs/wire/task.h"
#include "libs/wire/time.h"

namespace callboard {

// ---- Agents -------------------------------------------------------------------------------------

namespace {

bool IsName(absl::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-';
  });
}

void CheckLanes(const v1::AnnounceAgentRequest& request, wire::FieldChecks& checks) {
  checks.CheckLimit("lanes", static_cast<uint64_t>(request.lanes_size()), core::kAgentLanesMax,
                    "entries");
  for (const v1::Lane& lane : request.lanes()) {
    if (lane.name().empty()) checks.AddViolation("lanes", "has an entry without a name");
    checks.CheckLimit("lanes", lane.name().size(), core::kNameBytesMax, "bytes in a name");
    wire::CheckName("lanes", lane.name(), checks);
    checks.CheckLimit("lanes", lane.slots(), core::kLaneSlotsMax, "slots in a lane");
  }
}

void CheckLabels(const v1::AnnounceAgentRequest& request, wire::FieldChecks& checks) {
  checks.CheckLimit("labels", request.labels().size(), core::kLabelsMax, "entries");
  for (const auto& [key, value] : request.labels()) {
    if (key.empty()) checks.AddViolation("labels", "has an entry without a key");
    checks.CheckLimit("labels", key.size(), core::kNameBytesMax, "bytes in a key");
    checks.CheckLimit("labels", value.size(), core::kNameBytesMax, "bytes in a value");
    wire::CheckName("labels", key, checks);
    wire::CheckName("labels", value, checks);
  }
}

}  // namespace

absl::StatusOr<core::AgentAnnouncement> AnnouncementFrom(const v1::AnnounceAgentRequest& request) {
  wire::FieldChecks checks;
  core::AgentAnnouncement announced = {
      .name = wire::ReadName("name", request.name(), core::kNameBytesMax, checks),
      .instance_id =
          wire::ReadName("instance_id", request.instance_id(), core::kNameBytesMax, checks),
      .url =
          "grpc://" + wire::ReadText("address", request.address(), core::kAddressBytesMax, checks),
      .labels = {request.labels().begin(), request.labels().end()}};
  for (const v1::Lane& lane : request.lanes()) {
    announced.lanes[lane.name()] = {.slots = lane.slots(), .used = lane.busy()};
  }
  if (!IsName(announced.name)) {
    checks.AddViolation("name", "may contain only lower-case letters, digits and hyphens");
  }
  if (announced.instance_id.empty()) checks.AddViolation("instance_id", "is required");
  if (!base::IsHostPort(request.address())) {
    checks.AddViolation("address", "is not host:port, as in 10.0.0.7:7071 or [::1]:7071");
  }
  CheckLabels(request, checks);
  CheckLanes(request, checks);
  RETURN_IF_ERROR(checks.status());
  return announced;
}

absl::StatusOr<director::AgentQuery> AgentQueryFrom(const v1::ListAgentsRequest& request) {
  wire::FieldChecks checks;
  director::AgentQuery query = {.page_size = wire::ReadPageSize(request.page_size(), checks)};
  query.after = wire::ReadPageToken(request.page_token(), checks);
  RETURN_IF_ERROR(checks.status());
  return query;
}

absl::StatusOr<std::string> DrainReasonFrom(const v1::DrainAgentRequest& request) {
  wire::FieldChecks checks;
  std::string why = wire::ReadText("why", request.why(), core::kErrorBytesMax, checks);
  RETURN_IF_ERROR(checks.status());
  return why;
}

v1::Agent ToProto(const director::AgentView& agent) {
  v1::Agent proto;
  proto.set_name(agent.name);
  proto.set_agent_url(agent.url);
  proto.set_instance_id(agent.instance_id);
  proto.set_state(wire::ToProto(kAgentStates, agent.state));
  proto.set_state_why(agent.why);
  proto.mutable_labels()->insert(agent.labels.begin(), agent.labels.end());
  wire::WriteLanes(agent.lanes, proto);
  if (agent.last_seen_at) *proto.mutable_last_seen_at() = wire::ToProto(*agent.last_seen_at);
  if (agent.suspect_until) *proto.mutable_suspect_until() = wire::ToProto(*agent.suspect_until);
  for (const core::QueueId& id : agent.running) proto.add_running_queue_ids(core::ToString(id));
  return proto;
}

v1::ListAgentsResponse ListResponse(const director::AgentPage& page) {
  v1::ListAgentsResponse response;
  wire::PageBytes bytes;
  bool has_more = page.has_more;
  for (const director::AgentView& agent : page.agents) {
    v1::Agent proto = ToProto(agent);
    if (!bytes.Add(proto)) {
      has_more = true;
      break;
    }
    *response.add_agents() = std::move(proto);
  }
  if (has_more)
    response.set_next_page_token(wire::EncodePageToken(response.agents().rbegin()->name()));
  return response;
}

// ---- Tasks --------------------------------------------------------------------------------------

namespace {

// Returns `live/<sequence>` or `ended/<unix nanoseconds>/<queue id>`.
std::string CursorText(const director::ListCursor& cursor) {
  if (cursor.live.has_value()) return absl::StrCat("live/", *cursor.live);
  return absl::StrCat("ended/", absl::ToUnixNanos(cursor.ended.first), "/",
                      core::ToString(cursor.ended.second));
}

std::optional<director::ListCursor> CursorFrom(const std::string& token) {
  const std::vector<std::string> parts =
      absl::StrSplit(wire::DecodePageToken(token).value_or(""), '/');
  uint64_t sequence = 0;
  if (parts.size() == 2 && parts[0] == "live" && absl::SimpleAtoi(parts[1], &sequence)) {
    return director::ListCursor{.live = sequence};
  }
  int64_t nanos = 0;
  if (parts.size() != 3 || parts[0] != "ended" || !absl::SimpleAtoi(parts[1], &nanos)) {
    return std::nullopt;
  }
  const std::optional<core::QueueId> id = core::ParseQueueId(parts[2]);
  if (!id.has_value()) return std::nullopt;
  return director::ListCursor{.ended = {absl::FromUnixNanos(nanos), *id}};
}

void ReadLabel(const std::string& label, director::ListQuery& query, wire::FieldChecks& checks) {
  if (label.empty()) return;
  const std::pair<std::string, std::string> parts = absl::StrSplit(label, absl::MaxSplits('=', 1));
  query.label = parts.first;
  if (label.find('=') != std::string::npos) query.label_value = parts.second;
  if (query.label.empty()) checks.AddViolation("label", "has no key: write key or key=value");
}

}  // namespace

absl::StatusOr<TaskQuery> TaskQueryFrom(const v1::GetTaskRequest& request) {
  wire::FieldChecks checks;
  const bool has_request_id = !request.request_id().empty();
  if (request.queue_id().empty() && !has_request_id) {
    checks.AddViolation("queue_id", "is required if there is no request_id");
  } else if (!request.queue_id().empty() && has_request_id) {
    checks.AddViolation("request_id", "must not be set together with queue_id");
  }
  TaskQuery query = {.queue_id = wire::ReadQueueId("queue_id", request.queue_id(), checks),
                     .request_id = wire::ReadText("request_id", request.request_id(),
                                                  core::kRequestIdBytesMax, checks),
                     .is_full_view = request.view() == v1::TASK_VIEW_FULL};
  RETURN_IF_ERROR(checks.status());
  return query;
}

v1::Task TaskResponse(const core::Task& task, const TaskQuery& query) {
  v1::Task proto = wire::ToProto(task);
  // A deleted task no longer has it.
  if (!query.request_id.empty()) proto.set_request_id(query.request_id);
  if (!query.is_full_view) wire::ReduceToBasicView(proto);
  return proto;
}

absl::StatusOr<director::ListQuery> ListQueryFrom(const v1::ListTasksRequest& request) {
  wire::FieldChecks checks;
  director::ListQuery query;
  for (const int state : request.states()) {
    const std::optional<core::LifecycleState> known =
        wire::ReadEnum("states", wire::kTaskStates, static_cast<v1::Task::State>(state), checks);
    if (known.has_value()) query.states.insert(*known);
  }
  query.source = wire::ReadSource(request.source(), checks);
  query.source_job =
      wire::ReadText("source_job", request.source_job(), core::kNameBytesMax, checks);
  query.job_type = wire::ReadText("job_type", request.job_type(), core::kNameBytesMax, checks);
  query.session_id =
      wire::ReadText("session_id", request.session_id(), core::kNameBytesMax, checks);
  ReadLabel(request.label(), query, checks);
  if (request.has_ready()) query.ready = request.ready();
  query.page_size = wire::ReadPageSize(request.page_size(), checks);
  if (!request.page_token().empty()) {
    query.after = CursorFrom(request.page_token());
    if (!query.after.has_value()) wire::AddPageTokenViolation(checks);
  }
  RETURN_IF_ERROR(checks.status());
  return query;
}

v1::ListTasksResponse ListResponse(const director::TaskPage& page) {
  v1::ListTasksResponse response;
  wire::PageBytes bytes;
  std::optional<director::ListCursor> next = page.next;
  for (size_t i = 0; i < page.tasks.size(); ++i) {
    v1::Task task = wire::ToProto(page.tasks[i].task);
    wire::ReduceToListView(task);
    if (!bytes.Add(task)) {
      next = page.tasks[i - 1].cursor;
      break;
    }
    *response.add_tasks() = std::move(task);
  }
  if (next.has_value()) response.set_next_page_token(wire::EncodePageToken(CursorText(*next)));
  return response;
}

// ---- Events of a task ---------------------------------------------------------------------------

absl::StatusOr<director::EventQuery> EventQueryFrom(const v1::ListTaskEventsRequest& request) {
  wire::FieldChecks checks;
  director::EventQuery query;
  query.queue_id = wire::ReadRequiredQueueId(request.queue_id(), checks);
  query.page_size = wire::ReadPageSize(request.page_size(), checks);
  if (!request.page_token().empty() &&
      !absl::SimpleAtoi(wire::DecodePageToken(request.page_token()).value_or(""), &query.first)) {
    wire::AddPageTokenViolation(checks);
  }
  RETURN_IF_ERROR(checks.status());
  return query;
}

v1::ListTaskEventsResponse ListResponse(const director::EventPage& page) {
  v1::ListTaskEventsResponse response;
  wire::PageBytes bytes;
  bool has_more = page.has_more;
  for (const core::TaskEvent& event : page.events) {
    v1::TaskEvent proto = wire::ToProto(event);
    if (!bytes.Add(proto)) {
      has_more = true;
      break;
    }
    *response.add_events() = std::move(proto);
  }
  if (has_more) {
    response.set_next_page_token(wire::EncodePageToken(
        absl::StrCat(page.first + static_cast<size_t>(response.events_size()))));
  }
  return response;
}

// ---- Watches ------------------------------------------------------------------------------------

namespace {

// Token of a message before the end of the initial snapshot. A watch can resume only after the
// whole snapshot; before that it starts again.
constexpr char kBeginning[] = "begin";

// Returns the token of `<epoch>/<number>`.
std::string ResumeToken(const std::optional<director::FeedCursor>& cursor) {
  if (!cursor.has_value()) return wire::EncodePageToken(kBeginning);
  return wire::EncodePageToken(absl::StrCat(cursor->epoch, "/", cursor->number));
}

std::optional<director::FeedCursor> ReadResumeToken(const std::string& token,
                                                    wire::FieldChecks& checks) {
  const std::string text = wire::DecodePageToken(token).value_or("");
  if (text == kBeginning) return std::nullopt;
  const std::vector<std::string> parts = absl::StrSplit(text, '/');
  director::FeedCursor cursor;
  if (parts.size() == 2 && absl::SimpleAtoi(parts[0], &cursor.epoch) &&
      absl::SimpleAtoi(parts[1], &cursor.number)) {
    return cursor;
  }
  checks.AddViolation("resume_token", "is not a token from a message of a watch");
  return std::nullopt;
}

}  // namespace

absl::StatusOr<director::WatchQuery> WatchQueryFrom(const v1::WatchTasksRequest& request) {
  wire::FieldChecks checks;
  director::WatchQuery query = {.resumes = !request.resume_token().empty()};
  checks.CheckLimit("queue_ids", static_cast<uint64_t>(request.queue_ids_size()),
                    core::kWatchedTasksMax, "entries");
  for (int i = 0; i < request.queue_ids_size() && checks.status().ok(); ++i) {
    const std::string field = absl::StrCat("queue_ids[", i, "]");
    if (request.queue_ids(i).empty()) checks.AddViolation(field, "is empty");
    const auto id = wire::ReadQueueId(field, request.queue_ids(i), checks);
    query.tasks.push_back(id.value_or(core::QueueId()));
  }
  if (query.resumes) query.from = ReadResumeToken(request.resume_token(), checks);
  RETURN_IF_ERROR(checks.status());
  return query;
}

v1::WatchTasksResponse ToProto(const director::WatchUpdate& update) {
  v1::WatchTasksResponse response;
  response.set_resume_token(ResumeToken(update.cursor));
  response.set_reset(update.reset);
  for (const director::WatchUpdate::Item& item : update.items) {
    v1::WatchTasksResponse::Change& change = *response.add_changes();
    *change.mutable_task() = wire::ToProto(*item.task);
    wire::ReduceToListView(*change.mutable_task());
    if (item.event.has_value()) *change.mutable_event() = wire::ToProto(*item.event);
  }
  return response;
}

// ---- Sessions of tasks --------------------------------------------------------------------------

absl::StatusOr<director::TaskSessionQuery> TaskSessionQueryFrom(
    const v1::ListSessionsRequest& request) {
  wire::FieldChecks checks;
  director::TaskSessionQuery query = {.page_size = wire::ReadPageSize(request.page_size(), checks)};
  query.after = wire::ReadPageToken(request.page_token(), checks);
  RETURN_IF_ERROR(checks.status());
  return query;
}

v1::ListSessionsResponse ListResponse(const director::TaskSessionPage& page) {
  v1::ListSessionsResponse response;
  for (const director::TaskSessionView& view : page.sessions) {
    v1::TaskSession& session = *response.add_sessions();
    session.set_session_id(view.session_id);
    session.set_agent(view.agent);
    session.set_queued(static_cast<uint32_t>(
        std::min<uint64_t>(view.queued, std::numeric_limits<uint32_t>::max())));
    if (view.running.has_value()) session.set_running_queue_id(core::ToString(*view.running));
    *session.mutable_last_active_at() = wire::ToProto(view.active_at);
  }
  if (page.next.has_value()) response.set_next_page_token(wire::EncodePageToken(*page.next));
  return response;
}

// ---- Explanations -------------------------------------------------------------------------------

v1::ExplainTaskResponse ToProto(core::QueueId id, const director::Explanation& explanation) {
  v1::ExplainTaskResponse proto;
  proto.set_queue_id(core::ToString(id));
  proto.set_state(wire::ToProto(wire::kTaskStates, explanation.state));
  proto.set_position(explanation.position);
  proto.set_ready_ahead(explanation.ready_ahead);
  proto.set_summary(explanation.summary);
  if (explanation.not_before.has_value()) {
    *proto.mutable_not_before() = wire::ToProto(*explanation.not_before);
  }
  for (const director::Explanation::AgentFit& verdict : explanation.agents) {
    auto& agent = *proto.add_agents();
    agent.set_agent(verdict.agent);
    agent.set_fits(verdict.fits);
    agent.set_why_not(verdict.why_not);
  }
  if (explanation.estimated_start_at.has_value()) {
    *proto.mutable_estimated_start_at() = wire::ToProto(*explanation.estimated_start_at);
  }
  return proto;
}

}  // namespace callboard
