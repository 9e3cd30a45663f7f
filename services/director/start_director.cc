#include "services/director/start_director.h"

#include <memory>
#include <optional>
#include <vector>

#include "callboard/v1/fleet.grpc.pb.h"
#include "libs/base/status_macros.h"
#include "libs/director/driver.h"
#include "libs/ports/agent_link.h"
#include "libs/ports/event_store.h"
#include "services/director/director_options.h"
#include "services/director/queue_service.h"
#include "services/director/status_page.h"

namespace callboard {
namespace {

// TODO(#5): a store on disk. Until then nothing can be submitted, so that nothing of worth is lost.
class NoStore final : public ports::EventStore {
 public:
  absl::Status Commit(absl::Span<const core::Record>) override { return absl::OkStatus(); }
  absl::Status Load(const std::function<void(const core::Record&)>&) const override {
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<core::TaskRecord>> TaskRecords(core::QueueId) const override {
    return std::vector<core::TaskRecord>();
  }
  absl::StatusOr<core::SpecPtr> TaskSpec(core::QueueId) const override { return core::SpecPtr(); }
  absl::StatusOr<ports::Checkpoint> CreateCheckpoint(const std::string&) const override {
    return absl::UnimplementedError("");
  }
};
class NoStores final : public ports::EventStoreOpener {
 public:
  absl::StatusOr<std::unique_ptr<ports::EventStore>> Open(ports::StoreAccess) override {
    return std::make_unique<NoStore>();
  }
};

// TODO(#7): Sessions with agents.
class NoAgents final : public ports::AgentLink {
 public:
  void Say(core::SessionId, core::DirectorItem) override {}
  void Redial(uint64_t) override {}
};

struct Parts {
  NoStores stores;
  NoAgents agents;
  std::unique_ptr<director::DirectorDriver> driver;
  std::optional<QueueService> queue;
  v1::FleetService::CallbackService fleet;
};

}  // namespace

absl::StatusOr<std::unique_ptr<server::Server>> StartDirector(
    const config::v1::DirectorConfig& config, server::ServerContext& context) {
  ASSIGN_OR_RETURN(const director::DriverOptions options, DriverOptionsFrom(config));
  auto parts = std::make_shared<Parts>();
  ASSIGN_OR_RETURN(parts->driver,
                   director::DirectorDriver::Open(
                       options, {context.clock(), context.random(), parts->stores, parts->agents}));
  director::DirectorDriver& driver = *parts->driver;
  parts->queue.emplace(driver);
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
