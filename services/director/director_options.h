#ifndef CALLBOARD_SERVICES_DIRECTOR_DIRECTOR_OPTIONS_H_
#define CALLBOARD_SERVICES_DIRECTOR_DIRECTOR_OPTIONS_H_

#include "absl/status/statusor.h"
#include "callboard/config/v1/director.pb.h"
#include "libs/director/driver.h"

namespace callboard {

// The settings as the driver wants them. INVALID_ARGUMENT when they contradict each other.
absl::StatusOr<director::DriverOptions> DriverOptionsFrom(const config::v1::DirectorConfig& config);

}  // namespace callboard

#endif  // CALLBOARD_SERVICES_DIRECTOR_DIRECTOR_OPTIONS_H_
