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
#include "libs/flow/lane_scheduler.h"
#include "libs/flow/limits.h"
#include "libs/ports/environment.h"

namespace callboard::flow {

class Flow;
class Lane;

// Reserved places in a lane, for jobs that are not built yet. The destructor returns unused places
// to the lane. Not thread-safe. The lane outlives it.
class [[nodiscard]] LaneReservation {
 public:
  LaneReservation(LaneReservation&& other) noexcept;
  LaneReservation& operator=(LaneReservation&& other) = delete;
  ~LaneReservation();

  uint32_t count() const { return count_; }

  // Adds the jobs to the lane, in their order, one per reserved place. Each job runs once, unless
  // Lane::Withdraw(`owner`) drops it first. A job is destroyed before the lane counts it as done.
  // REQUIRES: jobs.size() <= count(). Called at most once.
  void Run(absl::Span<ports::Executor::Job> jobs, const void* owner) &&;
  // Adds one job, without an owner.
  void Run(ports::Executor::Job job) &&;

 private:
  friend class Lane;
  LaneReservation(Lane& lane, uint32_t count) : lane_(lane), count_(count) {}

  Lane& lane_;
  uint32_t count_;
};

struct LaneCounts {
  // Callers that wait for a place.
  uint32_t waiting = 0;
  // Places that are reserved and have no job yet.
  uint32_t reserved = 0;
  // Jobs that wait to run.
  uint32_t pending = 0;
  // Jobs that run.
  uint32_t in_flight = 0;
};

// A bounded queue of jobs. At most `limit().concurrency` jobs run at a time, and at most
// `limit().max_pending` are pending. When the lane is full, callers either wait for a place, first
// come, first served, or get RESOURCE_EXHAUSTED.
//
// Thread-safe. Owned by its Flow.
class Lane {
 public:
  Lane(Flow& flow, size_t index) : flow_(flow), index_(index) {}
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  const std::string& name() const;
  const LaneLimit& limit() const;
  ports::Executor& executor();
  const ports::Clock& clock() const;

  // Reserves places. Returns the free ones, up to `wanted`, if there are any. Otherwise waits until
  // `wanted` places are free, so that a caller with many jobs wakes up less often. Returns
  // AbortError() once `stop` is requested.
  // REQUIRES: 0 < wanted <= limit().max_pending; MayWait().
  absl::StatusOr<LaneReservation> Reserve(const std::stop_token& stop = {}, uint32_t wanted = 1);
  // Returns false inside a job of the same Flow: the job could wait for itself.
  bool MayWait() const;
  // Reserves one place. Returns RESOURCE_EXHAUSTED/LANE_FULL instead of waiting.
  absl::StatusOr<LaneReservation> TryReserve();

  // Reserve() or TryReserve(), then Run(`job`).
  absl::Status Add(ports::Executor::Job job, const std::stop_token& stop = {});
  absl::Status TryAdd(ports::Executor::Job job);

  // Drops the pending jobs of `owner`. Returns their number.
  size_t Withdraw(const void* owner);

  LaneCounts counts() const;

 private:
  friend class LaneReservation;

  Flow& flow_;
  const size_t index_;
};

// The lanes of a process, with the tokens that they share and the executor that runs their jobs.
//
// Thread-safe.
class Flow {
 public:
  // `executor` and `clock` outlive the flow. REQUIRES: the names of the lanes are distinct.
  Flow(FlowOptions options, ports::Executor& executor, const ports::Clock& clock);
  // Waits until all jobs are done. REQUIRES: no more jobs are added.
  ~Flow();
  Flow(const Flow&) = delete;
  Flow& operator=(const Flow&) = delete;

  // Returns null if there is no lane with this name.
  Lane* Find(absl::string_view name);
  // REQUIRES: a lane with this name exists.
  Lane& lane(absl::string_view name);

  const std::deque<Lane>& lanes() const { return lanes_; }
  ports::Executor& executor() { return executor_; }

 private:
  friend class Lane;
  friend class LaneReservation;

  // A caller that waits for places. Lives on the stack of its Reserve() call.
  struct Waiter {
    uint32_t wanted = 1;
    bool granted = false;
    base::CondVar changed = {};
  };

  // Rarely holds more than one element.
  using WorkList = absl::InlinedVector<Work, 1>;

  // Implementations of the methods of Lane and LaneReservation. `lane` is the lane's index.
  absl::StatusOr<uint32_t> Reserve(size_t lane, const std::stop_token& stop, uint32_t wanted);
  absl::Status TryReserve(size_t lane);
  void Release(size_t lane, uint32_t places);
  void Push(size_t lane, absl::Span<ports::Executor::Job> jobs, const void* owner);
  size_t Withdraw(size_t lane, const void* owner);
  LaneCounts Counts(size_t lane) const;

  // Runs `work` on this thread, and then, if the executor allows it, the work that became ready.
  void RunWork(Work work);
  // Takes all work that may run now from the lane scheduler. Grants the freed places to waiters.
  WorkList TakeReady() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GrantToWaiters(size_t lane) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Reserves the free places, up to `wanted`, and returns their number: 0 if callers already wait.
  uint32_t ReserveFree(size_t lane, uint32_t wanted) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the time for the lane scheduler, or zero for plain lanes, whose order does not depend
  // on it.
  absl::Duration Now() const;
  void Start(Work work);

  // Constant after construction.
  ports::Executor& executor_;
  const ports::Clock& clock_;
  const bool plain_;
  const std::vector<LaneOptions> lane_options_;
  std::deque<Lane> lanes_;

  mutable base::Mutex mutex_;
  base::CondVar idle_;
  LaneScheduler lane_scheduler_ ABSL_GUARDED_BY(mutex_);
  // The waiters of each lane, the oldest first.
  std::vector<std::deque<Waiter*>> waiters_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace callboard::flow

#endif  // CALLBOARD_LIBS_FLOW_FLOW_H_
