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
    job_available_.NotifyAll();
  }
  for (std::thread& thread : threads) thread.join();
}

void ThreadPool::Run(Job job) {
  base::MutexLock lock(mutex_);
  jobs_.push_back(std::move(job));
  if (jobs_.size() <= idle_threads_) {
    job_available_.NotifyOne();
  } else if (threads_.size() >= threads_max_ || stopping_ || !StartThread()) {
    has_backlog_ = true;
  }
}

bool ThreadPool::StartThread() {
  try {
    threads_.emplace_back([this] { RunJobs(); });
    return true;
  } catch (const std::system_error& error) {
    // Fewer threads are enough, as long as there is one.
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

void ThreadPool::RunJobs() {
  while (true) {
    Job job;
    {
      base::MutexLock lock(mutex_);
      ++idle_threads_;
      while (jobs_.empty() && !stopping_) job_available_.Wait(mutex_);
      --idle_threads_;
      if (jobs_.empty()) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
      has_backlog_ = jobs_.size() > idle_threads_;
    }
    job();
  }
}

size_t TotalConcurrency(const FlowOptions& options) {
  size_t threads = 0;
  for (const LaneOptions& lane : options.lanes) threads += lane.limit.concurrency;
  return threads;
}

}  // namespace callboard::flow
