#ifndef CALLBOARD_TESTS_CRASH_HISTORY_CHECKER_H_
#define CALLBOARD_TESTS_CRASH_HISTORY_CHECKER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tests/crash/history.h"

namespace callboard::crash {

// What may become of an acknowledged task by itself.
struct QueueRules {
  // A full queue evicts the one that waits longest.
  bool evicts = false;
  // Ended tasks are forgotten; their request ids are not.
  bool forgets = false;
  // Agents run them: they leave the line and end by themselves.
  bool runs = false;
};

// How a history went with what was found after it. Each list has a line for everything that broke a
// promise.
struct Verdict {
  // Acknowledged submits; and those without an answer that are there all the same, which is fine.
  uint64_t acknowledged = 0;
  uint64_t recovered = 0;
  // Acknowledged, and not there.
  std::vector<std::string> lost = {};
  // There, and nobody asked for it, or it was refused.
  std::vector<std::string> unexpected = {};
  // Two tasks of one request.
  std::vector<std::string> duplicated = {};
  // Not what was asked for, or in a state that nobody brought it to.
  std::vector<std::string> altered = {};
  // Another order than clients were shown, or than that of their calls.
  std::vector<std::string> reordered = {};

  bool ok() const;
  // All of it, in lines.
  std::string ToString() const;
};

// Checks what was found, all of it, against what clients know. A request without an answer may have
// been done or not, once.
Verdict CheckHistory(const History& history, const std::vector<FoundTask>& found,
                     const QueueRules& rules = {});

}  // namespace callboard::crash

#endif  // CALLBOARD_TESTS_CRASH_HISTORY_CHECKER_H_
