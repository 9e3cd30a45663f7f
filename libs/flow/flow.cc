#include "libs/flow/flow.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/check.h"
#include "libs/base/error.h"
#include "libs/flow/abort.h"
#include "libs/flow/limits.h"

namespace callboard::flow {
namespace {

// The flow whose job runs on this thread, or null.
thread_local const Flow* current_flow = nullptr;

}  // namespace

// ---- LaneReservation ----------------------------------------------------------------------------

LaneReservation::LaneReservation(LaneReservation&& other) noexcept
    : lane_(other.lane_), count_(std::exchange(other.count_, 0)) {}

LaneReservation::~LaneReservation() {
  if (count_ > 0) lane_.flow_.Release(lane_.index_, count_);
}

void LaneReservation::Run(absl::Span<ports::Executor::Job> jobs, const void* owner) && {
  CHECK_LE(jobs.size(), count_);
  count_ -= static_cast<uint32_t>(jobs.size());
  lane_.flow_.Push(lane_.index_, jobs, owner);
}

void LaneReservation::Run(ports::Executor::Job job) && {
  std::move(*this).Run(absl::MakeSpan(&job, 1), nullptr);
}

// ---- Lane ---------------------------------------------------------------------------------------

const std::string& Lane::name() const { return flow_.lane_options_[index_].name; }
const LaneLimit& Lane::limit() const { return flow_.lane_options_[index_].limit; }
ports::Executor& Lane::executor() { return flow_.executor_; }
const ports::Clock& Lane::clock() const { return flow_.clock_; }

absl::StatusOr<LaneReservation> Lane::Reserve(const std::stop_token& stop, uint32_t wanted) {
  ASSIGN_OR_RETURN(const uint32_t granted, flow_.Reserve(index_, stop, wanted));
  return LaneReservation(*this, granted);
}

bool Lane::MayWait() const { return current_flow != &flow_; }

absl::StatusOr<LaneReservation> Lane::TryReserve() {
  RETURN_IF_ERROR(flow_.TryReserve(index_));
  return LaneReservation(*this, 1);
}

absl::Status Lane::Add(ports::Executor::Job job, const std::stop_token& stop) {
  ASSIGN_OR_RETURN(LaneReservation place, Reserve(stop));
  std::move(place).Run(std::move(job));
  return absl::OkStatus();
}

absl::Status Lane::TryAdd(ports::Executor::Job job) {
  ASSIGN_OR_RETURN(LaneReservation place, TryReserve());
  std::move(place).Run(std::move(job));
  return absl::OkStatus();
}

size_t Lane::Withdraw(const void* owner) { return flow_.Withdraw(index_, owner); }

LaneCounts Lane::counts() const { return flow_.Counts(index_); }

// ---- Flow ---------------------------------------------------------------------------------------

Flow::Flow(FlowOptions options, ports::Executor& executor, const ports::Clock& clock)
    : executor_(executor),
      clock_(clock),
      plain_(!options.tokens.has_value()),
      lane_options_(options.lanes),
      lane_scheduler_(std::move(options)),
      waiters_(lane_options_.size()) {
  for (size_t i = 0; i < lane_options_.size(); ++i) {
    CHECK(Find(lane_options_[i].name) == nullptr) << lane_options_[i].name;
    lanes_.emplace_back(*this, i);
  }
}

Flow::~Flow() {
  base::MutexLock lock(mutex_);
  while (!lane_scheduler_.idle()) executor_.Wait(mutex_, idle_, absl::InfiniteDuration());
}

Lane* Flow::Find(absl::string_view name) {
  const auto found = std::find_if(lanes_.begin(), lanes_.end(),
                                  [name](const Lane& lane) { return lane.name() == name; });
  return found == lanes_.end() ? nullptr : &*found;
}

Lane& Flow::lane(absl::string_view name) {
  Lane* found = Find(name);
  CHECK(found != nullptr) << name;
  return *found;
}

uint32_t Flow::ReserveFree(size_t lane, uint32_t wanted) {
  // Waiting callers came first.
  if (!waiters_[lane].empty()) return 0;
  const uint32_t taken = std::min(wanted, lane_scheduler_.Room(lane));
  lane_scheduler_.Reserve(lane, taken);
  return taken;
}

absl::Status Flow::TryReserve(size_t lane) {
  {
    base::MutexLock lock(mutex_);
    if (ReserveFree(lane, 1) > 0) return absl::OkStatus();
  }
  const LaneOptions& options = lane_options_[lane];
  return base::WithReason(
      absl::ResourceExhaustedError(absl::StrCat("lane ", options.name, " is at capacity (",
                                                options.limit.max_pending, " pending)")),
      "LANE_FULL", {{"lane", options.name}});
}

absl::StatusOr<uint32_t> Flow::Reserve(size_t lane, const std::stop_token& stop, uint32_t wanted) {
  CHECK(0 < wanted && wanted <= lane_options_[lane].limit.max_pending) << wanted;
  CHECK(current_flow != this) << "a job must not wait for a place in its own flow: lane "
                              << lane_options_[lane].name;
  RETURN_IF_ERROR(CheckNotAborted(stop));
  {
    base::MutexLock lock(mutex_);
    if (const uint32_t taken = ReserveFree(lane, wanted); taken > 0) return taken;
  }
  Waiter waiter = {.wanted = wanted};
  // Created and destroyed without mutex_ held: the callback locks mutex_, and the destructor waits
  // for a running callback.
  const std::stop_callback wake(stop, [this, &waiter] {
    base::MutexLock lock(mutex_);
    waiter.changed.NotifyAll();
  });
  base::MutexLock lock(mutex_);
  std::deque<Waiter*>& queue = waiters_[lane];
  queue.push_back(&waiter);
  GrantToWaiters(lane);
  while (!waiter.granted && !stop.stop_requested()) {
    executor_.Wait(mutex_, waiter.changed, absl::InfiniteDuration());
  }
  if (!stop.stop_requested()) return wanted;
  if (waiter.granted) {
    lane_scheduler_.Release(lane, wanted);
  } else {
    queue.erase(std::find(queue.begin(), queue.end(), &waiter));
  }
  // Waiters behind this one may fit now.
  GrantToWaiters(lane);
  return AbortError();
}

void Flow::GrantToWaiters(size_t lane) {
  std::deque<Waiter*>& queue = waiters_[lane];
  while (!queue.empty() && lane_scheduler_.Room(lane) >= queue.front()->wanted) {
    Waiter& waiter = *queue.front();
    queue.pop_front();
    lane_scheduler_.Reserve(lane, waiter.wanted);
    waiter.granted = true;
    waiter.changed.NotifyAll();
  }
}

void Flow::Release(size_t lane, uint32_t places) {
  base::MutexLock lock(mutex_);
  lane_scheduler_.Release(lane, places);
  GrantToWaiters(lane);
}

size_t Flow::Withdraw(size_t lane, const void* owner) {
  // Destroyed without mutex_ held: the destructors of the jobs are the caller's code.
  std::vector<Work> withdrawn;
  WorkList ready;
  {
    base::MutexLock lock(mutex_);
    withdrawn = lane_scheduler_.Withdraw(lane, owner);
    GrantToWaiters(lane);
    // The withdrawn work may have kept tokens from other lanes.
    ready = TakeReady();
    if (lane_scheduler_.idle()) idle_.NotifyAll();
  }
  for (Work& work : ready) Start(std::move(work));
  return withdrawn.size();
}

LaneCounts Flow::Counts(size_t lane) const {
  base::MutexLock lock(mutex_);
  return {.waiting = static_cast<uint32_t>(waiters_[lane].size()),
          .reserved = lane_scheduler_.reserved(lane),
          .pending = lane_scheduler_.pending(lane),
          .in_flight = lane_scheduler_.running(lane)};
}

void Flow::Push(size_t lane, absl::Span<ports::Executor::Job> jobs, const void* owner) {
  WorkList ready;
  {
    base::MutexLock lock(mutex_);
    const absl::Duration now = Now();
    for (ports::Executor::Job& job : jobs) lane_scheduler_.Push({lane, owner, std::move(job)}, now);
    ready = TakeReady();
  }
  for (Work& work : ready) Start(std::move(work));
}

absl::Duration Flow::Now() const { return plain_ ? absl::ZeroDuration() : clock_.MonotonicNow(); }

Flow::WorkList Flow::TakeReady() {
  WorkList ready;
  const absl::Duration now = Now();
  while (std::optional<Work> next = lane_scheduler_.Next(now)) {
    GrantToWaiters(next->lane);
    ready.push_back(*std::move(next));
  }
  return ready;
}

void Flow::Start(Work work) {
  executor_.Run([this, work = std::move(work)]() mutable { RunWork(std::move(work)); });
}

void Flow::RunWork(Work work) {
  while (true) {
    const Flow* outer = std::exchange(current_flow, this);
    work.job();
    // The job is destroyed before it counts as done.
    work.job = nullptr;
    current_flow = outer;
    WorkList ready;
    {
      base::MutexLock lock(mutex_);
      lane_scheduler_.Done(work.lane);
      ready = TakeReady();
      if (lane_scheduler_.idle()) idle_.NotifyAll();
    }
    if (ready.empty()) return;
    // Keep this thread for the first piece, unless other jobs wait for a thread.
    const bool continues = !executor_.ShouldYield();
    for (size_t i = continues ? 1 : 0; i < ready.size(); ++i) Start(std::move(ready[i]));
    if (!continues) return;
    work = std::move(ready.front());
  }
}

}  // namespace callboard::flow
