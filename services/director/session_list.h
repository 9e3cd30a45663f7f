#ifndef CALLBOARD_SERVICES_DIRECTOR_SESSION_LIST_H_
#define CALLBOARD_SERVICES_DIRECTOR_SESSION_LIST_H_

#include "absl/status/statusor.h"
#include "callboard/v1/queue.pb.h"
#include "libs/director/engine.h"

namespace callboard {

// What a request asks for. INVALID_ARGUMENT names each wrong field.
absl::StatusOr<director::SessionQuery> SessionQueryFrom(const v1::ListSessionsRequest& request);

// A page as its users see it. Names are short: a thousand fit into a message.
v1::ListSessionsResponse ListResponse(const director::SessionPage& page);

}  // namespace callboard

#endif  // CALLBOARD_SERVICES_DIRECTOR_SESSION_LIST_H_
