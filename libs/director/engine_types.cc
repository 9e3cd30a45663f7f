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

absl::Status AgentNotFound(const std::string& name) {
  return base::WithReason(
      absl::NotFoundError(absl::StrCat("no agent named ", base::EscapeForError(name),
                                       " is known; `callboard agents` lists them")),
      "AGENT_NOT_FOUND", {{"name", name}});
}

}  // namespace callboard::director
