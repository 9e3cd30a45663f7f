#ifndef CALLBOARD_TESTS_FAULTS_BAD_NETWORK_H_
#define CALLBOARD_TESTS_FAULTS_BAD_NETWORK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/crash/history_checker.h"

namespace callboard::faults {

// The faults of the network between clients, director and agent.
struct BadNetwork {
  absl::Duration delay = absl::ZeroDuration();
  // Every `cut_every`-th piece of data is lost together with its connection; none if 0.
  uint64_t cut_every = 0;
};

struct NetworkReport {
  crash::CheckResult check_result = {};
  uint64_t completed = 0;
  uint64_t cancelled = 0;
  // Tasks that were dispatched more than once.
  uint64_t again = 0;

  std::string ToString() const;
};

// Runs clients that submit and cancel until `acknowledged` submits are acknowledged, and an agent
// that runs their tasks, over such a network; then waits until all tasks have ended.
NetworkReport RunOver(const BadNetwork& network, uint64_t acknowledged);

// Runs a task while the link to its agent goes down and up `flaps` times. The director has the
// flags `lease`.
struct FlapReport {
  uint64_t dispatches = 0;
  bool completed = false;
};
FlapReport RunOverFlappingLink(int flaps, absl::Duration up, absl::Duration down,
                               const std::vector<std::string>& lease);

}  // namespace callboard::faults

#endif  // CALLBOARD_TESTS_FAULTS_BAD_NETWORK_H_
