#include "libs/server/program.h"
#include "services/scheduler/start_scheduler.h"

int main(int argc, char** argv) {
  const callboard::config::Program program = {
      .name = "callboard-scheduler",
      .summary = "feeds the queue from cron jobs.",
      .examples =
          {"callboard-scheduler --jobs_file=scheduler.yaml",
           "callboard-scheduler --jobs_file=scheduler.yaml --director.address=127.0.0.1:7070"},
  };
  return callboard::server::RunServer(argc, argv, program, &callboard::StartScheduler);
}
