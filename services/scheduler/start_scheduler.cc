#include "services/scheduler/start_scheduler.h"

#include <optional>
#include <utility>
#include <vector>

#include "libs/base/error.h"
#include "libs/base/log.h"
#include "libs/config/jobs_file.h"
#include "libs/link/grpc_director_link.h"
#include "libs/scheduler/director_link.h"
#include "libs/scheduler/driver.h"
#include "libs/store/rocksdb_ledger.h"
#include "services/scheduler/scheduler_metrics.h"
#include "services/scheduler/scheduler_service.h"

namespace callboard {
namespace {

struct Components {
  std::unique_ptr<store::RocksDbLedgerOpener> ledgers;
  std::optional<SchedulerMetrics> metrics;
  // Declared before the link, so that it is destroyed after it: the link's calls are answered
  // through it.
  std::optional<scheduler::TracedLink> traced_link;
  std::optional<link::GrpcDirectorLink> link;
  std::unique_ptr<scheduler::SchedulerDriver> driver;
  // Calls the driver.
  std::unique_ptr<config::JobsFile> file;
  std::optional<SchedulerService> service;
};

}  // namespace

absl::StatusOr<std::unique_ptr<server::Server>> StartScheduler(
    const config::v1::SchedulerConfig& config, server::ServerContext& context) {
  auto components = std::make_shared<Components>();
  ASSIGN_OR_RETURN(components->ledgers, store::RocksDbLedgerOpener::Lock(config.data_dir()));
  components->metrics.emplace(context.metrics(), context.readiness());
  components->link.emplace(config.director().address(), context.tracing());
  components->traced_link.emplace(*components->link, config.director().address(),
                                  context.tracing());
  ASSIGN_OR_RETURN(components->driver, scheduler::SchedulerDriver::Open(
                                           {context.clock(), *components->ledgers,
                                            *components->traced_link, &*components->metrics}));
  scheduler::SchedulerDriver& driver = *components->driver;
  if (config.jobs_file().empty()) {
    base::LogWarning("jobs_file", "none", {{"next", "nothing is scheduled; set jobs_file"}});
    driver.SetJobs({});
  } else {
    const auto set_jobs = [&driver, &metrics = *components->metrics](std::vector<core::Job> jobs) {
      metrics.OnJobs(jobs);
      driver.SetJobs(std::move(jobs));
    };
    ASSIGN_OR_RETURN(components->file,
                     config::JobsFile::Open(config.jobs_file(), context.clock(), set_jobs));
  }
  SchedulerService& service = components->service.emplace(driver, components->file.get(),
                                                          context.clock(), context.random());
  server::ServerDefinition definition = {
      .services = {{v1::SchedulerService::service_full_name(), &service}},
      .status =
          [&service](server::ServerDefinition::StatusCallback reply) {
            service.GetStatusPage(reply);
          },
      .drain = nullptr,
      .metrics =
          [&metrics = *components->metrics, file = components->file.get(),
           &clock = context.clock()] {
            const bool is_refused = file != nullptr && !file->state().error.empty();
            return metrics.Gauges(clock.WallNow(), is_refused);
          },
  };
  if (components->file != nullptr)
    definition.reload = [&file = *components->file] { file.Reload(); };
  return server::Server::Start(context, std::move(definition), std::move(components));
}

}  // namespace callboard
