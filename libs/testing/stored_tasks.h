// Records of tasks that differ by a number only, for tests of stores.
#ifndef CALLBOARD_LIBS_TESTING_STORED_TASKS_H_
#define CALLBOARD_LIBS_TESTING_STORED_TASKS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "libs/core/ids.h"
#include "libs/core/record.h"

namespace callboard::test {

// The name of the `task`th.
inline core::QueueId StoredId(uint64_t task) { return core::QueueId(core::Ulid(1, task)); }

// What happened to it as its `number`th, a second after the one before.
inline core::TaskRecord StoredRecord(uint64_t task, uint64_t number, core::TaskChange change) {
  core::TaskRecord record = {.queue_id = StoredId(task), .change = std::move(change)};
  record.number = number;
  record.event.number = number + 1;
  record.event.at = absl::FromUnixSeconds(static_cast<int64_t>(1000 * task + number));
  return record;
}

// That it was admitted; its place is its number.
inline core::TaskRecord StoredAdmission(uint64_t task) {
  core::TaskSpec spec;
  spec.prompt = "task " + std::to_string(task) + std::string(50, '.');
  spec.max_attempts = 3;
  core::Admitted admitted = {.spec = std::make_shared<const core::TaskSpec>(std::move(spec)),
                             .sequence = task};
  core::TaskRecord record = StoredRecord(task, 1, std::move(admitted));
  record.event.kind = core::TaskEventKind::kAdmitted;
  return record;
}

}  // namespace callboard::test

#endif  // CALLBOARD_LIBS_TESTING_STORED_TASKS_H_
