// Starts a director: its options, its lanes, its /status page and its ports.

#ifndef CALLBOARD_SERVICES_DIRECTOR_START_DIRECTOR_H_
#define CALLBOARD_SERVICES_DIRECTOR_START_DIRECTOR_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "callboard/config/v1/director.pb.h"
#include "libs/core/queue.h"
#include "libs/director/driver.h"
#include "libs/flow/limits.h"
#include "libs/server/server.h"

namespace callboard {

// Converts the settings to the driver's options. Returns INVALID_ARGUMENT when settings contradict
// each other.
absl::StatusOr<director::DriverOptions> DriverOptionsFrom(const config::v1::DirectorConfig& config);

// Returns the body of the director's /status page.
std::string StatusPage(const core::QueueStatus& queue);

// Returns the director's flow lanes. Concurrent reads are limited to the I/O concurrency that the
// machine and the settings allow.
absl::StatusOr<flow::FlowOptions> DirectorFlow(const config::v1::FlowConfig& config,
                                               const flow::Machine& machine,
                                               const director::DriverOptions& options);

// Builds a director and opens its ports. `config` and `context` outlive the returned server.
absl::StatusOr<std::unique_ptr<server::Server>> StartDirector(
    const config::v1::DirectorConfig& config, server::ServerContext& context);

}  // namespace callboard

#endif  // CALLBOARD_SERVICES_DIRECTOR_START_DIRECTOR_H_
