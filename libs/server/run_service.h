// What every server's main does, once.
#ifndef CALLBOARD_LIBS_SERVER_RUN_SERVICE_H_
#define CALLBOARD_LIBS_SERVER_RUN_SERVICE_H_

#include <google/protobuf/message.h>

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "callboard/config/v1/server.pb.h"
#include "libs/config/settings_text.h"
#include "libs/server/service.h"

namespace callboard::server {

namespace internal {

// The settings that every server has.
struct CommonSettings {
  const config::v1::GrpcConfig& grpc;
  const config::v1::HttpConfig& http;
  const config::v1::LogConfig& log;
  bool insecure_listen;
  const std::string& port_file;
};

int RunServiceWith(int argc, char** argv, const config::Program& program,
                   google::protobuf::Message& config, const std::function<CommonSettings()>& common,
                   const std::function<absl::Status(Service&)>& body);

}  // namespace internal

// Reads the settings, starts logging, takes over the signals, and runs `body`, which builds what
// the binary is made of and ends in Service::Serve(). Returns the exit code: see ExitCode.
//
// `Config` is the binary's settings message.
template <class Config>
int RunService(int argc, char** argv, const config::Program& program,
               const std::function<absl::Status(const Config&, Service&)>& body) {
  Config config;
  return internal::RunServiceWith(
      argc, argv, program, config,
      [&config] {
        return internal::CommonSettings{.grpc = config.grpc(),
                                        .http = config.http(),
                                        .log = config.log(),
                                        .insecure_listen = config.insecure_listen(),
                                        .port_file = config.port_file()};
      },
      [&](Service& service) { return body(config, service); });
}

}  // namespace callboard::server

#endif  // CALLBOARD_LIBS_SERVER_RUN_SERVICE_H_
