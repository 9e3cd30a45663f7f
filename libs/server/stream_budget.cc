#include "libs/server/stream_budget.h"

#include <utility>

#include "libs/base/log.h"

namespace callboard::server {

uint64_t StreamBudget::Hold(size_t bytes, std::function<void()> cut_off) {
  const absl::Duration now = clock_.MonotonicNow();
  std::vector<std::function<void()>> slowest;
  uint64_t number = 0;
  {
    base::MutexLock lock(mutex_);
    number = ++last_number_;
    held_[number] = {.bytes = bytes, .since = now, .cut_off = std::move(cut_off)};
    bytes_ += bytes;
    if (bytes_ > options_.bytes_max) slowest = TakeSlowest(now);
  }
  for (const std::function<void()>& cut : slowest) cut();
  if (!slowest.empty()) {
    base::LogWarning("server", "slow_readers_cut_off", {{"streams", slowest.size()}});
  }
  return number;
}

std::vector<std::function<void()>> StreamBudget::TakeSlowest(absl::Duration now) {
  std::vector<std::function<void()>> slowest;
  for (auto& [number, held] : held_) {
    if (bytes_ <= options_.bytes_max || number == last_number_) break;
    if (held.cut_off == nullptr) continue;
    if (now - held.since < options_.stall_timeout && bytes_ <= 2 * options_.bytes_max) break;
    slowest.push_back(std::exchange(held.cut_off, nullptr));
    bytes_ -= held.bytes;
  }
  return slowest;
}

void StreamBudget::Release(uint64_t number) {
  // Destroyed after the lock is released: it may hold the last reference to a stream.
  std::function<void()> dropped;
  base::MutexLock lock(mutex_);
  const auto found = held_.find(number);
  if (found == held_.end()) return;
  if (found->second.cut_off != nullptr) bytes_ -= found->second.bytes;
  dropped = std::move(found->second.cut_off);
  held_.erase(found);
}

size_t StreamBudget::bytes() const {
  base::MutexLock lock(mutex_);
  return bytes_;
}

}  // namespace callboard::server
