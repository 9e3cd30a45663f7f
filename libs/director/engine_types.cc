#include "libs/director/engine_types.h"

#include "absl/strings/str_cat.h"
#include "libs/base/error.h"
#include "libs/base/text.h"

namespace callboard::director {

absl::Status TaskNotFound(core::QueueId id) {
  return base::WithReason(
      absl::NotFoundError(absl::StrCat("no task ", ToString(id),
                                       " is known; ended tasks are forgotten after a while")),
      "TASK_NOT_FOUND", {{"queue_id", ToString(id)}});
}

absl::Status TaskNotFound(const std::string& request_id) {
  return base::WithReason(absl::NotFoundError(absl::StrCat(
                              "no task has the request_id ", base::EscapeForError(request_id),
                              "; it was not submitted, or it ended more than a day ago")),
                          "TASK_NOT_FOUND", {{"request_id", request_id}});
}

absl::Status AgentNotFound(const std::string& name) {
  return base::WithReason(
      absl::NotFoundError(absl::StrCat("no agent named ", base::EscapeForError(name),
                                       " is known; `callboard agents` lists them")),
      "AGENT_NOT_FOUND", {{"name", name}});
}

}  // namespace callboard::director
