#include "libs/server/run_program.h"

#include <sys/stat.h>

#include <cstdio>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "libs/adapters/otel/otel_telemetry.h"
#include "libs/base/error.h"
#include "libs/base/log.h"
#include "libs/base/private_folder.h"
#include "libs/base/status_macros.h"
#include "libs/base/version.h"
#include "libs/config/settings.h"
#include "libs/ports/event_store.h"
#include "libs/server/exit_code.h"
#include "libs/server/listen_address.h"
#include "libs/server/log_signals.h"
#include "libs/wire/time.h"

// Settings of jemalloc, which reads this name before main(): a thread of its own gives memory back
// that is not used any more. Without it that happens only while the program allocates, so that an
// idle server keeps what a crowd once made it take.
extern "C" {
extern const char* malloc_conf;
const char* malloc_conf = "background_thread:true";
}

namespace callboard::server {
namespace {

using config::v1::LogConfig;

base::LogOptions LogOptionsFrom(const LogConfig& config) {
  base::LogOptions options;
  switch (config.level()) {
    case LogConfig::LEVEL_DEBUG:
      options.level = base::LogLevel::kDebug;
      break;
    case LogConfig::LEVEL_WARNING:
      options.level = base::LogLevel::kWarning;
      break;
    case LogConfig::LEVEL_ERROR:
      options.level = base::LogLevel::kError;
      break;
    default:
      options.level = base::LogLevel::kInfo;
  }
  if (config.format() == LogConfig::FORMAT_JSON) options.format = base::LogFormat::kJson;
  return options;
}

ExitCode ExitCodeOf(const absl::Status& error) {
  const std::string reason = base::DetailsOf(error).reason;
  if (reason == ports::kStoreRefused) return ExitCode::kStoreRefused;
  if (reason == ports::kStoreLocked) return ExitCode::kStoreLocked;
  return absl::IsInvalidArgument(error) ? ExitCode::kBadSettings : ExitCode::kFailed;
}

int Fail(const std::string& program, const absl::Status& error, ExitCode code) {
  std::fprintf(stderr, "%s: %s\n", program.c_str(), std::string(error.message()).c_str());
  return static_cast<int>(code);
}

}  // namespace

namespace internal {

int RunProgramWith(std::span<const char* const> arguments, const config::Program& program,
                   google::protobuf::Message& config,
                   const std::function<const config::v1::LogConfig&()>& log,
                   const std::function<absl::Status(Termination&)>& body) {
  const absl::StatusOr<config::LoadedSettings> loaded = config::LoadSettings(
      {.arguments = arguments, .environment = config::ProcessEnvironment()}, config);
  if (!loaded.ok()) return Fail(program.name, loaded.status(), ExitCode::kBadSettings);
  switch (loaded->ask) {
    case config::Ask::kPrintConfig:
      std::fputs(config::PrintedConfig(config, loaded->origins).c_str(), stdout);
      return static_cast<int>(ExitCode::kDone);
    case config::Ask::kHelp:
      std::fputs(config::HelpText(program, *config.GetDescriptor()).c_str(), stdout);
      return static_cast<int>(ExitCode::kDone);
    case config::Ask::kVersion:
      std::printf("%s %s\n", program.name.c_str(), std::string(base::kVersion).c_str());
      return static_cast<int>(ExitCode::kDone);
    case config::Ask::kRun:
      break;
  }
  // Debian builds Abseil so that every lock, gRPC's too, is looked up in a graph of who holds what.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  // What servers write is for their own user, whatever the mode of the folder that it is in.
  umask(S_IRWXG | S_IRWXO);
  base::StartLogging(LogOptionsFrom(log()));
  // Before anything else that starts a thread.
  Termination termination;
  // Ends first: a log that nobody reads may stall it, and then a second signal still ends all.
  const LogSignals log_signals;
  const absl::Status status = body(termination);
  if (status.ok()) return static_cast<int>(ExitCode::kDone);
  return Fail(program.name, status, ExitCodeOf(status));
}

absl::StatusOr<std::unique_ptr<ServerContext>> ContextFrom(const CommonSettings& settings,
                                                           Termination& termination) {
  const Exposure exposure =
      settings.insecure_listen ? Exposure::kInsecureAllowed : Exposure::kLoopbackOnly;
  ServerOptions options{
      .name = settings.name, .grpc = {}, .http = {}, .port_file = settings.port_file};
  ASSIGN_OR_RETURN(options.grpc,
                   ParseListenAddress("grpc.listen", settings.grpc.listen(), exposure));
  ASSIGN_OR_RETURN(options.http,
                   ParseListenAddress("http.listen", settings.http.listen(), exposure));
  if (settings.insecure_listen) {
    // As an error, so that no log level hides it.
    base::LogError("server", "insecure_listen",
                   {{"warning", "whoever can reach these ports may run anything"},
                    {"grpc", options.grpc.ToString()},
                    {"http", options.http.ToString()}});
  }
  if (const absl::Status made = base::MakePrivateFolder(settings.data_dir); !made.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("data_dir: ", made.message()));
  }
  std::optional<double> ratio;
  if (settings.telemetry.has_sample_ratio()) ratio = settings.telemetry.sample_ratio();
  ASSIGN_OR_RETURN(std::unique_ptr<ports::Telemetry> telemetry,
                   adapters::StartTelemetry(
                       {.endpoint = settings.telemetry.otlp_endpoint(),
                        .service_name = settings.telemetry.service_name(),
                        .binary_name = settings.name,
                        .sample_ratio = ratio,
                        .flush_timeout = *wire::FromProto(settings.telemetry.flush_timeout())}));
  return std::make_unique<ServerContext>(std::move(options), std::move(telemetry),
                                         [&termination] { termination.Request(); });
}

}  // namespace internal

}  // namespace callboard::server
