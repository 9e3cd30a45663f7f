#ifndef CALLBOARD_TESTS_SIMULATION_TIMELINE_H_
#define CALLBOARD_TESTS_SIMULATION_TIMELINE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "absl/time/time.h"
#include "libs/ports/environment.h"

namespace callboard::simulation {

// The events of a simulation and its clock, which jumps from event to event. Events of the same
// time happen in the order in which they were planned.
class Timeline {
 public:
  absl::Duration now() const { return now_; }
  uint64_t steps() const { return steps_; }

  void After(absl::Duration delay, std::function<void()> event) {
    planned_.emplace(std::make_pair(now_ + delay, ++last_), std::move(event));
  }

  // Runs the next event. Returns false if nothing is planned before `end`.
  bool Step(absl::Duration end) {
    if (planned_.empty() || planned_.begin()->first.first > end) {
      now_ = end;
      return false;
    }
    const auto next = planned_.begin();
    now_ = next->first.first;
    const std::function<void()> event = std::move(next->second);
    planned_.erase(next);
    ++steps_;
    event();
    return true;
  }

 private:
  absl::Duration now_ = absl::Hours(1);
  uint64_t last_ = 0;
  uint64_t steps_ = 0;
  std::map<std::pair<absl::Duration, uint64_t>, std::function<void()>> planned_;
};

// The director's clocks: a monotonic clock that only the timeline moves, and a wall clock that
// jumps.
class SimulatedClock final : public ports::Clock {
 public:
  explicit SimulatedClock(const Timeline& timeline) : timeline_(timeline) {}

  absl::Time WallNow() const override { return wall_start_ + timeline_.now(); }
  absl::Duration MonotonicNow() const override { return timeline_.now(); }
  void Jump(absl::Duration by) { wall_start_ += by; }

 private:
  const Timeline& timeline_;
  absl::Time wall_start_ = absl::FromUnixSeconds(1'700'000'000);
};

}  // namespace callboard::simulation

#endif  // CALLBOARD_TESTS_SIMULATION_TIMELINE_H_
