#include "services/director/start_director.h"

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/base/check.h"
#include "libs/base/error.h"
#include "libs/director/driver.h"
#include "libs/flow/flow.h"
#include "libs/flow/thread_pool.h"
#include "libs/link/grpc_agent_link.h"
#include "libs/server/flow_config.h"
#include "libs/server/server.h"
#include "libs/store/output_keeper.h"
#include "libs/store/rocksdb_store.h"
#include "libs/system/system.h"
#include "libs/telemetry/metrics.h"
#include "libs/wire/json.h"
#include "libs/wire/task.h"
#include "libs/wire/time.h"
#include "services/director/director_metrics.h"
#include "services/director/fleet_service.h"
#include "services/director/queue_service.h"

namespace callboard {
namespace {

using config::v1::QueueConfig;

core::QueuePolicy PolicyFrom(QueueConfig::Policy policy) {
  switch (policy) {
    case QueueConfig::POLICY_REJECT:
      return core::QueuePolicy::kReject;
    case QueueConfig::POLICY_BLOCK:
      return core::QueuePolicy::kBlock;
    case QueueConfig::POLICY_DROP_OLDEST:
      return core::QueuePolicy::kDropOldest;
    case QueueConfig::POLICY_DROP_LATEST:
      return core::QueuePolicy::kDropLatest;
    default:
      CHECK(false) << "queue.policy has a default and is parsed by name: " << policy;
      return core::QueuePolicy::kReject;
  }
}

// Clocks of two machines may drift apart by this much within a lease.
constexpr absl::Duration kClockDriftMax = absl::Seconds(5);

absl::Duration FromProto(const google::protobuf::Duration& proto) {
  return wire::FromProto(proto).value();
}

// A task may go to another agent only when the first one has killed it, by its own clock.
absl::Status CheckLease(const config::v1::LeaseConfig& lease) {
  const absl::Duration gone =
      FromProto(lease.self_fence()) + FromProto(lease.kill_grace()) + kClockDriftMax;
  if (FromProto(lease.redispatch_after()) >= gone) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "lease.redispatch_after is ", absl::FormatDuration(FromProto(lease.redispatch_after())),
      "; a task is gone from its agent only after lease.self_fence + lease.kill_grace + ",
      absl::FormatDuration(kClockDriftMax), ": set it to ", absl::FormatDuration(gone),
      " or more"));
}

// Longest wait at shutdown for the last record to reach the disk, and then again for agents to
// receive the announcement.
constexpr absl::Duration kShutdownTimeout = absl::Milliseconds(400);

// Returns a function that finds the tasks that the director no longer stores.
store::OutputKeeper::FindForgotten ForgottenTaskFinder(director::DirectorDriver& driver) {
  using Tasks = store::OutputKeeper::Tasks;
  return [&driver](const Tasks& tasks, const std::function<void(Tasks)>& reply) {
    driver.Post(director::MakeCommand(
        {.access = director::Command::Access::kRead},
        [tasks](director::DirectorEngine& engine, director::Moment) {
          Tasks forgotten;
          for (const core::QueueId& task : tasks) {
            if (absl::IsNotFound(engine.views().Summarize(task).status()))
              forgotten.push_back(task);
          }
          return forgotten;
        },
        // On an error nothing is reported as forgotten; the keeper asks again later.
        [reply](const absl::StatusOr<Tasks>& forgotten) { reply(forgotten.value_or(Tasks())); }));
  };
}

// The objects of a running director. They are destroyed from the last to the first, each before the
// objects that it refers to.
struct Components {
  // The link and the outputs have callbacks into the driver, which is destroyed before them: they
  // stop first. From then on messages of agents are dropped, and calls that the driver still
  // answers find no output.
  ~Components() {
    if (link.has_value()) link->Stop();
    if (outputs != nullptr) outputs->Stop();
  }

  std::unique_ptr<store::RocksDbStoreOpener> stores;
  std::optional<link::GrpcAgentLink> link;
  std::optional<flow::ThreadPool> pool;
  std::optional<flow::Flow> flow;
  std::optional<DirectorMetrics> metrics;
  std::optional<server::CallTracer> tracer;
  std::unique_ptr<store::OutputKeeper> outputs;
  std::unique_ptr<director::DirectorDriver> driver;
  std::optional<AgentEventReceiver> receiver;
  std::optional<QueueService> queue;
  std::optional<FleetService> fleet;
};

}  // namespace

