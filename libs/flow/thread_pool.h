#ifndef CALLBOARD_LIBS_FLOW_THREAD_POOL_H_
#define CALLBOARD_LIBS_FLOW_THREAD_POOL_H_

#include <atomic>
#include <cstddef>
#include <deque>
#include <thread>
#include <vector>

#include "libs/base/mutex.h"
#include "libs/flow/limits.h"
#include "libs/ports/environment.h"

namespace callboard::flow {

// An executor with up to `threads_max` threads. Each thread is started when it is first needed.
//
// Thread-safe.
class ThreadPool final : public ports::Executor {
 public:
  // REQUIRES: threads_max > 0.
  explicit ThreadPool(size_t threads_max);
  // Runs the waiting jobs, then joins the threads. REQUIRES: not called on a thread of the pool.
  ~ThreadPool() override;
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  void Run(Job job) override;
  bool ShouldYield() const override { return has_backlog_.load(std::memory_order_relaxed); }
  void Wait(base::Mutex& mutex, base::CondVar& changed, absl::Duration timeout) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

 private:
  // Returns false if the system has no threads left.
  bool StartThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunJobs();

  const size_t threads_max_;

  base::Mutex mutex_;
  base::CondVar job_available_;
  std::deque<Job> jobs_ ABSL_GUARDED_BY(mutex_);
  // More jobs wait than threads are idle.
  std::atomic<bool> has_backlog_ = false;
  size_t idle_threads_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
};

// Returns how many jobs all lanes together run at a time. A pool with as many threads never makes a
// lane wait for another lane's thread.
size_t TotalConcurrency(const FlowOptions& options);

}  // namespace callboard::flow

#endif  // CALLBOARD_LIBS_FLOW_THREAD_POOL_H_
