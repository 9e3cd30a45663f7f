#ifndef CALLBOARD_LIBS_SERVER_PORT_FILE_H_
#define CALLBOARD_LIBS_SERVER_PORT_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "libs/server/listen_address.h"

namespace callboard::server {

// Where a server listens.
struct Addresses {
  ListenAddress grpc;
  ListenAddress http;
};

// {"grpc":7070,"http":8080}
std::string PortsJson(const Addresses& addresses);

// Writes `json` to the file at `path`; whoever sees the file sees all of it. Does nothing when
// `path` is empty. INVALID_ARGUMENT when it cannot be written.
absl::Status WritePortFile(const std::string& path, const std::string& json);

}  // namespace callboard::server

#endif  // CALLBOARD_LIBS_SERVER_PORT_FILE_H_
