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

// ---- Places -------------------------------------------------------------------------------------

Places::Places(Places&& other) noexcept
    : lane_(other.lane_), count_(std::exchange(other.count_, 0)) {}

Places::~Places() {
  if (count_ > 0) lane_.flow_.Release(lane_.index_, count_);
}

void Places::Run(absl::Span<ports::Executor::Job> jobs, const void* owner) && {
  CHECK_LE(jobs.size(), count_);
  count_ -= static_cast<uint32_t>(jobs.size());
  lane_.flow_.Push(lane_.index_, jobs, owner);
}

void Places::Run(ports::Executor::Job job) && {
  std::move(*this).Run(absl::MakeSpan(&job, 1), nullptr);
}

// ---- Lane ---------------------------------------------------------------------------------------

const std::string& Lane::name() const { return flow_.lane_options_[index_].name; }
const LaneLimit& Lane::limit() const { return flow_.lane_options_[index_].limit; }
ports::Executor& Lane::executor() { return flow_.executor_; }
const ports::Clock& Lane::clock() const { return flow_.clock_; }

absl::StatusOr<Places> Lane::Reserve(const std::stop_token& stop, uint32_t wanted) {
  ASSIGN_OR_RETURN(const uint32_t granted, flow_.Reserve(index_, stop, wanted));
  return Places(*this, granted);
}

bool Lane::MayWait() const { return at_work_for != &flow_; }

absl::StatusOr<Places> Lane::TryReserve() {
  RETURN_IF_ERROR(flow_.TryReserve(index_));
  return Places(*this, 1);
}

absl::Status Lane::Add(ports::Executor::Job job, const std::stop_token& stop) {
  ASSIGN_OR_RETURN(Places place, Reserve(stop));
  std::move(place).Run(std::move(job));
  return absl::OkStatus();
}

absl::Status Lane::TryAdd(ports::Executor::Job job) {
  ASSIGN_OR_RETURN(Places place, TryReserve());
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

uint32_t Flow::TakePlaces(size_t lane, uint32_t wanted) {
  // Who waits was here before.
  if (!waiting_[lane].empty()) return 0;
  const uint32_t taken = std::min(wanted, turnstile_.Room(lane));
  turnstile_.Reserve(lane, taken);
  return taken;
}

absl::Status Flow::TryReserve(size_t lane) {
  {
    base::MutexLock lock(mutex_);
    if (TakePlaces(lane, 1) > 0) return absl::OkStatus();
  }
  const LaneOptions& options = lane_options_[lane];
  return base::WithReason(
      absl::ResourceExhaustedError(absl::StrCat("lane ", options.name, " is at capacity (",
                                                options.limit.max_pending, " pending)")),
      "LANE_FULL", {{"lane", options.name}});
}

absl::StatusOr<uint32_t> Flow::Reserve(size_t lane, const std::stop_token& stop, uint32_t wanted) {
  CHECK(0 < wanted && wanted <= lane_options_[lane].limit.max_pending) << wanted;
  CHECK(at_work_for != this) << "work may not wait for a place in its own flow: lane "
                             << lane_options_[lane].name;
  RETURN_IF_ERROR(CheckNotAborted(stop));
  {
    base::MutexLock lock(mutex_);
    if (const uint32_t taken = TakePlaces(lane, wanted); taken > 0) return taken;
  }
  Waiter waiter = {.wanted = wanted};
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
  if (!stop.stop_requested()) return wanted;
  if (waiter.granted) {
    turnstile_.Release(lane, wanted);
  } else {
    line.erase(std::find(line.begin(), line.end(), &waiter));
  }
  // It may have kept others from a place.
  Grant(lane);
  return AbortError();
}

void Flow::Grant(size_t lane) {
  std::deque<Waiter*>& line = waiting_[lane];
  while (!line.empty() && turnstile_.Room(lane) >= line.front()->wanted) {
    Waiter& waiter = *line.front();
    line.pop_front();
    turnstile_.Reserve(lane, waiter.wanted);
    waiter.granted = true;
    waiter.changed.NotifyAll();
  }
}

void Flow::Release(size_t lane, uint32_t places) {
  base::MutexLock lock(mutex_);
  turnstile_.Release(lane, places);
  Grant(lane);
}

size_t Flow::Withdraw(size_t lane, const void* owner) {
  // Ends after the lock: what goes with it is not ours.
  std::vector<Work> withdrawn;
  Works ready;
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

void Flow::Push(size_t lane, absl::Span<ports::Executor::Job> jobs, const void* owner) {
  Works ready;
  {
    base::MutexLock lock(mutex_);
    const absl::Duration now = Now();
    for (ports::Executor::Job& job : jobs) turnstile_.Push({lane, owner, std::move(job)}, now);
    ready = TakeReady();
  }
  for (Work& work : ready) Start(std::move(work));
}

absl::Duration Flow::Now() const { return plain_ ? absl::ZeroDuration() : clock_.MonotonicNow(); }

Flow::Works Flow::TakeReady() {
  Works ready;
  const absl::Duration now = Now();
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
    Works ready;
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
