#include "callboard/config/v1/agent.pb.h"
#include "callboard/v1/agent.grpc.pb.h"
#include "libs/server/run_service.h"
#include "services/agent/status_page.h"

namespace callboard {
namespace {

const config::Program kProgram = {
    .name = "callboard-agent",
    .summary = "runs tasks that the director gives it, one per slot.",
    .examples = {"callboard-agent --agent.name=agent-1 --runner.argv=my-agent,--model={model}",
                 "callboard-agent --grpc.listen=127.0.0.1:0 --director.address=127.0.0.1:7070"},
};

absl::Status RunAgent(const config::v1::AgentConfig& config, server::Service& service) {
  v1::AgentService::CallbackService agent;
  return service.Serve({
      .services = {{v1::AgentService::service_full_name(), &agent}},
      .status = [&config](const server::Surface::StatusReply& reply) { reply(StatusPage(config)); },
      .drain = nullptr,
  });
}

}  // namespace
}  // namespace callboard

int main(int argc, char** argv) {
  return callboard::server::RunService<callboard::config::v1::AgentConfig>(
      argc, argv, callboard::kProgram, callboard::RunAgent);
}
