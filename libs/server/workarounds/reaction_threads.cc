// Replaces the threads that run gRPC's reactions.
//
// gRPC has one completion queue for all calls of the callback API, with at least two threads. At
// every event, one thread hands the polling over to another one, so each event wakes up a thread
// that finds nothing to do. A thread without an event for a second sleeps for 100 ms, and does not
// react to events meanwhile. Programs that link this file use their own queue instead. Its threads
// neither hand over nor sleep. It has half as many threads as the machine has processors, but at
// least two: a single thread could be kept busy by reading from one connection that never stops
// sending, and would not run the reactions to what it has read.
//
// gRPC gets its queue through two functions, which its header declares and its shared library calls
// by name. The dynamic linker therefore finds the definitions below (docs/adr/0012). A test of the
// director checks its threads.
#include <grpc/grpc.h>
#include <grpc/support/time.h>
#include <grpcpp/completion_queue.h>
#include <pthread.h>

#include <algorithm>
#include <memory>
#include <thread>
#include <vector>

#include "libs/base/mutex.h"

namespace grpc {
namespace {

constexpr unsigned kThreadsMax = 16;

void RunReactions(grpc_completion_queue* queue) {
  while (true) {
    const grpc_event event =
        grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_REALTIME), nullptr);
    if (event.type == GRPC_QUEUE_SHUTDOWN) return;
    auto* reaction = static_cast<grpc_completion_queue_functor*>(event.tag);
    reaction->functor_run(reaction, event.success);
  }
}

// The completion queue and its threads. Channels and servers share one instance and count as its
// users. Thread-safe.
class ReactionThreads {
 public:
  CompletionQueue* Acquire() {
    callboard::base::MutexLock lock(mutex_);
    if (users_++ > 0) return queue_.get();
    queue_ = std::make_unique<CompletionQueue>();
    const unsigned threads = std::clamp(std::thread::hardware_concurrency() / 2, 2u, kThreadsMax);
    for (unsigned i = 0; i < threads; ++i) {
      std::thread& thread = threads_.emplace_back(RunReactions, queue_->cq());
      pthread_setname_np(thread.native_handle(), "reaction");
    }
    return queue_.get();
  }

  void Release() {
    callboard::base::MutexLock lock(mutex_);
    if (--users_ > 0) return;
    queue_->Shutdown();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    queue_.reset();
  }

 private:
  callboard::base::Mutex mutex_;
  size_t users_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<CompletionQueue> queue_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
};

// Never destroyed, because gRPC objects may be destroyed at any time before the process ends.
ReactionThreads& GlobalReactionThreads() {
  static auto* const reaction_threads = new ReactionThreads;
  return *reaction_threads;
}

}  // namespace

CompletionQueue* CompletionQueue::CallbackAlternativeCQ() {
  return GlobalReactionThreads().Acquire();
}

void CompletionQueue::ReleaseCallbackAlternativeCQ(CompletionQueue*) {
  GlobalReactionThreads().Release();
}

}  // namespace grpc
