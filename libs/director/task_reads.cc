#include "libs/director/task_reads.h"

#include <vector>

#include "libs/base/status_macros.h"
#include "libs/core/life.h"

namespace callboard::director {

absl::StatusOr<core::Task> TaskAt(const ports::EventStore& store, const Glance& glance) {
  ASSIGN_OR_RETURN(const std::vector<core::TaskRecord> records, store.TaskRecords(glance.queue_id));
  if (records.empty()) return TaskNotFound(glance.queue_id);
  core::Task task = TaskAsOf(records);
  // Unless it has moved since: then it has the place of its last record, as it has that one's
  // state.
  if (task.state == glance.state && task.dispatch == glance.dispatch) {
    task.position = glance.position;
  }
  task.redriven_as = glance.redriven_as;
  return task;
}

core::Task TaskAsOf(absl::Span<const core::TaskRecord> records) {
  core::Task task = core::TaskFrom(records);
  if (task.state == core::TaskState::kPending) task.position = records.back().event.place_after;
  return task;
}

}  // namespace callboard::director
