#include "libs/director/store_reader.h"

#include <utility>

namespace callboard::director {

StoreReader::~StoreReader() {
  base::MutexLock lock(mutex_);
  while (posted_ > 0) executor_.Wait(mutex_, changed_, absl::InfiniteDuration());
}

void StoreReader::Attach(const ports::EventStore* store) {
  base::MutexLock lock(mutex_);
  ++attaching_;
  while (reading_ > 0) executor_.Wait(mutex_, changed_, absl::InfiniteDuration());
  --attaching_;
  store_ = store;
  changed_.NotifyAll();
}

bool StoreReader::Post(flow::Lane& lane, Read read) {
  absl::StatusOr<flow::Places> place = lane.TryReserve();
  if (!place.ok()) return false;
  {
    base::MutexLock lock(mutex_);
    ++posted_;
  }
  std::move(*place).Run([this, read = std::move(read)]() mutable { Run(std::move(read)); });
  return true;
}

void StoreReader::Run(Read read) {
  const ports::EventStore* store = nullptr;
  {
    base::MutexLock lock(mutex_);
    while (attaching_ > 0) executor_.Wait(mutex_, changed_, absl::InfiniteDuration());
    ++reading_;
    store = store_;
  }
  read(store);
  // It may hold the last that keeps somebody who needs what this belongs to.
  read = nullptr;
  base::MutexLock lock(mutex_);
  --reading_;
  --posted_;
  changed_.NotifyAll();
}

}  // namespace callboard::director
