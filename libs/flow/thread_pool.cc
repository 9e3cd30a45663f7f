#include "libs/flow/thread_pool.h"

#include <system_error>
#include <utility>

#include "libs/base/check.h"

namespace callboard::flow {

ThreadPool::ThreadPool(size_t threads_max) : threads_max_(threads_max) {
  CHECK_GT(threads_max, 0u);
}

ThreadPool::~ThreadPool() {
  std::vector<std::thread> threads;
  {
    base::MutexLock lock(mutex_);
    stopping_ = true;
    threads.swap(threads_);
    something_to_run_.NotifyAll();
  }
  for (std::thread& thread : threads) thread.join();
}

void ThreadPool::Run(Job job) {
  base::MutexLock lock(mutex_);
  waiting_.push_back(std::move(job));
  if (waiting_.size() <= resting_) {
    something_to_run_.NotifyOne();
  } else if (threads_.size() >= threads_max_ || stopping_ || !StartThread()) {
    overdue_ = true;
  }
}

bool ThreadPool::StartThread() {
  try {
    threads_.emplace_back([this] { RunAll(); });
    return true;
  } catch (const std::system_error& error) {
    // Fewer threads will do, as long as there is one.
    CHECK(!threads_.empty()) << error.what();
    return false;
  }
}

void ThreadPool::Wait(base::Mutex& mutex, base::CondVar& changed, absl::Duration timeout) {
  if (timeout == absl::InfiniteDuration()) {
    changed.Wait(mutex);
  } else {
    changed.WaitFor(mutex, timeout);
  }
}

void ThreadPool::RunAll() {
  while (true) {
    Job job;
    {
      base::MutexLock lock(mutex_);
      ++resting_;
      while (waiting_.empty() && !stopping_) something_to_run_.Wait(mutex_);
      --resting_;
      if (waiting_.empty()) return;
      job = std::move(waiting_.front());
      waiting_.pop_front();
      overdue_ = waiting_.size() > resting_;
    }
    job();
  }
}

size_t ThreadsFor(const FlowOptions& options) {
  size_t threads = 0;
  for (const LaneOptions& lane : options.lanes) threads += lane.limit.concurrency;
  return threads;
}

}  // namespace callboard::flow
