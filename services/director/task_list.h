#ifndef CALLBOARD_SERVICES_DIRECTOR_TASK_LIST_H_
#define CALLBOARD_SERVICES_DIRECTOR_TASK_LIST_H_

#include "absl/status/statusor.h"
#include "callboard/v1/queue.pb.h"
#include "libs/director/driver.h"

namespace callboard {

// What a request asks for. INVALID_ARGUMENT names each wrong field.
absl::StatusOr<director::ListQuery> ListQueryFrom(const v1::ListTasksRequest& request);

// A page as its users see it; it ends early where it would become too large for a message.
v1::ListTasksResponse ListResponse(const director::TaskPage& page);

}  // namespace callboard

#endif  // CALLBOARD_SERVICES_DIRECTOR_TASK_LIST_H_
