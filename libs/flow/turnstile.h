#ifndef CALLBOARD_LIBS_FLOW_TURNSTILE_H_
#define CALLBOARD_LIBS_FLOW_TURNSTILE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "libs/flow/flow_options.h"
#include "libs/ports/executor.h"

namespace callboard::flow {

// A piece of work in a lane.
struct Work {
  size_t lane = 0;
  // Whose it is, to find it again; may be null.
  const void* owner = nullptr;
  ports::Executor::Job job = {};
};

// Lets work through in its order, as long as its lane has a place and its tokens are there.
//
// The order: work of lanes that starve first, the longest waiting before others; then by band; then
// first come, first served. A lane starves when its first piece has waited for `starvation`, and
// nothing of the lane was let through for as long: so a low band that is overrun gets a piece now
// and then, and does not go before everybody with all that it has. Work whose tokens are not there
// is passed by, unless its lane starves: then nobody takes what it needs.
//
// Not thread-safe, and without a clock of its own: `now` never goes back.
//
// Invariants, of every lane:
//   (1) running <= concurrency
//   (2) pending + reserved <= max_pending
//   (3) the tokens of all that runs are at most what there is.
class Turnstile {
 public:
  explicit Turnstile(FlowOptions options);

  // Places for pending work that nobody has.
  uint32_t Room(size_t lane) const;
  // Takes places, for work that is not there yet. REQUIRES: there is room for them.
  void Reserve(size_t lane, uint32_t places = 1);
  // Gives them back.
  void Release(size_t lane, uint32_t places = 1);

  // Puts work into a place that was reserved for it.
  void Push(Work work, absl::Duration now);
  // Takes the work out that may run now, which then runs until Done(); none when nothing may.
  std::optional<Work> Next(absl::Duration now);
  void Done(size_t lane);
  // Takes out the pending work of `owner`.
  std::vector<Work> Withdraw(size_t lane, const void* owner);

  uint32_t reserved(size_t lane) const { return lanes_[lane].reserved; }
  uint32_t pending(size_t lane) const { return static_cast<uint32_t>(lanes_[lane].line.size()); }
  uint32_t running(size_t lane) const { return lanes_[lane].running; }
  // Nothing is pending, and nothing runs.
  bool idle() const { return held_ == 0; }

 private:
  struct Pending {
    Work work;
    // When it came, in time and in line.
    absl::Duration since;
    uint64_t number = 0;
  };
  struct LaneState {
    LaneOptions options;
    std::deque<Pending> line;
    uint32_t reserved = 0;
    uint32_t running = 0;
    // When something of it was last let through.
    absl::Duration taken_at = -absl::InfiniteDuration();
  };

  // Whether the first of a lane's line goes before that of another one's.
  bool GoesBefore(const LaneState& a, const LaneState& b, absl::Duration now) const;
  bool IsStarved(const LaneState& lane, absl::Duration now) const;
  Work Take(LaneState& lane, absl::Duration now);

  const bool plain_;
  const absl::Duration starvation_;
  std::deque<LaneState> lanes_;
  // Tokens that nobody holds.
  Tokens free_;
  uint64_t last_number_ = 0;
  // Pieces of work that are pending or run.
  size_t held_ = 0;
};

}  // namespace callboard::flow

#endif  // CALLBOARD_LIBS_FLOW_TURNSTILE_H_
