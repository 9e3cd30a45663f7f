// What a Flow is made of.
#ifndef CALLBOARD_LIBS_FLOW_FLOW_OPTIONS_H_
#define CALLBOARD_LIBS_FLOW_FLOW_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "libs/flow/limits.h"

namespace callboard::flow {

// Bands: work of a higher one goes first, until work of a lower one has waited too long.
enum class Priority { kLow, kNormal, kHigh };

// Shares of what all lanes of a process have in common.
struct Tokens {
  uint32_t cpu = 0;
  uint32_t io = 0;
  uint32_t memory = 0;

  friend bool operator==(const Tokens&, const Tokens&) = default;
};

struct LaneOptions {
  std::string name = {};
  LaneLimit limit = {};
  Priority priority = Priority::kNormal;
  // What each piece of work holds while it runs. Cut to what there is in all, so that no lane waits
  // for ever.
  Tokens demand = {};
};

struct FlowOptions {
  std::vector<LaneOptions> lanes = {};
  // What there is in all; without it lanes are plain: each minds its own limit only.
  std::optional<Tokens> tokens = {};
  // A lane of which nothing was let through for so long, although it has work, goes before every
  // band with one piece, and what that needs is kept for it.
  absl::Duration starvation = absl::Seconds(5);
};

// io, cpu and proc.
std::vector<LaneOptions> StandardLanes(const Limits& limits);

// As many tokens as the standard lanes run at once, and one of memory for each GiB.
Tokens TokensFor(const Limits& limits, const Machine& machine);

}  // namespace callboard::flow

#endif  // CALLBOARD_LIBS_FLOW_FLOW_OPTIONS_H_
