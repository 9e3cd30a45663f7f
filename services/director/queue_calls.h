// What the handlers of QueueService have in common.
#ifndef CALLBOARD_SERVICES_DIRECTOR_QUEUE_CALLS_H_
#define CALLBOARD_SERVICES_DIRECTOR_QUEUE_CALLS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/base/status_macros.h"
#include "libs/core/ids.h"
#include "libs/server/call.h"
#include "libs/wire/field_checks.h"
#include "libs/wire/field_values.h"

namespace callboard {

// For calls that wait for a place, or for the disk.
inline constexpr server::UnaryOptions kPatient = {.deadline_max = absl::Minutes(10)};

// The span of a submit, also of one that came in a stream.
inline constexpr absl::string_view kSubmitMethod = "callboard.v1.QueueService/SubmitTask";

// The field `queue_id` of a request.
inline absl::StatusOr<core::QueueId> QueueIdFrom(const std::string& text) {
  wire::FieldChecks checks;
  const core::QueueId id = wire::ReadRequiredQueueId(text, checks);
  RETURN_IF_ERROR(checks.status());
  return id;
}

}  // namespace callboard

#endif  // CALLBOARD_SERVICES_DIRECTOR_QUEUE_CALLS_H_
