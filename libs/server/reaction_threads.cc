// The threads that gRPC's reactions run on.
//
// gRPC has a completion queue for all calls of the callback API, with at least two threads. These
// hand the polling to each other at every event, so that each event wakes a thread up that finds
// nothing to do; and each of them sleeps for 100 ms when it has heard nothing for a second, deaf to
// what arrives. Programs that link this file have a queue of their own instead, with half as many
// threads as there are processors, two at least, none of which hands on or sleeps. With one thread
// a connection that never stops sending would be read without end, while nothing that follows from
// what was read is done.
//
// gRPC asks for its queue through two functions which its header declares and its shared library
// calls by name, so that the definitions below are the ones that are found (docs/adr/0012). A test
// of the director looks at its threads.
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

void React(grpc_completion_queue* queue) {
  while (true) {
    const grpc_event event =
        grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_REALTIME), nullptr);
    if (event.type == GRPC_QUEUE_SHUTDOWN) return;
    auto* reaction = static_cast<grpc_completion_queue_functor*>(event.tag);
    reaction->functor_run(reaction, event.success);
  }
}

// Thread-safe. There is one, which channels and servers share.
class Reactions {
 public:
  CompletionQueue* Enter() {
    callboard::base::MutexLock lock(mutex_);
    if (users_++ > 0) return queue_.get();
    queue_ = std::make_unique<CompletionQueue>();
    const unsigned threads = std::clamp(std::thread::hardware_concurrency() / 2, 2u, kThreadsMax);
    for (unsigned i = 0; i < threads; ++i) {
      std::thread& thread = threads_.emplace_back(React, queue_->cq());
      pthread_setname_np(thread.native_handle(), "reaction");
    }
    return queue_.get();
  }

  void Leave() {
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

// Outlives whatever of gRPC ends last.
Reactions& AllReactions() {
  static auto* const reactions = new Reactions;
  return *reactions;
}

}  // namespace

CompletionQueue* CompletionQueue::CallbackAlternativeCQ() { return AllReactions().Enter(); }

void CompletionQueue::ReleaseCallbackAlternativeCQ(CompletionQueue*) { AllReactions().Leave(); }

}  // namespace grpc
