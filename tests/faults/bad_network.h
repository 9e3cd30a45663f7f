#ifndef CALLBOARD_TESTS_FAULTS_BAD_NETWORK_H_
#define CALLBOARD_TESTS_FAULTS_BAD_NETWORK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "tests/crash/history_checker.h"

namespace callboard::faults {

// What a network does to everything between clients, director and agent.
struct BadNetwork {
  absl::Duration delay = absl::ZeroDuration();
  // Every so many-th piece is lost, and its connection with it; none when 0.
  uint64_t cut_every = 0;
};

struct NetworkReport {
  crash::Verdict verdict = {};
  uint64_t completed = 0;
  uint64_t cancelled = 0;
  // Given to an agent more than once.
  uint64_t again = 0;

  std::string ToString() const;
};

// Clients that submit and cancel until `acknowledged` submits are, and an agent that runs what they
// submit, over such a network; then waits until all of it has ended.
NetworkReport RunOver(const BadNetwork& network, uint64_t acknowledged);

// What becomes of a run while the link to its agent goes down and comes up again, so many times.
// The director has the flags `lease`.
struct FlapReport {
  uint64_t dispatches = 0;
  bool completed = false;
};
FlapReport RunOverFlappingLink(int flaps, absl::Duration up, absl::Duration down,
                               const std::vector<std::string>& lease);

}  // namespace callboard::faults

#endif  // CALLBOARD_TESTS_FAULTS_BAD_NETWORK_H_
