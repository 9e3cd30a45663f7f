#include "callboard/config/v1/scheduler.pb.h"
#include "callboard/v1/scheduler.grpc.pb.h"
#include "libs/server/run_service.h"
#include "libs/server/view_page.h"

namespace callboard {
namespace {

const config::Program kProgram = {
    .name = "callboard-scheduler",
    .summary = "feeds the queue from cron jobs.",
    .examples =
        {"callboard-scheduler --jobs_file=scheduler.yaml",
         "callboard-scheduler --jobs_file=scheduler.yaml --director.address=127.0.0.1:7070"},
};

absl::Status RunScheduler(const config::v1::SchedulerConfig&, server::Service& service) {
  v1::SchedulerService::CallbackService scheduler;
  return service.Serve({
      .services = {{v1::SchedulerService::service_full_name(), &scheduler}},
      .status =
          [](const server::Surface::StatusReply& reply) {
            reply(server::ViewPage({"statusable", "observable"}, "jobs", "[]"));
          },
      .drain = nullptr,
  });
}

}  // namespace
}  // namespace callboard

int main(int argc, char** argv) {
  return callboard::server::RunService<callboard::config::v1::SchedulerConfig>(
      argc, argv, callboard::kProgram, callboard::RunScheduler);
}
