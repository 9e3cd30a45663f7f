#include "services/agent/agent_service.h"

#include "libs/base/version.h"
#include "libs/server/call.h"
#include "libs/wire/session.h"
#include "services/agent/session_reactor.h"

namespace callboard {

grpc::ServerBidiReactor<v1::SessionRequest, v1::SessionResponse>* AgentService::Session(
    grpc::CallbackServerContext*) {
  return new SessionReactor(driver_);
}

grpc::ServerUnaryReactor* AgentService::GetAgentStatus(grpc::CallbackServerContext* context,
                                                       const v1::GetAgentStatusRequest*,
                                                       v1::AgentStatus* response) {
  return server::Unary(context, response, [this](const server::UnaryCall<v1::AgentStatus>& call) {
    driver_.GetView([call](const agent::AgentView& view) { call.Finish(ToProto(view)); });
  });
}

v1::AgentStatus ToProto(const agent::AgentView& view) {
  v1::AgentStatus status;
  status.set_name(view.name);
  status.set_instance_id(view.instance_id);
  status.set_version(std::string(base::kVersion));
  wire::WriteLanes(view.lanes, status);
  status.mutable_labels()->insert(view.labels.begin(), view.labels.end());
  status.set_connected(view.connected);
  status.set_director_epoch(view.director_epoch);
  status.set_draining(view.draining);
  for (const std::string& task_id : view.running_task_ids) status.add_running_task_ids(task_id);
  status.set_unacknowledged_results(static_cast<uint32_t>(view.unacknowledged_results));
  return status;
}

}  // namespace callboard
