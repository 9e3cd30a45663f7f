#ifndef CALLBOARD_TESTS_FAULTS_RESTART_LOOP_H_
#define CALLBOARD_TESTS_FAULTS_RESTART_LOOP_H_

#include <cstdint>
#include <filesystem>
#include <string>

#include "absl/time/time.h"
#include "tests/crash/history_checker.h"

namespace callboard::faults {

struct RestartReport {
  uint64_t kills = 0;
  // The tasks that the last director returns, and after every submit was repeated.
  crash::CheckResult found = {};
  crash::CheckResult resubmitted = {};
  // Another error; empty if there was none.
  std::string failure = {};

  bool ok() const { return failure.empty() && found.ok() && resubmitted.ok(); }
  std::string ToString() const;
};

// Kills a director on `folder` `kills` times, each within `life_max` of its start or of the moment
// that it listens, while clients submit and cancel all the time. The last director stays up.
RestartReport KillRepeatedly(const std::filesystem::path& folder, uint64_t kills,
                             absl::Duration life_max);

}  // namespace callboard::faults

#endif  // CALLBOARD_TESTS_FAULTS_RESTART_LOOP_H_
