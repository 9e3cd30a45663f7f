#include "libs/server/readiness.h"

#include <utility>

namespace callboard::server {

void Readiness::Set(std::string why_not) {
  base::MutexLock lock(mutex_);
  const bool is_change = why_not.empty() != why_not_.empty();
  why_not_ = std::move(why_not);
  if (is_change && told_) told_(why_not_.empty());
}

std::string Readiness::why_not() const {
  base::MutexLock lock(mutex_);
  return why_not_;
}

void Readiness::Watch(std::function<void(bool ready)> told) {
  base::MutexLock lock(mutex_);
  told_ = std::move(told);
  if (told_) told_(why_not_.empty());
}

}  // namespace callboard::server
