#ifndef CALLBOARD_TESTS_E2E_RUN_CHECKER_H_
#define CALLBOARD_TESTS_E2E_RUN_CHECKER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "callboard/v1/task.pb.h"
#include "tests/e2e/run_record.h"

namespace callboard::e2e {

// A task with all fields and events, as the director returns it.
struct ObservedTask {
  v1::Task task;
  std::vector<v1::TaskEvent> events;
};

// The comparison of the director's tasks with the records of their runs. Each list has a line for
// every violation.
struct RunCheckResult {
  uint64_t ended = 0;
  uint64_t runs = 0;
  // Results that came too late and were dropped, which is allowed.
  uint64_t orphaned = 0;
  // Tasks that have not ended, or ended more than once.
  std::vector<std::string> unended = {};
  // Concurrent runs of one task, or two runs of one dispatch.
  std::vector<std::string> overlapping = {};
  // A result of another dispatch than the one that ended the task.
  std::vector<std::string> stale = {};
  // Contradictory dispatches, attempts and events, or runs without a dispatch.
  std::vector<std::string> inconsistent = {};

  bool ok() const;
  // Returns all counts and violations, one per line.
  std::string ToString() const;
};

// Checks all tasks, read after their last change, against all records. Runs must use
// RunRecord::Script().
RunCheckResult CheckRuns(const std::vector<ObservedTask>& tasks,
                         const std::vector<RunLine>& record);

}  // namespace callboard::e2e

#endif  // CALLBOARD_TESTS_E2E_RUN_CHECKER_H_
