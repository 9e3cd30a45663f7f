#include "services/agent/start_agent.h"

#include <unistd.h>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "callboard/v1/agent.grpc.pb.h"
#include "libs/agent/driver.h"
#include "libs/agent/traced_runner.h"
#include "libs/base/error.h"
#include "libs/base/log.h"
#include "libs/config/settings.h"
#include "libs/link/announcer.h"
#include "libs/runner/noop_runner.h"
#include "libs/runner/subprocess_runner.h"
#include "libs/server/server.h"
#include "libs/store/file_journal.h"
#include "libs/wire/json.h"
#include "libs/wire/time.h"
#include "services/agent/agent_metrics.h"
#include "services/agent/agent_service.h"

namespace callboard {
namespace {

using config::v1::RunnerConfig;
using runner::SubprocessRunner;
using runner::SubprocessRunnerOptions;
using RunnerPtr = std::unique_ptr<ports::TaskRunner>;

SubprocessRunnerOptions MakeRunnerOptions(const config::v1::AgentConfig& config) {
  const RunnerConfig& runner = config.runner();
  const bool is_shell = runner.kind() == RunnerConfig::KIND_SHELL;
  return {.kind = is_shell ? SubprocessRunnerOptions::Kind::kShell
                           : SubprocessRunnerOptions::Kind::kExec,
          .argv = {runner.argv().begin(), runner.argv().end()},
          .allow_shell = runner.allow_shell(),
          .environment = config::ProcessEnvironment(),
          .env_allow = {runner.env_allow().begin(), runner.env_allow().end()},
          .data_dir = std::filesystem::absolute(config.data_dir())};
}

// Returns whether the settings define how to run tasks. The runner `exec` needs a command.
bool HasCommand(const config::v1::AgentConfig& config) {
  return config.runner().kind() != RunnerConfig::KIND_EXEC || !config.runner().argv().empty();
}

// Returns a factory for the runner that the settings select; a no-op runner if they define no
// command. `clock` outlives the runner.
ports::TaskRunnerFactory MakeRunnerFactory(const config::v1::AgentConfig& config,
                                           const ports::Clock& clock) {
  if (config.runner().kind() == RunnerConfig::KIND_NOOP || !HasCommand(config)) {
    return [](ports::RunObserver& observer) -> absl::StatusOr<RunnerPtr> {
      return std::make_unique<runner::NoopRunner>(observer);
    };
  }
  return [options = MakeRunnerOptions(config), &clock](ports::RunObserver& observer) {
    return absl::StatusOr<RunnerPtr>(SubprocessRunner::Create(options, clock, observer));
  };
}

// A journal that stops the agent if a write fails.
class FatalJournal final : public agent::Journal {
 public:
  FatalJournal(std::unique_ptr<agent::Journal> journal, server::ServerContext& context)
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

// How long to wait, after killing the remaining runs, until they have ended (supervisors may not
// answer) and the director has acknowledged their results.
constexpr absl::Duration kKilledRunsTimeout = absl::Seconds(5);

struct Components {
  std::optional<FatalJournal> journal;
  std::optional<AgentMetrics> metrics;
  std::unique_ptr<agent::AgentDriver> driver;
  std::optional<server::CallTracer> tracer;
  std::optional<AgentService> service;
  // Destroyed first, so that an agent that is stopping is not announced.
  std::optional<link::Announcer> announcer;
};

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "agent";
}

// An agent without a command runs, so that it can be inspected, but has no slots.
std::map<std::string, uint32_t> ConfiguredLanes(const config::v1::AgentConfig& config) {
  if (HasCommand(config)) return {config.lanes().begin(), config.lanes().end()};
  base::LogWarning("agent", "no_command",
                   {{"next",
                     "the agent takes no tasks; set runner.argv, or runner.kind: shell with "
                     "runner.allow_shell: true"}});
  return {};
}

agent::EngineOptions MakeEngineOptions(const config::v1::AgentConfig& config,
                                       ports::Random& random) {
  return {.name = config.agent().name().empty() ? HostName() : config.agent().name(),
          .instance_id = ports::NewName(random),
          .labels = {config.agent().labels().begin(), config.agent().labels().end()},
          .lanes = ConfiguredLanes(config),
          .allow_direct = config.agent().allow_direct()};
}

ports::TaskRunnerFactory WithTracing(const ports::TaskRunnerFactory& make, const std::string& name,
                                     server::ServerContext& context) {
  if (!context.telemetry().enabled()) return make;
  return [make, name, &context](ports::RunObserver& observer) {
    return agent::TracedRunner::Create(name, context.tracing(), make, observer);
  };
}

}  // namespace

std::string StatusPage(const agent::AgentSnapshot& snapshot) {
  return server::RenderStatusPage({"statusable", "observable", "taskable"},
                                  {{"agent", wire::ToJson(ToProto(snapshot))}});
}

absl::StatusOr<std::unique_ptr<server::Server>> StartAgent(const config::v1::AgentConfig& config,
                                                           server::ServerContext& context) {
  auto components = std::make_shared<Components>();
  ASSIGN_OR_RETURN(store::FileJournal::OpenResult opened,
                   store::FileJournal::Open(absl::StrCat(config.data_dir(), "/journal")));
  components->journal.emplace(std::move(opened.journal), context);
  const AgentMetrics& metrics = components->metrics.emplace(context.metrics());
  const agent::EngineOptions options = MakeEngineOptions(config, context.random());
  ASSIGN_OR_RETURN(
      components->driver,
      agent::AgentDriver::Start(
          options, opened.state,
          {context.clock(), context.random(), *components->journal, &*components->metrics},
          WithTracing(MakeRunnerFactory(config, context.clock()), options.name, context)));
  agent::AgentDriver& driver = *components->driver;
  link::Announcer& announcer = components->announcer.emplace(config.director().address());
  components->tracer.emplace(context.tracing());
  components->service.emplace(driver, context.clock(), *components->tracer,
                              [&announcer] { announcer.AnnounceSoon(); });
  const absl::Duration drain_timeout = *wire::FromProto(config.agent().drain_timeout());
  server::ServerDefinition definition = {
      .services = {{v1::AgentService::service_full_name(), &*components->service}},
      .status =
          [&driver](server::ServerDefinition::StatusCallback reply) {
            driver.GetSnapshot([reply](const absl::StatusOr<agent::AgentSnapshot>& snapshot) {
              if (!snapshot.ok()) return reply(snapshot.status());
              reply(StatusPage(*snapshot));
            });
          },
      .drain = [&driver] { driver.BeginDrain(); },
      .finish =
          [&driver, drain_timeout] {
            if (driver.WaitUntilIdle(drain_timeout)) return;
            base::LogWarning("agent", "drain_timeout",
                             {{"next", "the remaining runs are killed and reported as lost"}});
            driver.KillRuns(kKilledRunsTimeout);
          },
      .metrics = [&metrics] { return metrics.Gauges(); },
      // A Session has no time limit.
      .connection_age_max = absl::InfiniteDuration(),
  };
  ASSIGN_OR_RETURN(std::unique_ptr<server::Server> server,
                   server::Server::Start(context, std::move(definition), components));
  const std::string& advertised = config.agent().advertise();
  const std::string address = advertised.empty() ? server->addresses().grpc.ToString() : advertised;
  // Before the agent is announced to the director.
  driver.SetUrl(absl::StrCat("grpc://", address));
  announcer.Start({.name = options.name,
                   .address = address,
                   .instance_id = options.instance_id,
                   .labels = options.labels,
                   .lanes = options.lanes});
  return server;
}

}  // namespace callboard
