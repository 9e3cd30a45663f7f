#include "callboard/config/v1/director.pb.h"
#include "callboard/v1/fleet.grpc.pb.h"
#include "libs/director/driver.h"
#include "libs/server/run_service.h"
#include "services/director/director_options.h"
#include "services/director/queue_service.h"
#include "services/director/status_page.h"

namespace callboard {
namespace {

const config::Program kProgram = {
    .name = "callboard-director",
    .summary = "owns the queue and hands its tasks to agents.",
    .examples = {"callboard-director",
                 "callboard-director --queue.max_size=200 --queue.policy=block",
                 "callboard-director --grpc.listen=127.0.0.1:0 --port_file=ports.json"},
};

absl::Status RunDirector(const config::v1::DirectorConfig& config, server::Service& service) {
  director::DirectorDriver driver(DriverOptionsFrom(config));
  QueueService queue(driver);
  v1::FleetService::CallbackService fleet;
  return service.Serve({
      .services = {{v1::QueueService::service_full_name(), &queue},
                   {v1::FleetService::service_full_name(), &fleet}},
      .status =
          [&driver](server::Surface::StatusReply reply) {
            driver.GetQueueStatus([reply](const absl::StatusOr<core::QueueStatus>& status) {
              if (!status.ok()) return reply(status.status());
              reply(StatusPage(*status));
            });
          },
      .drain = [&driver] { driver.BeginDrain(); },
  });
}

}  // namespace
}  // namespace callboard

int main(int argc, char** argv) {
  return callboard::server::RunService<callboard::config::v1::DirectorConfig>(
      argc, argv, callboard::kProgram, callboard::RunDirector);
}
