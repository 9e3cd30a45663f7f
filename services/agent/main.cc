#include "libs/runner/launcher.h"
#include "libs/server/program.h"
#include "services/agent/start_agent.h"

int main(int argc, char** argv) {
  if (const auto code = callboard::runner::MaybeRunLauncher(argc, argv)) return *code;
  const callboard::config::Program program = {
      .name = "callboard-agent",
      .summary = "runs tasks that the director gives it, one per slot.",
      .examples = {"callboard-agent --agent.name=agent-1 --runner.argv=my-agent,--model={model}",
                   "callboard-agent --grpc.listen=127.0.0.1:0 --director.address=127.0.0.1:7070"},
  };
  return callboard::server::RunServer(argc, argv, program, &callboard::StartAgent);
}
