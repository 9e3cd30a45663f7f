// What the handlers of QueueService have in common.
#ifndef CALLBOARD_SERVICES_DIRECTOR_QUEUE_CALLS_H_
#define CALLBOARD_SERVICES_DIRECTOR_QUEUE_CALLS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "callboard/v1/queue.pb.h"
#include "libs/base/status_macros.h"
#include "libs/base/text.h"
#include "libs/core/ids.h"
#include "libs/director/observer.h"
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

// What is kept of names that nobody has checked yet.
inline constexpr size_t kOriginBytesMax = 128;

// Who sends a submit that may be refused.
inline director::SubmitOrigin OriginOf(const v1::SubmitTaskRequest& request, absl::Time arrived,
                                       const core::SpanContext& trace) {
  return {.source = std::string(base::Utf8Cut(request.source(), kOriginBytesMax)),
          .source_job = std::string(base::Utf8Cut(request.source_job(), kOriginBytesMax)),
          .identity = server::kIdentity,
          .arrived = arrived,
          .trace = trace};
}

// A submit came to nothing: it was refused, or its caller left while it waited for a place.
inline void TellOfRefusal(const absl::Status& why, const director::SubmitOrigin& origin,
                          absl::Time now, director::Observer& observer) {
  if (!absl::IsCancelled(why)) return observer.OnReject(why, origin);
  observer.OnCancel({.phase = director::CancelPhase::kWaiting,
                     .who = origin.identity,
                     .at = now,
                     .origin = origin});
}

}  // namespace callboard

#endif  // CALLBOARD_SERVICES_DIRECTOR_QUEUE_CALLS_H_
