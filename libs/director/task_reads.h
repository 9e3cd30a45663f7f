// Tasks as their users see them, from what the store has of them.
#ifndef CALLBOARD_LIBS_DIRECTOR_TASK_READS_H_
#define CALLBOARD_LIBS_DIRECTOR_TASK_READS_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "libs/core/record.h"
#include "libs/core/task.h"
#include "libs/director/engine.h"
#include "libs/ports/event_store.h"

namespace callboard::director {

// With what the engine knows of it beside. NOT_FOUND when it is forgotten since.
absl::StatusOr<core::Task> TaskAt(const ports::EventStore& store, const Glance& glance);

// Of one that the engine was not asked for: in the place that its last record gave to it.
// REQUIRES: all its records, oldest first, and at least one.
core::Task TaskAsOf(absl::Span<const core::TaskRecord> records);

}  // namespace callboard::director

#endif  // CALLBOARD_LIBS_DIRECTOR_TASK_READS_H_
