#include "services/agent/start_agent.h"

#include "callboard/v1/agent.grpc.pb.h"
#include "services/agent/status_page.h"

namespace callboard {

absl::StatusOr<std::unique_ptr<server::Server>> StartAgent(const config::v1::AgentConfig& config,
                                                           server::ServerContext& context) {
  auto agent = std::make_shared<v1::AgentService::CallbackService>();
  server::Surface surface = {
      .services = {{v1::AgentService::service_full_name(), agent.get()}},
      .status = [&config](const server::Surface::StatusReply& reply) { reply(StatusPage(config)); },
      .drain = nullptr,
  };
  return server::Server::Start(context, std::move(surface), std::move(agent));
}

}  // namespace callboard
