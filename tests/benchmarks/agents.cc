// Agents that share a process, as in `callboard dev`; each has its own ports, journal and Session.
// Accepts the flags of callboard-agent; `--agent.name` lists their names, separated by commas.
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/base/error.h"
#include "libs/server/program.h"
#include "services/agent/start_agent.h"

namespace callboard {
namespace {

absl::Status RunAgents(const config::v1::AgentConfig& config, server::Termination& termination) {
  // Agents refer to their settings.
  std::deque<config::v1::AgentConfig> configs;
  std::vector<server::StartedServer> agents;
  for (const std::string& name :
       std::vector<std::string>(absl::StrSplit(config.agent().name(), ','))) {
    config::v1::AgentConfig& own = configs.emplace_back(config);
    own.mutable_agent()->set_name(name);
    own.set_data_dir(absl::StrCat(config.data_dir(), "/", name));
    ASSIGN_OR_RETURN(agents.emplace_back(),
                     server::StartServer("callboard-agent", own, StartAgent, termination));
  }
  termination.WaitForSignal();
  for (const server::StartedServer& agent : agents) agent.server->Stop(absl::ZeroDuration());
  return absl::OkStatus();
}

}  // namespace
}  // namespace callboard

int main(int argc, char** argv) {
  return callboard::server::RunProgram<callboard::config::v1::AgentConfig>(
      std::span<const char* const>(argv, argc).subspan(1),
      {.name = "agents", .summary = "runs tasks on several agents.", .examples = {}},
      callboard::RunAgents);
}
