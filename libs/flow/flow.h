#ifndef CALLBOARD_LIBS_FLOW_FLOW_H_
#define CALLBOARD_LIBS_FLOW_FLOW_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "libs/base/mutex.h"
#include "libs/flow/flow_options.h"
#include "libs/flow/turnstile.h"
#include "libs/ports/clock.h"
#include "libs/ports/executor.h"

namespace callboard::flow {

class Flow;
class Lane;

// A place in a lane for a piece of work that is yet to be built. Gives it back when it ends unused.
class [[nodiscard]] Place {
 public:
  Place(Place&& other) noexcept;
  Place& operator=(Place&& other) = delete;
  ~Place();

  // Puts `job` into the place. It runs once, unless it is withdrawn; nothing of it is left when it
  // counts as done. REQUIRES: called once at most.
  void Run(ports::Executor::Job job, const void* owner = nullptr) &&;

 private:
  friend class Lane;
  explicit Place(Lane& lane) : lane_(&lane) {}

  // Null once it was used or moved from.
  Lane* lane_;
};

struct LaneCounts {
  // Callers that have no place yet.
  uint32_t waiting = 0;
  // Places whose work is not there yet.
  uint32_t reserved = 0;
  // Work that waits for its turn.
  uint32_t pending = 0;
  uint32_t in_flight = 0;
};

// A line of work that runs so many pieces at once and lets only so many wait: who brings more
// waits, first come, first served, or is refused.
//
// Thread-safe. Part of its Flow, and lives as long.
class Lane {
 public:
  Lane(Flow& flow, size_t index) : flow_(flow), index_(index) {}
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  const std::string& name() const;
  const LaneLimit& limit() const;
  ports::Executor& executor();
  const ports::Clock& clock() const;

  // Waits for a place. AbortError() once `stop` is requested. `wake_at`: who has to wait is not
  // bothered before so many places are free, so that who brings much goes back and forth less.
  // REQUIRES: not called from work of the same Flow, which could wait for itself.
  absl::StatusOr<Place> Reserve(const std::stop_token& stop = {}, uint32_t wake_at = 1);
  // RESOURCE_EXHAUSTED/LANE_FULL instead of waiting.
  absl::StatusOr<Place> TryReserve();

  // A place, and the work in it.
  absl::Status Add(ports::Executor::Job job, const std::stop_token& stop = {});
  absl::Status TryAdd(ports::Executor::Job job);

  // Drops the pending work of `owner`; returns how many pieces.
  size_t Withdraw(const void* owner);

  LaneCounts counts() const;

 private:
  friend class Place;

  Flow& flow_;
  const size_t index_;
};

// The lanes of a process and what they share.
//
// Thread-safe.
class Flow {
 public:
  // `executor` and `clock` outlive the flow. REQUIRES: lanes have names of their own.
  Flow(FlowOptions options, ports::Executor& executor, const ports::Clock& clock);
  // Waits until all work is done. REQUIRES: nobody brings more.
  ~Flow();
  Flow(const Flow&) = delete;
  Flow& operator=(const Flow&) = delete;

  // Null when there is none of that name.
  Lane* Find(absl::string_view name);
  // REQUIRES: there is one.
  Lane& lane(absl::string_view name);

  const std::deque<Lane>& lanes() const { return lanes_; }

 private:
  friend class Lane;
  friend class Place;

  // A caller in line for a place.
  struct Waiter {
    uint32_t wake_at = 1;
    bool granted = false;
    base::CondVar changed = {};
  };

  // What lanes and places do, by the lane's index.
  absl::Status Reserve(size_t lane, const std::stop_token& stop, uint32_t wake_at);
  absl::Status TryReserve(size_t lane);
  void Release(size_t lane);
  void Push(Work work);
  size_t Withdraw(size_t lane, const void* owner);
  LaneCounts Counts(size_t lane) const;

  // Runs `work`, and after it what may run then, until nothing may.
  void RunFrom(Work work);
  // Takes out everything that may run now. Gives freed places to those who wait.
  std::vector<Work> TakeReady() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Grant(size_t lane) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Start(Work work);

  // Constant after construction.
  ports::Executor& executor_;
  const ports::Clock& clock_;
  const std::vector<LaneOptions> lane_options_;
  std::deque<Lane> lanes_;

  mutable base::Mutex mutex_;
  base::CondVar became_idle_;
  Turnstile turnstile_ ABSL_GUARDED_BY(mutex_);
  // Of each lane, first come first.
  std::vector<std::deque<Waiter*>> waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace callboard::flow

#endif  // CALLBOARD_LIBS_FLOW_FLOW_H_
