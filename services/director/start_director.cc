#include "services/director/start_director.h"

#include "callboard/v1/fleet.grpc.pb.h"
#include "libs/base/status_macros.h"
#include "libs/director/driver.h"
#include "services/director/director_options.h"
#include "services/director/queue_service.h"
#include "services/director/status_page.h"

namespace callboard {
namespace {

struct Parts {
  explicit Parts(const director::DriverOptions& options) : driver(options), queue(driver) {}

  director::DirectorDriver driver;
  QueueService queue;
  v1::FleetService::CallbackService fleet;
};

}  // namespace

absl::StatusOr<std::unique_ptr<server::Server>> StartDirector(
    const config::v1::DirectorConfig& config, server::ServerContext& context) {
  ASSIGN_OR_RETURN(const director::DriverOptions options, DriverOptionsFrom(config));
  auto parts = std::make_shared<Parts>(options);
  director::DirectorDriver& driver = parts->driver;
  server::Surface surface = {
      .services = {{v1::QueueService::service_full_name(), &parts->queue},
                   {v1::FleetService::service_full_name(), &parts->fleet}},
      .status =
          [&driver](server::Surface::StatusReply reply) {
            driver.GetQueueStatus([reply](const absl::StatusOr<core::QueueStatus>& status) {
              if (!status.ok()) return reply(status.status());
              reply(StatusPage(*status));
            });
          },
      .drain = [&driver] { driver.BeginDrain(); },
  };
  return server::Server::Start(context, std::move(surface), std::move(parts));
}

}  // namespace callboard
