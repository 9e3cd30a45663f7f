#include "services/director/start_director.h"

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "libs/adapters/grpc_link/grpc_agent_link.h"
#include "libs/adapters/output_files/output_keeper.h"
#include "libs/adapters/rocksdb_store/rocksdb_store.h"
#include "libs/adapters/system_machine/system_machine.h"
#include "libs/base/status_macros.h"
#include "libs/director/driver.h"
#include "libs/flow/flow.h"
#include "libs/flow/thread_pool.h"
#include "libs/server/flow_settings.h"
#include "libs/server/gauge.h"
#include "services/director/agent_gate.h"
#include "services/director/director_options.h"
#include "services/director/director_watch.h"
#include "services/director/fleet_service.h"
#include "services/director/queue_service.h"
#include "services/director/status_page.h"
#include "services/director/task_spans.h"

namespace callboard {
namespace {

// What the disk has for the last record, and then agents to hear of it.
constexpr absl::Duration kGoodbyePatience = absl::Milliseconds(400);

// Which tasks the director knows no more.
adapters::OutputKeeper::FindForgotten ForgottenBy(director::DirectorDriver& driver) {
  using Tasks = adapters::OutputKeeper::Tasks;
  return [&driver](const Tasks& tasks, const std::function<void(Tasks)>& reply) {
    driver.Ask<Tasks>(
        director::Command::Need::kRead,
        [tasks](director::DirectorEngine& engine, director::Moment) -> absl::StatusOr<Tasks> {
          Tasks forgotten;
          for (const core::QueueId& task : tasks) {
            if (absl::IsNotFound(engine.Look(task).status())) forgotten.push_back(task);
          }
          return forgotten;
        },
        // One that cannot answer now is asked again later.
        [reply](const absl::StatusOr<Tasks>& forgotten) { reply(forgotten.value_or(Tasks())); });
  };
}

struct Parts {
  // Before the driver ends: what agents say then is heard by nobody, and whom the driver still
  // answers finds no output any more.
  ~Parts() {
    if (link.has_value()) link->Stop();
    if (outputs != nullptr) outputs->Stop();
  }

  std::unique_ptr<adapters::RocksDbStores> stores;
  std::optional<adapters::GrpcAgentLink> link;
  std::optional<flow::ThreadPool> pool;
  std::optional<flow::Flow> flow;
  std::optional<DirectorWatch> watch;
  std::optional<TaskSpans> spans;
  std::optional<server::CallTracer> tracer;
  std::unique_ptr<adapters::OutputKeeper> outputs;
  std::unique_ptr<director::DirectorDriver> driver;
  std::optional<AgentGate> gate;
  std::optional<QueueService> queue;
  std::optional<FleetService> fleet;
};

}  // namespace

absl::StatusOr<flow::FlowOptions> DirectorFlow(const config::v1::FlowConfig& config,
                                               const flow::Machine& machine,
                                               const director::DriverOptions& options) {
  const uint32_t reads_at_once = server::LimitsFrom(config, machine).io.concurrency;
  return server::FlowOptionsFrom(config, machine, director::DriverLanes(reads_at_once, options));
}

absl::StatusOr<std::unique_ptr<server::Server>> StartDirector(
    const config::v1::DirectorConfig& config, server::ServerContext& context) {
  ASSIGN_OR_RETURN(const director::DriverOptions options, DriverOptionsFrom(config));
  ASSIGN_OR_RETURN(const flow::FlowOptions flow_options,
                   DirectorFlow(config.flow(), adapters::ThisMachine(), options));
  auto parts = std::make_shared<Parts>();
  ASSIGN_OR_RETURN(parts->stores, adapters::RocksDbStores::Lock({.data_dir = config.data_dir()}));
  parts->pool.emplace(flow::ThreadsFor(flow_options));
  parts->flow.emplace(flow_options, *parts->pool, context.clock());
  parts->link.emplace(adapters::LinkOptions{.lease = options.engine.lease}, context.clock());
  const bool is_traced = context.telemetry().is_on();
  parts->watch.emplace(
      QueueMetrics::Registries{context.metrics(), is_traced ? &context.exemplars() : nullptr},
      context.readiness());
  director::Observer* observer = &*parts->watch;
  if (is_traced) {
    observer = &parts->spans.emplace(*parts->watch, context.telemetry());
  }
  parts->tracer.emplace(context.tracing());
  ASSIGN_OR_RETURN(
      parts->driver,
      director::DirectorDriver::Open(
          options, {context.clock(), context.random(), *parts->stores, *parts->link, observer},
          *parts->flow));
  director::DirectorDriver& driver = *parts->driver;
  ASSIGN_OR_RETURN(
      parts->outputs,
      adapters::OutputKeeper::Start({.folder = std::filesystem::path(config.data_dir()) / "logs"},
                                    context.clock(), ForgottenBy(driver)));
  parts->queue.emplace(driver, *observer, *parts->outputs, context.clock(), *parts->tracer);
  parts->fleet.emplace(driver,
                       [&link = *parts->link](const std::string& name, const std::string& address) {
                         link.Dial(address, adapters::GrpcAgentLink::Known::kWhileAnnounced, name);
                       });
  parts->gate.emplace(driver, *parts->link, *parts->outputs);
  for (const std::string& address : config.fleet().agents()) {
    parts->link->Dial(address, adapters::GrpcAgentLink::Known::kForEver);
  }
  parts->link->Start(*parts->gate);
  server::Surface surface = {
      .services = {{v1::QueueService::service_full_name(), &*parts->queue},
                   {v1::FleetService::service_full_name(), &*parts->fleet}},
      .status =
          [&driver](server::Surface::StatusReply reply) {
            driver.GetQueueStatus([reply](const absl::StatusOr<core::QueueStatus>& status) {
              if (!status.ok()) return reply(status.status());
              reply(StatusPage(*status));
            });
          },
      .drain = [&driver] { driver.BeginDrain(); },
      .finish =
          [&driver, &link = *parts->link] {
            driver.GoAway(kGoodbyePatience);
            link.Leave(kGoodbyePatience);
          },
      .metrics =
          [&flow = *parts->flow, &watch = *parts->watch, &link = *parts->link,
           &clock = context.clock()] {
            std::vector<prometheus::MetricFamily> families = server::FlowMetrics(flow);
            families.push_back(server::Gauge(
                "callboard_session_unknown_items",
                "Items from agents that were ignored because this version does not know them.",
                static_cast<double>(link.unknown_items())));
            for (auto& family : watch.Gauges(clock.WallNow())) families.push_back(family);
            return families;
          },
  };
  return server::Server::Start(context, std::move(surface), std::move(parts));
}

}  // namespace callboard
