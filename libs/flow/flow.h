#ifndef CALLBOARD_LIBS_FLOW_FLOW_H_
#define CALLBOARD_LIBS_FLOW_FLOW_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "libs/base/mutex.h"
#include "libs/flow/flow_options.h"
#include "libs/flow/turnstile.h"
#include "libs/ports/clock.h"
#include "libs/ports/executor.h"

namespace callboard::flow {

class Flow;
class Lane;

// Places in a lane for work that is yet to be built. Those that are not used are given back.
class [[nodiscard]] Places {
 public:
  Places(Places&& other) noexcept;
  Places& operator=(Places&& other) = delete;
  ~Places();

  uint32_t count() const { return count_; }

  // Puts the jobs into places, in their order. Each runs once, unless it is withdrawn; nothing of
  // it is left when it counts as done. REQUIRES: there are as many places; called once at most.
  void Run(absl::Span<ports::Executor::Job> jobs, const void* owner) &&;
  // The same for one.
  void Run(ports::Executor::Job job) &&;

 private:
  friend class Lane;
  Places(Lane& lane, uint32_t count) : lane_(lane), count_(count) {}

  Lane& lane_;
  uint32_t count_;
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

  // Waits for a place, and returns up to `wanted` of them. AbortError() once `stop` is requested.
  // Who has to wait at all waits for `wanted`, so that who brings much goes back and forth less.
  // REQUIRES: 0 < wanted <= limit().max_pending; MayWait().
  absl::StatusOr<Places> Reserve(const std::stop_token& stop = {}, uint32_t wanted = 1);
  // False in work of the same Flow, which could wait for itself.
  bool MayWait() const;
  // One place; RESOURCE_EXHAUSTED/LANE_FULL instead of waiting.
  absl::StatusOr<Places> TryReserve();

  // A place, and the work in it.
  absl::Status Add(ports::Executor::Job job, const std::stop_token& stop = {});
  absl::Status TryAdd(ports::Executor::Job job);

  // Drops the pending work of `owner`; returns how many pieces.
  size_t Withdraw(const void* owner);

  LaneCounts counts() const;

 private:
  friend class Places;

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
  ports::Executor& executor() { return executor_; }

 private:
  friend class Lane;
  friend class Places;

  // A caller in line for a place.
  struct Waiter {
    uint32_t wanted = 1;
    bool granted = false;
    base::CondVar changed = {};
  };

  // Seldom more than one.
  using Works = absl::InlinedVector<Work, 1>;

  // What lanes and places do, by the lane's index.
  absl::StatusOr<uint32_t> Reserve(size_t lane, const std::stop_token& stop, uint32_t wanted);
  absl::Status TryReserve(size_t lane);
  void Release(size_t lane, uint32_t places);
  void Push(size_t lane, absl::Span<ports::Executor::Job> jobs, const void* owner);
  size_t Withdraw(size_t lane, const void* owner);
  LaneCounts Counts(size_t lane) const;

  // Runs `work`, and after it what may run then, until nothing may.
  void RunFrom(Work work);
  // Takes out everything that may run now. Gives freed places to those who wait.
  Works TakeReady() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Grant(size_t lane) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Reserves up to `wanted` places, those that are free unless somebody waits for them.
  uint32_t TakePlaces(size_t lane, uint32_t wanted) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // For the order of work; plain lanes have no use for time.
  absl::Duration Now() const;
  void Start(Work work);

  // Constant after construction.
  ports::Executor& executor_;
  const ports::Clock& clock_;
  const bool plain_;
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
