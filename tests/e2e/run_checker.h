#ifndef CALLBOARD_TESTS_E2E_RUN_CHECKER_H_
#define CALLBOARD_TESTS_E2E_RUN_CHECKER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "callboard/v1/task.pb.h"
#include "tests/e2e/run_record.h"

namespace callboard::e2e {

// A task as the director shows it, whole, with all that happened to it.
struct SeenTask {
  v1::Task task;
  std::vector<v1::TaskEvent> events;
};

// How what a director tells of its tasks goes with what their runs recorded. Each list has a line
// for everything that broke a promise.
struct RunVerdict {
  uint64_t ended = 0;
  uint64_t runs = 0;
  // Results that came too late and were thrown away, which is fine.
  uint64_t orphaned = 0;
  // Not ended, or more than once.
  std::vector<std::string> unended = {};
  // Two runs of one task at the same time, or two of one dispatch.
  std::vector<std::string> overlapping = {};
  // A result that is not of the dispatch that ended the task.
  std::vector<std::string> stale = {};
  // Dispatches, attempts and events that do not follow from each other, or runs that nobody asked
  // for.
  std::vector<std::string> inconsistent = {};

  bool ok() const;
  // All of it, in lines.
  std::string ToString() const;
};

// Checks all tasks, seen when none of them is to change any more, against all that was recorded.
// Runs are those of RunRecord::Script().
RunVerdict CheckRuns(const std::vector<SeenTask>& tasks, const std::vector<RunLine>& record);

}  // namespace callboard::e2e

#endif  // CALLBOARD_TESTS_E2E_RUN_CHECKER_H_
