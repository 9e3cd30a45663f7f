#ifndef CALLBOARD_LIBS_TESTING_STORED_RECORDS_H_
#define CALLBOARD_LIBS_TESTING_STORED_RECORDS_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/base/status_macros.h"
#include "libs/core/record.h"
#include "libs/ports/event_store.h"

namespace callboard::test {

// What a director would find.
inline absl::StatusOr<std::vector<core::Record>> StoredRecords(const ports::EventStore& store) {
  std::vector<core::Record> records;
  RETURN_IF_ERROR(store.Load([&records](const core::Record& record) {
    records.push_back(record);
    return absl::OkStatus();
  }));
  return records;
}

}  // namespace callboard::test

#endif  // CALLBOARD_LIBS_TESTING_STORED_RECORDS_H_
