#include "services/agent/start_agent.h"

#include <unistd.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "callboard/v1/agent.grpc.pb.h"
#include "libs/adapters/file_journal/file_journal.h"
#include "libs/adapters/grpc_link/announcer.h"
#include "libs/agent/driver.h"
#include "libs/agent/traced_runner.h"
#include "libs/base/log.h"
#include "libs/base/status_macros.h"
#include "libs/wire/time.h"
#include "services/agent/agent_runner.h"
#include "services/agent/agent_service.h"
#include "services/agent/agent_watch.h"
#include "services/agent/status_page.h"

namespace callboard {
namespace {

// A journal that ends its agent when it cannot be written.
class VitalJournal final : public agent::Journal {
 public:
  VitalJournal(std::unique_ptr<agent::Journal> journal, server::ServerContext& context)
      : journal_(std::move(journal)), context_(context) {}

  absl::Status Write(absl::Span<const agent::JournalRecord> records) override {
    absl::Status written = journal_->Write(records);
    if (!written.ok()) context_.Fail(written);
    return written;
  }

 private:
  const std::unique_ptr<agent::Journal> journal_;
  server::ServerContext& context_;
};

// What runs that are killed have to end, with supervisors that do not answer, and a director that
// is there to acknowledge it.
constexpr absl::Duration kKilledRunsTimeout = absl::Seconds(5);

struct Parts {
  std::optional<VitalJournal> journal;
  std::optional<AgentWatch> watch;
  std::unique_ptr<agent::AgentDriver> driver;
  std::optional<server::CallTracer> tracer;
  std::optional<AgentService> service;
  // Ends first: nobody is to be told of an agent that goes.
  std::optional<adapters::Announcer> announcer;
};

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "agent";
}

// An agent that knows no command is there to be looked at, and has no slot for tasks.
std::map<std::string, uint32_t> LanesFrom(const config::v1::AgentConfig& config) {
  if (HasCommand(config)) return {config.lanes().begin(), config.lanes().end()};
  base::LogWarning("agent", "no_command",
                   {{"next",
                     "it takes no tasks; set runner.argv, or runner.kind: shell with "
                     "runner.allow_shell: true"}});
  return {};
}

agent::EngineOptions EngineOptionsFrom(const config::v1::AgentConfig& config,
                                       ports::Random& random) {
  return {.name = config.agent().name().empty() ? HostName() : config.agent().name(),
          .instance_id = ports::NewName(random),
          .labels = {config.agent().labels().begin(), config.agent().labels().end()},
          .lanes = LanesFrom(config),
          .allow_direct = config.agent().allow_direct()};
}

ports::MakeRunner Traced(const ports::MakeRunner& make, const std::string& name,
                         server::ServerContext& context) {
  if (!context.telemetry().is_on()) return make;
  return [make, name, &context](ports::RunWatcher& watcher) {
    return agent::TracedRunner::Create(name, context.tracing(), make, watcher);
  };
}

}  // namespace

absl::StatusOr<std::unique_ptr<server::Server>> StartAgent(const config::v1::AgentConfig& config,
                                                           server::ServerContext& context) {
  auto parts = std::make_shared<Parts>();
  ASSIGN_OR_RETURN(adapters::FileJournal::Opened opened,
                   adapters::FileJournal::Open(absl::StrCat(config.data_dir(), "/journal")));
  parts->journal.emplace(std::move(opened.journal), context);
  const AgentWatch& watch = parts->watch.emplace(context.metrics());
  const agent::EngineOptions options = EngineOptionsFrom(config, context.random());
  ASSIGN_OR_RETURN(parts->driver,
                   agent::AgentDriver::Start(
                       options, opened.journaled,
                       {context.clock(), context.random(), *parts->journal, &*parts->watch},
                       Traced(RunnerFrom(config, context.clock()), options.name, context)));
  agent::AgentDriver& driver = *parts->driver;
  adapters::Announcer& announcer = parts->announcer.emplace(config.director().address());
  parts->tracer.emplace(context.tracing());
  parts->service.emplace(driver, context.clock(), *parts->tracer,
                         [&announcer] { announcer.Hurry(); });
  const absl::Duration drain_timeout = *wire::FromProto(config.agent().drain_timeout());
  server::Surface surface = {
      .services = {{v1::AgentService::service_full_name(), &*parts->service}},
      .status =
          [&driver](server::Surface::StatusReply reply) {
            driver.GetView([reply](const absl::StatusOr<agent::AgentView>& view) {
              if (!view.ok()) return reply(view.status());
              reply(StatusPage(*view));
            });
          },
      .drain = [&driver] { driver.BeginDrain(); },
      .finish =
          [&driver, drain_timeout] {
            if (driver.WaitUntilIdle(drain_timeout)) return;
            base::LogWarning("agent", "drain_timeout",
                             {{"next", "what still runs is killed and reported as lost"}});
            driver.KillRuns(kKilledRunsTimeout);
          },
      .metrics = [&watch] { return watch.Gauges(); },
      // A Session lasts as long as both of its ends.
      .connection_age_max = absl::InfiniteDuration(),
  };
  ASSIGN_OR_RETURN(std::unique_ptr<server::Server> server,
                   server::Server::Start(context, std::move(surface), parts));
  const std::string& advertised = config.agent().advertise();
  const std::string address = advertised.empty() ? server->addresses().grpc.ToString() : advertised;
  // Before the director hears where it is.
  driver.SetUrl(absl::StrCat("grpc://", address));
  announcer.Announce({.name = options.name,
                      .address = address,
                      .instance_id = options.instance_id,
                      .labels = options.labels,
                      .lanes = options.lanes});
  return server;
}

}  // namespace callboard
