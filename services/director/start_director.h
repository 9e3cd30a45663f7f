#ifndef CALLBOARD_SERVICES_DIRECTOR_START_DIRECTOR_H_
#define CALLBOARD_SERVICES_DIRECTOR_START_DIRECTOR_H_

#include <memory>

#include "absl/status/statusor.h"
#include "callboard/config/v1/director.pb.h"
#include "libs/server/server.h"

namespace callboard {

// Wires a director together and opens its ports. `config` and `context` outlive it.
absl::StatusOr<std::unique_ptr<server::Server>> StartDirector(
    const config::v1::DirectorConfig& config, server::ServerContext& context);

}  // namespace callboard

#endif  // CALLBOARD_SERVICES_DIRECTOR_START_DIRECTOR_H_
