#include "libs/director/store_reader.h"

#include <utility>

namespace callboard::director {

StoreReader::~StoreReader() {
  {
    base::MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void StoreReader::Attach(const ports::EventStore* store) {
  base::MutexLock lock(mutex_);
  ++attaching_;
  while (reading_) changed_.Wait(mutex_);
  --attaching_;
  store_ = store;
  changed_.NotifyAll();
}

bool StoreReader::Post(Read read) {
  base::MutexLock lock(mutex_);
  if (waiting_.size() >= waiting_max_) return false;
  waiting_.push_back(std::move(read));
  changed_.NotifyAll();
  return true;
}

void StoreReader::ReadAll() {
  while (true) {
    Read read;
    const ports::EventStore* store = nullptr;
    {
      base::MutexLock lock(mutex_);
      reading_ = false;
      changed_.NotifyAll();
      while ((waiting_.empty() && !stopping_) || attaching_ > 0) changed_.Wait(mutex_);
      if (waiting_.empty()) return;
      read = std::move(waiting_.front());
      waiting_.pop_front();
      reading_ = true;
      store = store_;
    }
    read(store);
  }
}

}  // namespace callboard::director
