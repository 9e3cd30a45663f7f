#ifndef CALLBOARD_LIBS_ADAPTERS_JOBS_FILE_TIME_ZONE_H_
#define CALLBOARD_LIBS_ADAPTERS_JOBS_FILE_TIME_ZONE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace callboard::adapters {

// The rules of a zone of the IANA database; UTC when `name` is empty, and never this machine's own.
// INVALID_ARGUMENT for anything else.
absl::StatusOr<absl::TimeZone> LoadZone(const std::string& name);

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_JOBS_FILE_TIME_ZONE_H_
