// Records for tests of event stores.

#ifndef CALLBOARD_LIBS_TESTING_STORED_RECORDS_H_
#define CALLBOARD_LIBS_TESTING_STORED_RECORDS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/base/error.h"
#include "libs/core/ids.h"
#include "libs/core/record.h"
#include "libs/ports/event_store.h"
#include "libs/testing/submissions.h"

namespace callboard::test {

// Returns the records that a director would load.
inline absl::StatusOr<std::vector<core::Record>> StoredRecords(const ports::EventStore& store) {
  std::vector<core::Record> records;
  RETURN_IF_ERROR(store.Load([&records](const core::Record& record) {
    records.push_back(record);
    return absl::OkStatus();
  }));
  return records;
}

// Returns the id of task number `task`.
inline core::QueueId StoredId(uint64_t task) { return core::QueueId(core::Ulid(1, task)); }

// Returns record `number` of the task. Each record is a second later than the one before.
inline core::TaskRecord StoredRecord(uint64_t task, uint64_t number, core::TaskChange change) {
  core::TaskRecord record = {.queue_id = StoredId(task), .change = std::move(change)};
  record.number = number;
  record.event.number = number + 1;
  record.event.at = absl::FromUnixSeconds(static_cast<int64_t>(1000 * task + number));
  return record;
}

// Returns the admission record of the task. Its place in the queue is its number.
inline core::TaskRecord StoredAdmission(uint64_t task) {
  core::TaskAdmitted admitted = {
      .spec = ToSpec(MakeSubmit("task " + std::to_string(task) + std::string(50, '.'))),
      .sequence = task,
      .trace = core::SubmitSpan(StoredId(task))};
  core::TaskRecord record = StoredRecord(task, 1, std::move(admitted));
  record.event.kind = core::TaskEventKind::kAdmitted;
  return record;
}

}  // namespace callboard::test

#endif  // CALLBOARD_LIBS_TESTING_STORED_RECORDS_H_
