#include "services/cli/dev.h"

#include <cstdio>
#include <filesystem>
#include <stop_token>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "callboard/config/v1/cli.pb.h"
#include "libs/base/check.h"
#include "libs/base/error.h"
#include "libs/base/files.h"
#include "libs/config/settings.h"
#include "libs/server/listen_address.h"
#include "libs/server/program.h"
#include "libs/server/server.h"
#include "libs/system/staged_file.h"
#include "libs/wire/time.h"
#include "services/agent/start_agent.h"
#include "services/director/start_director.h"
#include "services/scheduler/start_scheduler.h"

namespace callboard::cli {
namespace {

using config::v1::AgentConfig;
using config::v1::CliConfig;
using config::v1::DevConfig;
using config::v1::DirectorConfig;
using config::v1::SchedulerConfig;
using server::StartedServer;

constexpr char kExampleJobs[] =
#include "services/cli/example_jobs.inc"
    ;

constexpr int kServices = 4;
// Time for each service to complete the calls under way. The services stop one after the other:
// together with the default of telemetry.flush_timeout they stay below two seconds.
const absl::Duration kServiceGrace = server::kShutdownGrace / kServices;

// Returns the telemetry settings of one service. The services stop one after the other, so each
// gets an equal share of the wait for the last spans.
config::v1::TelemetryConfig ServiceTelemetry(config::v1::TelemetryConfig telemetry) {
  *telemetry.mutable_flush_timeout() =
      wire::ToProto(*wire::FromProto(telemetry.flush_timeout()) / kServices);
  return telemetry;
}

// Returns the settings of a service, all at their defaults.
template <class Config>
Config Defaults() {
  Config config;
  CHECK_OK(config::LoadSettings({.arguments = {}, .environment = {}}, config).status());
  return config;
}

DirectorConfig DirectorConfigFrom(const DevConfig& dev, const std::string& data_dir) {
  DirectorConfig config = Defaults<DirectorConfig>();
  config.set_data_dir(absl::StrCat(data_dir, "/director"));
  *config.mutable_grpc() = dev.grpc();
  *config.mutable_http() = dev.http();
  // With port 0 the scheduler's port is not known yet; then the director cannot reach it.
  config.mutable_scheduler()->set_address(dev.scheduler().grpc().listen());
  *config.mutable_queue() = dev.queue();
  *config.mutable_lease() = dev.lease();
  *config.mutable_retention() = dev.retention();
  *config.mutable_dashboard() = dev.dashboard();
  *config.mutable_telemetry() = ServiceTelemetry(dev.telemetry());
  return config;
}

// Writes example jobs to `scheduler.yaml` in the data folder unless the file exists. Returns its
// path.
absl::StatusOr<std::string> EnsureExampleJobs(const std::string& data_dir) {
  const std::string path = absl::StrCat(data_dir, "/scheduler.yaml");
  RETURN_IF_ERROR(base::MakePrivateFolder(data_dir));
  std::error_code error;
  if (std::filesystem::exists(path, error)) return path;
  ASSIGN_OR_RETURN(system::StagedFile file,
                   system::StagedFile::Create(path, system::StagedFile::Readers::kOwner));
  RETURN_IF_ERROR(file.Append(kExampleJobs));
  RETURN_IF_ERROR(std::move(file).Promote(std::stop_token()));
  return path;
}

SchedulerConfig SchedulerConfigFrom(const DevConfig& dev, const std::string& data_dir,
                                    const std::string& director) {
  SchedulerConfig config = Defaults<SchedulerConfig>();
  config.set_data_dir(absl::StrCat(data_dir, "/scheduler"));
  *config.mutable_grpc() = dev.scheduler().grpc();
  *config.mutable_http() = dev.scheduler().http();
  config.mutable_director()->set_address(director);
  config.set_jobs_file(dev.jobs_file());
  *config.mutable_telemetry() = ServiceTelemetry(dev.telemetry());
  return config;
}

AgentConfig AgentConfigFrom(const DevConfig& dev, const std::string& data_dir,
                            const std::string& director, const std::string& name) {
  AgentConfig config = Defaults<AgentConfig>();
  config.set_data_dir(absl::StrCat(data_dir, "/", name));
  config.mutable_grpc()->set_listen("127.0.0.1:0");
  config.mutable_http()->set_listen("127.0.0.1:0");
  config.mutable_director()->set_address(director);
  config.mutable_agent()->set_name(name);
  config.mutable_runner()->set_kind(config::v1::RunnerConfig::KIND_SHELL);
  config.mutable_runner()->set_allow_shell(true);
  // No drain: stopping the whole cluster must not wait for tasks.
  config.mutable_agent()->mutable_drain_timeout()->Clear();
  *config.mutable_telemetry() = ServiceTelemetry(dev.telemetry());
  return config;
}

// A service of the cluster. `config` precedes `started`, because the server refers to it.
template <class Config>
struct Service {
  std::string name;
  Config config;
  StartedServer started;

  absl::Status Start(const std::string& program, server::StartFunction<Config> start,
                     server::Termination& termination) {
    ASSIGN_OR_RETURN(started, server::StartServer(program, config, start, termination));
    return absl::OkStatus();
  }
  const server::Addresses& addresses() const { return started.server->addresses(); }
  std::string AddressLine() const {
    return absl::StrFormat("  %-10s grpc %-16s http://%s/status\n", name,
                           addresses().grpc.ToString(), addresses().http.ToString());
  }
};

// The four services.
class Cluster {
 public:
  absl::Status Start(const DevConfig& dev, const std::string& data_dir,
                     server::Termination& termination) {
    director_.config = DirectorConfigFrom(dev, data_dir);
    RETURN_IF_ERROR(director_.Start("callboard-director", StartDirector, termination));
    scheduler_.config = SchedulerConfigFrom(dev, data_dir, director_address());
    RETURN_IF_ERROR(scheduler_.Start("callboard-scheduler", StartScheduler, termination));
    for (Service<AgentConfig>& agent : agents_) {
      agent.config = AgentConfigFrom(dev, data_dir, director_address(), agent.name);
      RETURN_IF_ERROR(agent.Start("callboard-agent", StartAgent, termination));
    }
    return absl::OkStatus();
  }

