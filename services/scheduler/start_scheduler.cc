#include "services/scheduler/start_scheduler.h"

#include "callboard/v1/scheduler.grpc.pb.h"
#include "libs/server/view_page.h"

namespace callboard {

absl::StatusOr<std::unique_ptr<server::Server>> StartScheduler(const config::v1::SchedulerConfig&,
                                                               server::ServerContext& context) {
  auto scheduler = std::make_shared<v1::SchedulerService::CallbackService>();
  server::Surface surface = {
      .services = {{v1::SchedulerService::service_full_name(), scheduler.get()}},
      .status =
          [](const server::Surface::StatusReply& reply) {
            reply(server::ViewPage({"statusable", "observable"}, "jobs", "[]"));
          },
      .drain = nullptr,
  };
  return server::Server::Start(context, std::move(surface), std::move(scheduler));
}

}  // namespace callboard
