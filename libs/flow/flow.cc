#include "libs/flow/flow.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/check.h"
#include "libs/base/error.h"
#include "libs/base/status_macros.h"
#include "libs/flow/abort.h"

namespace callboard::flow {
namespace {

// The flow whose work this thread does; null otherwise.
thread_local const Flow* at_work_for = nullptr;

}  // namespace

// ---- Place --------------------------------------------------------------------------------------

Place::Place(Place&& other) noexcept : lane_(std::exchange(other.lane_, nullptr)) {}

Place::~Place() {
  if (lane_ != nullptr) lane_->flow_.Release(lane_->index_);
}

void Place::Run(ports::Executor::Job job, const void* owner) && {
  CHECK(lane_ != nullptr);
  Lane& lane = *std::exchange(lane_, nullptr);
  lane.flow_.Push({lane.index_, owner, std::move(job)});
}

// ---- Lane ---------------------------------------------------------------------------------------

const std::string& Lane::name() const { return flow_.lane_options_[index_].name; }
const LaneLimit& Lane::limit() const { return flow_.lane_options_[index_].limit; }
ports::Executor& Lane::executor() { return flow_.executor_; }
const ports::Clock& Lane::clock() const { return flow_.clock_; }

absl::StatusOr<Place> Lane::Reserve(const std::stop_token& stop, uint32_t wake_at) {
  RETURN_IF_ERROR(flow_.Reserve(index_, stop, wake_at));
  return Place(*this);
}

absl::StatusOr<Place> Lane::TryReserve() {
  RETURN_IF_ERROR(flow_.TryReserve(index_));
  return Place(*this);
}

absl::Status Lane::Add(ports::Executor::Job job, const std::stop_token& stop) {
  ASSIGN_OR_RETURN(Place place, Reserve(stop));
  std::move(place).Run(std::move(job));
  return absl::OkStatus();
}

absl::Status Lane::TryAdd(ports::Executor::Job job) {
  ASSIGN_OR_RETURN(Place place, TryReserve());
  std::move(place).Run(std::move(job));
  return absl::OkStatus();
}

size_t Lane::Withdraw(const void* owner) { return flow_.Withdraw(index_, owner); }

LaneCounts Lane::counts() const { return flow_.Counts(index_); }

// ---- Flow ---------------------------------------------------------------------------------------

Flow::Flow(FlowOptions options, ports::Executor& executor, const ports::Clock& clock)
    : executor_(executor),
      clock_(clock),
      lane_options_(options.lanes),
      turnstile_(std::move(options)),
      waiting_(lane_options_.size()) {
  for (size_t i = 0; i < lane_options_.size(); ++i) {
    CHECK(Find(lane_options_[i].name) == nullptr) << lane_options_[i].name;
    lanes_.emplace_back(*this, i);
  }
}

Flow::~Flow() {
  base::MutexLock lock(mutex_);
  while (!turnstile_.idle()) executor_.Wait(mutex_, became_idle_, absl::InfiniteDuration());
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

absl::Status Flow::TryReserve(size_t lane) {
  base::MutexLock lock(mutex_);
  // Who waits was here before.
  if (!waiting_[lane].empty() || turnstile_.Room(lane) == 0) {
    const LaneOptions& options = lane_options_[lane];
    return base::WithReason(
        absl::ResourceExhaustedError(absl::StrCat("lane ", options.name, " is at capacity (",
                                                  options.limit.max_pending, " pending)")),
        "LANE_FULL", {{"lane", options.name}});
  }
  turnstile_.Reserve(lane);
  return absl::OkStatus();
}

absl::Status Flow::Reserve(size_t lane, const std::stop_token& stop, uint32_t wake_at) {
  RETURN_IF_ERROR(CheckNotAborted(stop));
  if (TryReserve(lane).ok()) return absl::OkStatus();
  CHECK(at_work_for != this) << "work of lane " << lane_options_[lane].name
                             << "'s flow may not wait for a place in it";
  Waiter waiter = {.wake_at = std::clamp(wake_at, 1u, lane_options_[lane].limit.max_pending)};
  // Outside of the lock, which the callback takes: its end waits for one under way.
  const std::stop_callback wake(stop, [this, &waiter] {
    base::MutexLock lock(mutex_);
    waiter.changed.NotifyAll();
  });
  base::MutexLock lock(mutex_);
  std::deque<Waiter*>& line = waiting_[lane];
  line.push_back(&waiter);
  Grant(lane);
  while (!waiter.granted && !stop.stop_requested()) {
    executor_.Wait(mutex_, waiter.changed, absl::InfiniteDuration());
  }
  if (!stop.stop_requested()) return absl::OkStatus();
  if (waiter.granted) {
    turnstile_.Release(lane);
  } else {
    line.erase(std::find(line.begin(), line.end(), &waiter));
  }
  // It may have kept others from a place.
  Grant(lane);
  return AbortError();
}

void Flow::Grant(size_t lane) {
  std::deque<Waiter*>& line = waiting_[lane];
  while (!line.empty() && turnstile_.Room(lane) >= line.front()->wake_at) {
    turnstile_.Reserve(lane);
    line.front()->granted = true;
    line.front()->changed.NotifyAll();
    line.pop_front();
  }
}

void Flow::Release(size_t lane) {
  base::MutexLock lock(mutex_);
  turnstile_.Release(lane);
  Grant(lane);
}

size_t Flow::Withdraw(size_t lane, const void* owner) {
  // Ends after the lock: what goes with it is not ours.
  std::vector<Work> withdrawn;
  std::vector<Work> ready;
  {
    base::MutexLock lock(mutex_);
    withdrawn = turnstile_.Withdraw(lane, owner);
    Grant(lane);
    // It may have kept tokens from others.
    ready = TakeReady();
    if (turnstile_.idle()) became_idle_.NotifyAll();
  }
  for (Work& work : ready) Start(std::move(work));
  return withdrawn.size();
}

LaneCounts Flow::Counts(size_t lane) const {
  base::MutexLock lock(mutex_);
  return {.waiting = static_cast<uint32_t>(waiting_[lane].size()),
          .reserved = turnstile_.reserved(lane),
          .pending = turnstile_.pending(lane),
          .in_flight = turnstile_.running(lane)};
}

void Flow::Push(Work work) {
  std::vector<Work> ready;
  {
    base::MutexLock lock(mutex_);
    turnstile_.Push(std::move(work), clock_.MonotonicNow());
    ready = TakeReady();
  }
  for (Work& one : ready) Start(std::move(one));
}

std::vector<Work> Flow::TakeReady() {
  std::vector<Work> ready;
  const absl::Duration now = clock_.MonotonicNow();
  while (std::optional<Work> next = turnstile_.Next(now)) {
    Grant(next->lane);
    ready.push_back(*std::move(next));
  }
  return ready;
}

void Flow::Start(Work work) {
  executor_.Run([this, work = std::move(work)]() mutable { RunFrom(std::move(work)); });
}

void Flow::RunFrom(Work work) {
  while (true) {
    const Flow* outer = std::exchange(at_work_for, this);
    work.job();
    // Nothing of it is left when it counts as done.
    work.job = nullptr;
    at_work_for = outer;
    std::vector<Work> ready;
    {
      base::MutexLock lock(mutex_);
      turnstile_.Done(work.lane);
      ready = TakeReady();
      if (turnstile_.idle()) became_idle_.NotifyAll();
    }
    if (ready.empty()) return;
    // This thread goes on with the first, if nobody else wants it.
    const bool goes_on = !executor_.ShouldYield();
    for (size_t i = goes_on ? 1 : 0; i < ready.size(); ++i) Start(std::move(ready[i]));
    if (!goes_on) return;
    work = std::move(ready.front());
  }
}

}  // namespace callboard::flow
