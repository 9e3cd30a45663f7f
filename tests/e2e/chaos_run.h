#ifndef CALLBOARD_TESTS_E2E_CHAOS_RUN_H_
#define CALLBOARD_TESTS_E2E_CHAOS_RUN_H_

#include <cstdint>
#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/e2e/cluster.h"

namespace callboard::e2e {

struct ChaosReport {
  uint64_t faults = 0;
  Cluster::CheckResult check_result = {};
  // Processes that ended unexpectedly, and other errors that no fault caused.
  std::vector<std::string> failures = {};

  bool ok() const { return check_result.ok() && failures.empty(); }
  // Returns the result and the counts, one per line.
  std::string ToString() const;
};

// Runs a cluster under load for `time`, while its parts are killed, stopped and cut off and its
// disk is slow, fails and fills up; then ends all faults, and every task must end. Works in
// `folder`, which is not removed; writes each action to `log`. REQUIRES: the process has one
// thread.
ChaosReport RunChaos(const std::filesystem::path& folder, absl::Duration time, uint64_t seed,
                     std::ostream& log);

}  // namespace callboard::e2e

#endif  // CALLBOARD_TESTS_E2E_CHAOS_RUN_H_
