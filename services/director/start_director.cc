#include "services/director/start_director.h"

#include <memory>
#include <optional>

#include "callboard/v1/fleet.grpc.pb.h"
#include "libs/adapters/rocksdb_store/rocksdb_store.h"
#include "libs/base/status_macros.h"
#include "libs/director/driver.h"
#include "libs/ports/agent_link.h"
#include "services/director/director_options.h"
#include "services/director/director_watch.h"
#include "services/director/queue_service.h"
#include "services/director/status_page.h"

namespace callboard {
namespace {

// TODO(#7): Sessions with agents.
class NoAgents final : public ports::AgentLink {
 public:
  void Say(core::SessionId, core::DirectorItem) override {}
  void Redial(uint64_t) override {}
};

struct Parts {
  std::unique_ptr<adapters::RocksDbStores> stores;
  NoAgents agents;
  std::optional<DirectorWatch> watch;
  std::unique_ptr<director::DirectorDriver> driver;
  std::optional<QueueService> queue;
  v1::FleetService::CallbackService fleet;
};

}  // namespace

absl::StatusOr<std::unique_ptr<server::Server>> StartDirector(
    const config::v1::DirectorConfig& config, server::ServerContext& context) {
  ASSIGN_OR_RETURN(const director::DriverOptions options, DriverOptionsFrom(config));
  auto parts = std::make_shared<Parts>();
  ASSIGN_OR_RETURN(parts->stores, adapters::RocksDbStores::Lock({.data_dir = config.data_dir()}));
  parts->watch.emplace(context.metrics(), context.readiness());
  ASSIGN_OR_RETURN(parts->driver, director::DirectorDriver::Open(
                                      options, {context.clock(), context.random(), *parts->stores,
                                                parts->agents, &*parts->watch}));
  director::DirectorDriver& driver = *parts->driver;
  parts->queue.emplace(driver, context.clock());
  server::Surface surface = {
      .services = {{v1::QueueService::service_full_name(), &*parts->queue},
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