  // Stops the scheduler first, so that it submits no more tasks, and the director last, because the
  // others call it.
  void Stop() {
    scheduler_.started.server->Stop(kServiceGrace);
    for (Service<AgentConfig>& agent : agents_) agent.started.server->Stop(kServiceGrace);
    director_.started.server->Stop(kServiceGrace);
  }

  // Returns the first failure of a service, or OK.
  absl::Status failure() const {
    absl::Status first = director_.started.context->failure();
    first.Update(scheduler_.started.context->failure());
    for (const Service<AgentConfig>& agent : agents_)
      first.Update(agent.started.context->failure());
    return first;
  }

  std::string director_address() const { return director_.addresses().grpc.ToString(); }

  // Returns the director's ports in the form of any server's port file, and the ports of the others
  // by name.
  std::string PortsJson() const {
    std::string json = server::PortsJson(director_.addresses());
    json.pop_back();
    absl::StrAppend(&json, ",\"scheduler\":", server::PortsJson(scheduler_.addresses()));
    for (const Service<AgentConfig>& agent : agents_) {
      absl::StrAppend(&json, ",\"", agent.name, "\":", server::PortsJson(agent.addresses()));
    }
    return json + "}";
  }

  std::string AddressLines() const {
    return absl::StrCat(director_.AddressLine(), scheduler_.AddressLine(), agents_[0].AddressLine(),
                        agents_[1].AddressLine());
  }

 private:
  Service<DirectorConfig> director_{.name = "director", .config = {}, .started = {}};
  Service<SchedulerConfig> scheduler_{.name = "scheduler", .config = {}, .started = {}};
  Service<AgentConfig> agents_[2] = {{.name = "agent-1", .config = {}, .started = {}},
                                     {.name = "agent-2", .config = {}, .started = {}}};
};

absl::Status CheckAddresses(const DevConfig& dev) {
  const std::pair<const char*, const std::string&> addresses[] = {
      {"grpc.listen", dev.grpc().listen()},
      {"http.listen", dev.http().listen()},
      {"scheduler.grpc.listen", dev.scheduler().grpc().listen()},
      {"scheduler.http.listen", dev.scheduler().http().listen()},
  };
  for (const auto& [setting, address] : addresses) {
    RETURN_IF_ERROR(
        server::ParseListenAddress(setting, address, server::Exposure::kNever).status());
  }
  return absl::OkStatus();
}

absl::Status Run(DevConfig dev, server::Termination& termination) {
  RETURN_IF_ERROR(CheckAddresses(dev));
  std::string data_dir = dev.data_dir();
  if (data_dir.empty()) {
    ASSIGN_OR_RETURN(data_dir, DefaultDataDir(config::ProcessEnvironment()));
  }
  if (dev.jobs_file().empty()) {
    ASSIGN_OR_RETURN(*dev.mutable_jobs_file(), EnsureExampleJobs(data_dir));
  }
  Cluster cluster;
  RETURN_IF_ERROR(cluster.Start(dev, data_dir, termination));
  RETURN_IF_ERROR(server::WritePortFile(dev.port_file(), cluster.PortsJson()));
  const std::string address = cluster.director_address();
  const bool is_default_address = address == Defaults<CliConfig>().director().address();
  std::printf(
      "Callboard is up, for this machine only.\n\n%s  %-10s %s\n  %-10s %s\n\n"
      "Try, in another terminal:\n  callboard queue-status%s\n\nCtrl-C stops it.\n",
      cluster.AddressLines().c_str(), "data", data_dir.c_str(), "jobs", dev.jobs_file().c_str(),
      is_default_address ? "" : absl::StrCat(" --director.address=", address).c_str());
  std::fflush(stdout);
  termination.WaitForSignal();
  cluster.Stop();
  return cluster.failure();
}

}  // namespace

absl::StatusOr<std::string> DefaultDataDir(const std::map<std::string, std::string>& environment) {
  const auto find = [&environment](const char* name) -> std::string {
    const auto found = environment.find(name);
    return found == environment.end() ? "" : found->second;
  };
  if (const std::string state = find("XDG_STATE_HOME"); !state.empty()) {
    return absl::StrCat(state, "/callboard");
  }
  if (const std::string home = find("HOME"); !home.empty()) {
    return absl::StrCat(home, "/.local/state/callboard");
  }
  return absl::InvalidArgumentError(
      "data_dir: neither XDG_STATE_HOME nor HOME is set; give --data_dir");
}

int RunDev(std::span<const char* const> arguments) {
  const config::Program program = {
      .name = "callboard dev",
      .summary = "runs a director, a scheduler and two agents in one process, for this machine.",
      .examples = {"callboard dev", "callboard dev --queue.max_size=5 --data_dir=./callboard",
                   "callboard dev --grpc.listen=127.0.0.1:0 --http.listen=127.0.0.1:0 "
                   "--scheduler.grpc.listen=127.0.0.1:0 --scheduler.http.listen=127.0.0.1:0 "
                   "--port_file=ports.json"},
  };
  return server::RunProgram<DevConfig>(arguments, program, Run);
}

}  // namespace callboard::cli
