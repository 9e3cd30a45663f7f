#include "libs/server/port_file.h"

#include <cstdio>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace callboard::server {

std::string PortsJson(const Addresses& addresses) {
  return absl::StrCat("{\"grpc\":", addresses.grpc.port, ",\"http\":", addresses.http.port, "}");
}

absl::Status WritePortFile(const std::string& path, const std::string& json) {
  if (path.empty()) return absl::OkStatus();
  const std::string temporary = path + ".new";
  std::ofstream file(temporary, std::ios::trunc);
  file << json << "\n";
  file.close();
  if (!file || std::rename(temporary.c_str(), path.c_str()) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("port_file: cannot write '", path, "'"));
  }
  return absl::OkStatus();
}

}  // namespace callboard::server
