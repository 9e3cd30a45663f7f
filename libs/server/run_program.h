// What the main of every program that serves does, once.
#ifndef CALLBOARD_LIBS_SERVER_RUN_PROGRAM_H_
#define CALLBOARD_LIBS_SERVER_RUN_PROGRAM_H_

#include <google/protobuf/message.h>

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "callboard/config/v1/server.pb.h"
#include "libs/base/status_macros.h"
#include "libs/config/settings_text.h"
#include "libs/server/server.h"
#include "libs/server/termination.h"

namespace callboard::server {

// What calls under way get to end by themselves. With the default of telemetry.flush_timeout a
// server is gone within the two seconds that it promises.
inline constexpr absl::Duration kShutdownGrace = absl::Seconds(1);

namespace internal {

int RunProgramWith(std::span<const char* const> arguments, const config::Program& program,
                   google::protobuf::Message& config,
                   const std::function<const config::v1::LogConfig&()>& log,
                   const std::function<absl::Status(Termination&)>& body);

// The settings that every server has.
struct CommonSettings {
  std::string name;
  const config::v1::GrpcConfig& grpc;
  const config::v1::HttpConfig& http;
  bool insecure_listen;
  const std::string& data_dir;
  const std::string& port_file;
  const config::v1::TelemetryConfig& telemetry;
};

absl::StatusOr<std::unique_ptr<ServerContext>> ContextFrom(const CommonSettings& settings,
                                                           Termination& termination);

}  // namespace internal

// Reads the settings, starts logging, takes over the signals, and runs `body`. Returns the exit
// code: see ExitCode. `arguments` are without the program's name; `Config` is a settings message.
template <class Config>
int RunProgram(std::span<const char* const> arguments, const config::Program& program,
               const std::function<absl::Status(const Config&, Termination&)>& body) {
  Config config;
  return internal::RunProgramWith(
      arguments, program, config,
      [&config]() -> const config::v1::LogConfig& { return config.log(); },
      [&](Termination& termination) { return body(config, termination); });
}

// A server, and the context it lives in.
struct StartedServer {
  std::unique_ptr<ServerContext> context;
  std::unique_ptr<Server> server;
};

// Starts a server on what it is made of: `config` and a context. Both outlive it.
template <class Config>
using StartFunction = absl::StatusOr<std::unique_ptr<Server>> (*)(const Config& config,
                                                                  ServerContext& context);

// Makes the server's data folder and its context, and starts it. `config` and `termination` outlive
// it.
template <class Config>
absl::StatusOr<StartedServer> StartServer(const std::string& name, const Config& config,
                                          StartFunction<Config> start, Termination& termination) {
  ASSIGN_OR_RETURN(std::unique_ptr<ServerContext> context,
                   internal::ContextFrom({.name = name,
                                          .grpc = config.grpc(),
                                          .http = config.http(),
                                          .insecure_listen = config.insecure_listen(),
                                          .data_dir = config.data_dir(),
                                          .port_file = config.port_file(),
                                          .telemetry = config.telemetry()},
                                         termination));
  ASSIGN_OR_RETURN(std::unique_ptr<Server> server, start(config, *context));
  return StartedServer{std::move(context), std::move(server)};
}

// The main of a program that is one server: serves until SIGTERM or SIGINT, or until it fails.
template <class Config>
int RunServer(int argc, char** argv, const config::Program& program, StartFunction<Config> start) {
  return RunProgram<Config>(std::span<const char* const>(argv, argc).subspan(1), program,
                            [&](const Config& config, Termination& termination) -> absl::Status {
                              ASSIGN_OR_RETURN(
                                  const StartedServer started,
                                  StartServer(program.name, config, start, termination));
                              const std::function<void()>& reload = started.server->reload();
                              // A SIGHUP never stops a server, also where nothing is read anew.
                              termination.OnHangup(reload ? reload : std::function<void()>([] {}));
                              termination.WaitForSignal();
                              termination.OnHangup(nullptr);
                              started.server->Stop(kShutdownGrace);
                              return started.context->failure();
                            });
}

}  // namespace callboard::server

#endif  // CALLBOARD_LIBS_SERVER_RUN_PROGRAM_H_
