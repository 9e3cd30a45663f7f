#include "libs/server/port_file.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/adapters/staged_file/staged_file.h"
#include "libs/base/status_macros.h"

namespace callboard::server {

using adapters::StagedFile;

std::string PortsJson(const Addresses& addresses) {
  return absl::StrCat("{\"grpc\":", addresses.grpc.port, ",\"http\":", addresses.http.port, "}");
}

absl::Status WritePortFile(const std::string& path, const std::string& json) {
  if (path.empty()) return absl::OkStatus();
  const auto write = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(StagedFile file, StagedFile::Create(path, StagedFile::Readers::kEverybody));
    RETURN_IF_ERROR(file.Append(absl::StrCat(json, "\n")));
    return std::move(file).Promote({});
  };
  const absl::Status written = write();
  if (written.ok()) return written;
  return absl::InvalidArgumentError(absl::StrCat("port_file: ", written.message()));
}

}  // namespace callboard::server
