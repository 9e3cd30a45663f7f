// Watches between callboard.v1 and the director.
#ifndef CALLBOARD_SERVICES_DIRECTOR_WATCH_LIST_H_
#define CALLBOARD_SERVICES_DIRECTOR_WATCH_LIST_H_

#include "absl/status/statusor.h"
#include "callboard/v1/queue.pb.h"
#include "libs/director/task_watch.h"

namespace callboard {

// What a request asks for. INVALID_ARGUMENT names each wrong field.
absl::StatusOr<director::WatchQuery> WatchQueryFrom(const v1::WatchTasksRequest& request);

// What is shown, as its users see it: tasks as in a list.
v1::WatchTasksResponse ToProto(const director::Watched& watched);

}  // namespace callboard

#endif  // CALLBOARD_SERVICES_DIRECTOR_WATCH_LIST_H_
