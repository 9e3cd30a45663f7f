#include "libs/flow/lane_scheduler.h"

#include <algorithm>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "libs/base/check.h"

namespace callboard::flow {
namespace {

bool Covers(const Tokens& free, const Tokens& demand) {
  return free.cpu >= demand.cpu && free.io >= demand.io && free.memory >= demand.memory;
}

Tokens Min(const Tokens& a, const Tokens& b) {
  return {std::min(a.cpu, b.cpu), std::min(a.io, b.io), std::min(a.memory, b.memory)};
}

Tokens Subtract(const Tokens& a, const Tokens& b) {
  return {a.cpu - b.cpu, a.io - b.io, a.memory - b.memory};
}

Tokens Add(const Tokens& a, const Tokens& b) {
  return {a.cpu + b.cpu, a.io + b.io, a.memory + b.memory};
}

}  // namespace

LaneScheduler::LaneScheduler(FlowOptions options)
    : plain_(!options.tokens.has_value()),
      starvation_(options.starvation),
      free_(options.tokens.value_or(Tokens())) {
  for (LaneOptions& lane : options.lanes) {
    CHECK_GT(lane.limit.concurrency, 0u) << lane.name;
    CHECK_GT(lane.limit.max_pending, 0u) << lane.name;
    lane.demand = Min(lane.demand, free_);
    lanes_.push_back({.options = std::move(lane), .queue = {}});
  }
}

uint32_t LaneScheduler::Room(size_t lane) const {
  return lanes_[lane].options.limit.max_pending - pending(lane) - reserved(lane);
}

void LaneScheduler::Reserve(size_t lane, uint32_t places) {
  CHECK_GE(Room(lane), places) << lanes_[lane].options.name;
  lanes_[lane].reserved += places;
}

void LaneScheduler::Release(size_t lane, uint32_t places) {
  CHECK_GE(lanes_[lane].reserved, places) << lanes_[lane].options.name;
  lanes_[lane].reserved -= places;
}

void LaneScheduler::Push(Work work, absl::Duration now) {
  Release(work.lane);
  LaneState& lane = lanes_[work.lane];
  lane.queue.push_back({std::move(work), now, ++last_sequence_});
  ++unfinished_;
}

bool LaneScheduler::IsStarved(const LaneState& lane, absl::Duration now) const {
  return now - std::max(lane.queue.front().pushed_at, lane.last_start) >= starvation_;
}

bool LaneScheduler::RunsBefore(const LaneState& a, const LaneState& b, absl::Duration now) const {
  const bool a_starved = IsStarved(a, now);
  const bool b_starved = IsStarved(b, now);
  if (a_starved != b_starved) return a_starved;
  if (!a_starved && a.options.priority != b.options.priority) {
    return a.options.priority > b.options.priority;
  }
  return a.queue.front().sequence < b.queue.front().sequence;
}

std::optional<Work> LaneScheduler::Next(absl::Duration now) {
  absl::InlinedVector<LaneState*, 8> ready;
  for (LaneState& lane : lanes_) {
    if (lane.queue.empty() || lane.running >= lane.options.limit.concurrency) continue;
    if (plain_) return Take(lane, now);
    ready.push_back(&lane);
  }
  std::sort(ready.begin(), ready.end(),
            [&](const LaneState* a, const LaneState* b) { return RunsBefore(*a, *b, now); });
  Tokens left = free_;
  for (LaneState* lane : ready) {
    const Tokens& demand = lane->options.demand;
    if (Covers(left, demand)) return Take(*lane, now);
    if (IsStarved(*lane, now)) left = Subtract(left, Min(left, demand));
  }
  return std::nullopt;
}

Work LaneScheduler::Take(LaneState& lane, absl::Duration now) {
  lane.last_start = now;
  Work work = std::move(lane.queue.front().work);
  lane.queue.pop_front();
  ++lane.running;
  free_ = Subtract(free_, lane.options.demand);
  return work;
}

void LaneScheduler::Done(size_t lane) {
  CHECK_GT(lanes_[lane].running, 0u) << lanes_[lane].options.name;
  --lanes_[lane].running;
  --unfinished_;
  free_ = Add(free_, lanes_[lane].options.demand);
}

std::vector<Work> LaneScheduler::Withdraw(size_t lane, const void* owner) {
  std::deque<Pending>& queue = lanes_[lane].queue;
  const auto first_withdrawn = std::stable_partition(
      queue.begin(), queue.end(),
      [owner](const Pending& pending) { return pending.work.owner != owner; });
  std::vector<Work> withdrawn;
  for (auto it = first_withdrawn; it != queue.end(); ++it) withdrawn.push_back(std::move(it->work));
  queue.erase(first_withdrawn, queue.end());
  unfinished_ -= withdrawn.size();
  return withdrawn;
}

}  // namespace callboard::flow
