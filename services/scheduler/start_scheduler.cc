#include "services/scheduler/start_scheduler.h"

#include <optional>
#include <utility>
#include <vector>

#include "libs/adapters/grpc_director_link/grpc_director_link.h"
#include "libs/adapters/jobs_file/jobs_file.h"
#include "libs/adapters/rocksdb_ledger/rocksdb_ledger.h"
#include "libs/base/log.h"
#include "libs/base/status_macros.h"
#include "libs/scheduler/driver.h"
#include "libs/scheduler/traced_link.h"
#include "services/scheduler/scheduler_service.h"
#include "services/scheduler/scheduler_watch.h"

namespace callboard {
namespace {

struct Parts {
  std::unique_ptr<adapters::RocksDbLedgers> ledgers;
  std::optional<SchedulerWatch> watch;
  // Ends after the link, whose calls are answered through it.
  std::optional<scheduler::TracedLink> traced_link;
  std::optional<adapters::GrpcDirectorLink> link;
  std::unique_ptr<scheduler::SchedulerDriver> driver;
  // Speaks to the driver.
  std::unique_ptr<adapters::JobsFile> file;
  std::optional<SchedulerService> service;
};

}  // namespace

absl::StatusOr<std::unique_ptr<server::Server>> StartScheduler(
    const config::v1::SchedulerConfig& config, server::ServerContext& context) {
  auto parts = std::make_shared<Parts>();
  ASSIGN_OR_RETURN(parts->ledgers, adapters::RocksDbLedgers::Lock(config.data_dir()));
  parts->watch.emplace(context.metrics(), context.readiness());
  parts->link.emplace(config.director().address(), context.tracing());
  parts->traced_link.emplace(*parts->link, config.director().address(), context.tracing());
  ASSIGN_OR_RETURN(parts->driver,
                   scheduler::SchedulerDriver::Open(
                       {context.clock(), *parts->ledgers, *parts->traced_link, &*parts->watch}));
  scheduler::SchedulerDriver& driver = *parts->driver;
  if (config.jobs_file().empty()) {
    base::LogWarning("jobs_file", "none", {{"next", "nothing is scheduled; set jobs_file"}});
    driver.SetJobs({});
  } else {
    const auto set_jobs = [&driver, &watch = *parts->watch](std::vector<core::Job> jobs) {
      watch.OnJobs(jobs);
      driver.SetJobs(std::move(jobs));
    };
    ASSIGN_OR_RETURN(parts->file,
                     adapters::JobsFile::Open(config.jobs_file(), context.clock(), set_jobs));
  }
  SchedulerService& service =
      parts->service.emplace(driver, parts->file.get(), context.clock(), context.random());
  server::Surface surface = {
      .services = {{v1::SchedulerService::service_full_name(), &service}},
      .status = [&service](server::Surface::StatusReply reply) { service.GetStatusPage(reply); },
      .drain = nullptr,
      .metrics =
          [&watch = *parts->watch, file = parts->file.get(), &clock = context.clock()] {
            const bool is_refused = file != nullptr && !file->state().error.empty();
            return watch.Gauges(clock.WallNow(), is_refused);
          },
  };
  if (parts->file != nullptr) surface.reload = [&file = *parts->file] { file.Reload(); };
  return server::Server::Start(context, std::move(surface), std::move(parts));
}

}  // namespace callboard
