#ifndef CALLBOARD_LIBS_FLOW_THREAD_POOL_H_
#define CALLBOARD_LIBS_FLOW_THREAD_POOL_H_

#include <atomic>
#include <cstddef>
#include <deque>
#include <thread>
#include <vector>

#include "libs/base/mutex.h"
#include "libs/flow/flow_options.h"
#include "libs/ports/executor.h"

namespace callboard::flow {

// Threads that run jobs, each started when it is first needed.
//
// Thread-safe.
class ThreadPool final : public ports::Executor {
 public:
  // REQUIRES: threads_max > 0.
  explicit ThreadPool(size_t threads_max);
  // Runs what waits. REQUIRES: called from none of its threads.
  ~ThreadPool() override;
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  void Run(Job job) override;
  bool ShouldYield() const override { return overdue_.load(std::memory_order_relaxed); }
  void Wait(base::Mutex& mutex, base::CondVar& changed, absl::Duration timeout) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

 private:
  // False when the system has none left.
  bool StartThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunAll();

  const size_t threads_max_;

  base::Mutex mutex_;
  base::CondVar something_to_run_;
  std::deque<Job> waiting_ ABSL_GUARDED_BY(mutex_);
  // More jobs wait than threads rest.
  std::atomic<bool> overdue_ = false;
  size_t resting_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
};

// As many threads as all lanes run at once: no lane's work waits for a thread of another's.
size_t ThreadsFor(const FlowOptions& options);

}  // namespace callboard::flow

#endif  // CALLBOARD_LIBS_FLOW_THREAD_POOL_H_
