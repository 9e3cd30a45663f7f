#ifndef CALLBOARD_SERVICES_DIRECTOR_EVENT_LIST_H_
#define CALLBOARD_SERVICES_DIRECTOR_EVENT_LIST_H_

#include "absl/status/statusor.h"
#include "callboard/v1/queue.pb.h"
#include "libs/director/driver.h"

namespace callboard {

// What a request asks for. INVALID_ARGUMENT names each wrong field.
absl::StatusOr<director::EventQuery> EventQueryFrom(const v1::ListTaskEventsRequest& request);

// A page as its users see it; it ends early where it would become too large for a message.
v1::ListTaskEventsResponse ListResponse(const director::EventPage& page);

}  // namespace callboard

#endif  // CALLBOARD_SERVICES_DIRECTOR_EVENT_LIST_H_
