#include "services/director/agent_list.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/base/status_macros.h"
#include "libs/core/host_port.h"
#include "libs/core/limits.h"
#include "libs/wire/enum_pair.h"
#include "libs/wire/field_checks.h"
#include "libs/wire/field_values.h"
#include "libs/wire/page.h"
#include "libs/wire/session.h"
#include "libs/wire/time.h"

namespace callboard {
namespace {

bool IsName(absl::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-';
  });
}

void CheckLanes(const v1::AnnounceAgentRequest& request, wire::FieldChecks& checks) {
  checks.AtMost("lanes", static_cast<uint64_t>(request.lanes_size()), core::kAgentLanesMax,
                "entries");
  for (const v1::Lane& lane : request.lanes()) {
    if (lane.name().empty()) checks.Refuse("lanes", "has an entry without a name");
    checks.AtMost("lanes", lane.name().size(), core::kNameBytesMax, "bytes in a name");
    wire::CheckName("lanes", lane.name(), checks);
    checks.AtMost("lanes", lane.slots(), core::kLaneSlotsMax, "slots in a lane");
  }
}

void CheckLabels(const v1::AnnounceAgentRequest& request, wire::FieldChecks& checks) {
  checks.AtMost("labels", request.labels().size(), core::kLabelsMax, "entries");
  for (const auto& [key, value] : request.labels()) {
    if (key.empty()) checks.Refuse("labels", "has an entry without a key");
    checks.AtMost("labels", key.size(), core::kNameBytesMax, "bytes in a key");
    checks.AtMost("labels", value.size(), core::kNameBytesMax, "bytes in a value");
    wire::CheckName("labels", key, checks);
    wire::CheckName("labels", value, checks);
  }
}

}  // namespace

absl::StatusOr<core::AgentAnnounced> AnnouncementFrom(const v1::AnnounceAgentRequest& request) {
  wire::FieldChecks checks;
  core::AgentAnnounced announced = {
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
    checks.Refuse("name", "is not made of lower-case letters, digits and hyphens");
  }
  if (announced.instance_id.empty()) checks.Refuse("instance_id", "is required");
  if (!core::IsHostPort(request.address())) {
    checks.Refuse("address", "is not host:port, as in 10.0.0.7:7071 or [::1]:7071");
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

absl::StatusOr<std::string> WhyFrom(const v1::DrainAgentRequest& request) {
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
  if (has_more) response.set_next_page_token(wire::PageToken(response.agents().rbegin()->name()));
  return response;
}

}  // namespace callboard
