#ifndef CALLBOARD_TESTS_CRASH_HISTORY_CHECKER_H_
#define CALLBOARD_TESTS_CRASH_HISTORY_CHECKER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tests/crash/history.h"

namespace callboard::crash {

// The changes of acknowledged tasks that need no call.
struct QueueRules {
  // A full queue evicts the oldest pending task.
  bool evicts = false;
  // Ended tasks are forgotten; their request ids are kept.
  bool forgets = false;
  // Agents run tasks: they leave the queue and end on their own.
  bool runs = false;
};

// The comparison of a history with the tasks that were found after it. Each list has a line for
// every violation.
struct CheckResult {
  // Acknowledged submits, and submits without an answer whose task exists, which is allowed.
  uint64_t acknowledged = 0;
  uint64_t recovered = 0;
  // Acknowledged, but missing.
  std::vector<std::string> lost = {};
  // Found, but never requested, or rejected.
  std::vector<std::string> unexpected = {};
  // Two tasks for one request.
  std::vector<std::string> duplicated = {};
  // Content differs from the request, or the state has no cause.
  std::vector<std::string> altered = {};
  // Order differs from the order that clients saw, or from the order of their calls.
  std::vector<std::string> reordered = {};

  bool ok() const;
  // Returns all counts and violations, one per line.
  std::string ToString() const;
};

// Checks all tasks that were found against the calls of the clients. A request without an answer
// may have been done or not, but at most once.
CheckResult CheckHistory(const History& history, const std::vector<FoundTask>& found,
                         const QueueRules& rules = {});

}  // namespace callboard::crash

#endif  // CALLBOARD_TESTS_CRASH_HISTORY_CHECKER_H_
