#ifndef CALLBOARD_LIBS_FLOW_LANE_SCHEDULER_H_
#define CALLBOARD_LIBS_FLOW_LANE_SCHEDULER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "libs/flow/limits.h"
#include "libs/ports/environment.h"

namespace callboard::flow {

// A job in a lane.
struct Work {
  size_t lane = 0;
  // Identifies the jobs that Withdraw() removes together. May be null.
  const void* owner = nullptr;
  ports::Executor::Job job = {};
};

// Decides which job runs next: the first in order whose lane is below its concurrency and whose
// tokens are free.
//
// The order: jobs of starving lanes first, the longest waiting of them first; then by priority;
// then first come, first served. A lane starves when its oldest pending job has waited for
// `starvation` and no job of the lane was started for as long. So a lane of a low priority starts a
// job from time to time, but its backlog does not go before all other lanes. A job whose tokens are
// not free is passed over, unless its lane starves: then its tokens are kept free for it.
//
// Not thread-safe. Callers pass the time as `now`, which never decreases.
//
// Invariants:
//   (1) In every lane, running <= concurrency.
//   (2) In every lane, pending + reserved <= max_pending.
//   (3) The running jobs hold at most `FlowOptions::tokens`.
class LaneScheduler {
 public:
  explicit LaneScheduler(FlowOptions options);

  // Returns the number of places that are neither pending nor reserved.
  uint32_t Room(size_t lane) const;
  // Reserves places for jobs that are not built yet. REQUIRES: Room(lane) >= places.
  void Reserve(size_t lane, uint32_t places = 1);
  // Returns reserved places. REQUIRES: reserved(lane) >= places.
  void Release(size_t lane, uint32_t places = 1);

  // Adds work in a reserved place. REQUIRES: reserved(work.lane) > 0.
  void Push(Work work, absl::Duration now);
  // Removes the work that runs next and counts it as running until Done(). Returns nullopt if no
  // work may run now.
  std::optional<Work> Next(absl::Duration now);
  void Done(size_t lane);
  // Removes the pending work of `owner` and returns it.
  std::vector<Work> Withdraw(size_t lane, const void* owner);

  uint32_t reserved(size_t lane) const { return lanes_[lane].reserved; }
  uint32_t pending(size_t lane) const { return static_cast<uint32_t>(lanes_[lane].queue.size()); }
  uint32_t running(size_t lane) const { return lanes_[lane].running; }
  // Returns whether no work is pending or running.
  bool idle() const { return unfinished_ == 0; }

 private:
  struct Pending {
    Work work;
    absl::Duration pushed_at;
    // Orders work by arrival, across lanes.
    uint64_t sequence = 0;
  };
  struct LaneState {
    LaneOptions options;
    std::deque<Pending> queue;
    uint32_t reserved = 0;
    uint32_t running = 0;
    // When work of this lane was last started.
    absl::Duration last_start = -absl::InfiniteDuration();
  };

  // Returns whether the first work of `a` runs before the first work of `b`.
  bool RunsBefore(const LaneState& a, const LaneState& b, absl::Duration now) const;
  bool IsStarved(const LaneState& lane, absl::Duration now) const;
  Work Take(LaneState& lane, absl::Duration now);

  const bool plain_;
  const absl::Duration starvation_;
  std::deque<LaneState> lanes_;
  // Tokens that no running work holds.
  Tokens free_;
  uint64_t last_sequence_ = 0;
  // The number of pending and running jobs.
  size_t unfinished_ = 0;
};

}  // namespace callboard::flow

#endif  // CALLBOARD_LIBS_FLOW_LANE_SCHEDULER_H_
