#include "libs/server/program.h"
#include "services/director/start_director.h"

int main(int argc, char** argv) {
  const callboard::config::Program program = {
      .name = "callboard-director",
      .summary = "owns the queue and dispatches its tasks to agents.",
      .examples = {"callboard-director",
                   "callboard-director --queue.max_size=200 --queue.policy=block",
                   "callboard-director --grpc.listen=127.0.0.1:0 --port_file=ports.json"},
  };
  return callboard::server::RunServer(argc, argv, program, &callboard::StartDirector);
}
