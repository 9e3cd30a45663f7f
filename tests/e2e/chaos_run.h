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
  Cluster::Verdict verdict = {};
  // Who ended without being asked to, and other trouble that nobody made.
  std::vector<std::string> failures = {};

  bool ok() const { return verdict.ok() && failures.empty(); }
  // The verdict and its numbers, in lines.
  std::string ToString() const;
};

// A cluster under load, whose parts are killed, stopped and cut off and whose disk is slow, fails
// and fills up, for so long; then everything is healed, and every task has to end. Works in
// `folder`, which is left as it is; writes a line to `log` for everything that is done.
// REQUIRES: the process has one thread.
ChaosReport RunChaos(const std::filesystem::path& folder, absl::Duration time, uint64_t seed,
                     std::ostream& log);

}  // namespace callboard::e2e

#endif  // CALLBOARD_TESTS_E2E_CHAOS_RUN_H_
