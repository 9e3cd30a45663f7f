#include "libs/server/run_service.h"

#include <cstdio>
#include <span>

#include "absl/strings/str_cat.h"
#include "libs/base/log.h"
#include "libs/base/status_macros.h"
#include "libs/base/version.h"
#include "libs/config/settings.h"
#include "libs/server/exit_code.h"
#include "libs/server/listen_address.h"
#include "libs/server/termination.h"

namespace callboard::server::internal {
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

absl::StatusOr<ServiceOptions> ServiceOptionsFrom(const std::string& name,
                                                  const CommonSettings& settings) {
  const Exposure exposure =
      settings.insecure_listen ? Exposure::kInsecureAllowed : Exposure::kLoopbackOnly;
  ServiceOptions options{.name = name, .grpc = {}, .http = {}, .port_file = settings.port_file};
  ASSIGN_OR_RETURN(options.grpc,
                   ParseListenAddress("grpc.listen", settings.grpc.listen(), exposure));
  ASSIGN_OR_RETURN(options.http,
                   ParseListenAddress("http.listen", settings.http.listen(), exposure));
  return options;
}

int Fail(const std::string& program, const absl::Status& error, ExitCode code) {
  std::fprintf(stderr, "%s: %s\n", program.c_str(), std::string(error.message()).c_str());
  return static_cast<int>(code);
}

}  // namespace

int RunServiceWith(int argc, char** argv, const config::Program& program,
                   google::protobuf::Message& config, const std::function<CommonSettings()>& common,
                   const std::function<absl::Status(Service&)>& body) {
  const absl::StatusOr<config::LoadedSettings> loaded =
      config::LoadSettings({.arguments = std::span<const char* const>(argv + 1, argc - 1),
                            .environment = config::ProcessEnvironment()},
                           config);
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
  const CommonSettings settings = common();
  const absl::StatusOr<ServiceOptions> options = ServiceOptionsFrom(program.name, settings);
  if (!options.ok()) return Fail(program.name, options.status(), ExitCode::kBadSettings);

  // Before anything that starts a thread.
  Termination termination;
  base::StartLogging(LogOptionsFrom(settings.log));
  if (settings.insecure_listen) {
    // As an error, so that no log level hides it.
    base::LogError("server", "insecure_listen",
                   {{"warning", "whoever can reach these ports may run anything"},
                    {"grpc", options->grpc.ToString()},
                    {"http", options->http.ToString()}});
  }
  Service service(*options, termination);
  const absl::Status status = body(service);
  if (status.ok()) return static_cast<int>(ExitCode::kDone);
  return Fail(program.name, status,
              absl::IsInvalidArgument(status) ? ExitCode::kBadSettings : ExitCode::kFailed);
}

}  // namespace callboard::server::internal