absl::StatusOr<director::DriverOptions> DriverOptionsFrom(
    const config::v1::DirectorConfig& config) {
  RETURN_IF_ERROR(CheckLease(config.lease()));
  const config::v1::QueueConfig& queue = config.queue();
  const config::v1::LeaseConfig& lease = config.lease();
  return director::DriverOptions{
      .engine = {.queue = {.max_size = queue.max_size(),
                           .policy = PolicyFrom(queue.policy()),
                           .max_attempts = queue.max_attempts(),
                           .dispatch_timeout = FromProto(queue.dispatch_timeout()),
                           .max_waiters = queue.max_waiters(),
                           .max_waiting_bytes = queue.max_waiting_bytes(),
                           .scheduler_share = queue.scheduler_share(),
                           .allow_evict = queue.allow_evict()},
                 .lease = {.heartbeat = FromProto(lease.heartbeat()),
                           .self_fence = FromProto(lease.self_fence()),
                           .redispatch_after = FromProto(lease.redispatch_after()),
                           .kill_grace = FromProto(lease.kill_grace())},
                 .retention = {.age = FromProto(config.retention().age()),
                               .count = config.retention().count()}}};
}

std::string StatusPage(const core::QueueStatus& queue) {
  return server::RenderStatusPage({"statusable", "observable", "taskable"},
                                  {{"queue", wire::ToJson(wire::ToProto(queue))}});
}

absl::StatusOr<flow::FlowOptions> DirectorFlow(const config::v1::FlowConfig& config,
                                               const flow::Machine& machine,
                                               const director::DriverOptions& options) {
  const uint32_t reads_at_once = server::LimitsFromConfig(config, machine).io.concurrency;
  return server::FlowOptionsFromConfig(config, machine,
                                       director::DriverLanes(reads_at_once, options));
}

absl::StatusOr<std::unique_ptr<server::Server>> StartDirector(
    const config::v1::DirectorConfig& config, server::ServerContext& context) {
  ASSIGN_OR_RETURN(const director::DriverOptions options, DriverOptionsFrom(config));
  ASSIGN_OR_RETURN(const flow::FlowOptions flow_options,
                   DirectorFlow(config.flow(), system::ThisMachine(), options));
  auto components = std::make_shared<Components>();
  ASSIGN_OR_RETURN(components->stores,
                   store::RocksDbStoreOpener::Lock({.data_dir = config.data_dir()}));
  components->pool.emplace(flow::TotalConcurrency(flow_options));
  components->flow.emplace(flow_options, *components->pool, context.clock());
  components->link.emplace(link::LinkOptions{.lease = options.engine.lease}, context.clock());
  const bool is_traced = context.telemetry().enabled();
  components->metrics.emplace(
      QueueMetrics::Registries{context.metrics(), is_traced ? &context.exemplars() : nullptr},
      context.readiness(), is_traced ? &context.telemetry() : nullptr);
  components->tracer.emplace(context.tracing());
  ASSIGN_OR_RETURN(components->driver, director::DirectorDriver::Open(
                                           options,
                                           {context.clock(), context.random(), *components->stores,
                                            *components->link, &*components->metrics},
                                           *components->flow));
  director::DirectorDriver& driver = *components->driver;
  ASSIGN_OR_RETURN(
      components->outputs,
      store::OutputKeeper::Start({.folder = std::filesystem::path(config.data_dir()) / "logs"},
                                 context.clock(), ForgottenTaskFinder(driver)));
  components->queue.emplace(driver, *components->metrics, *components->outputs, context.clock(),
                            *components->tracer);
  components->fleet.emplace(driver, *components->link);
  components->receiver.emplace(driver, *components->link, *components->outputs);
  for (const std::string& address : config.fleet().agents()) {
    components->link->Dial(address, link::GrpcAgentLink::DialPolicy::kAlways);
  }
  components->link->Start(*components->receiver);
  server::ServerDefinition definition = {
      .services = {{v1::QueueService::service_full_name(), &*components->queue},
                   {v1::FleetService::service_full_name(), &*components->fleet}},
      .status =
          [&driver](server::ServerDefinition::StatusCallback reply) {
            driver.Post(director::MakeCommand(
                {.access = director::Command::Access::kRead},
                [](director::DirectorEngine& engine, director::Moment now) {
                  return engine.views().Status(now);
                },
                [reply](const absl::StatusOr<core::QueueStatus>& status) {
                  if (!status.ok()) return reply(status.status());
                  reply(StatusPage(*status));
                }));
          },
      .drain = [&driver] { driver.BeginDrain(); },
      .finish =
          [&driver, &link = *components->link] {
            driver.GoAway(kShutdownTimeout);
            link.Shutdown(kShutdownTimeout);
          },
      .metrics =
          [&flow = *components->flow, &metrics = *components->metrics, &link = *components->link,
           &clock = context.clock()] {
            std::vector<prometheus::MetricFamily> families = server::CollectFlowMetrics(flow);
            families.push_back(telemetry::MakeGauge(
                "callboard_session_unknown_items",
                "Items from agents that were ignored because this version does not know them.",
                static_cast<double>(link.unknown_items())));
            for (auto& family : metrics.Gauges(clock.WallNow())) families.push_back(family);
            return families;
          },
  };
  return server::Server::Start(context, std::move(definition), std::move(components));
}

}  // namespace callboard
