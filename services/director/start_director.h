#ifndef CALLBOARD_SERVICES_DIRECTOR_START_DIRECTOR_H_
#define CALLBOARD_SERVICES_DIRECTOR_START_DIRECTOR_H_

#include <memory>

#include "absl/status/statusor.h"
#include "callboard/config/v1/director.pb.h"
#include "libs/director/driver.h"
#include "libs/flow/flow_options.h"
#include "libs/flow/limits.h"
#include "libs/server/server.h"

namespace callboard {

// The director's lanes; as many reads at once as the machine and the settings allow I/O.
absl::StatusOr<flow::FlowOptions> DirectorFlow(const config::v1::FlowConfig& config,
                                               const flow::Machine& machine,
                                               const director::DriverOptions& options);

// Wires a director together and opens its ports. `config` and `context` outlive it.
absl::StatusOr<std::unique_ptr<server::Server>> StartDirector(
    const config::v1::DirectorConfig& config, server::ServerContext& context);

}  // namespace callboard

#endif  // CALLBOARD_SERVICES_DIRECTOR_START_DIRECTOR_H_
