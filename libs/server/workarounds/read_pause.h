// A bound on the calls that gRPC has read and no handler will serve, or not yet.

#ifndef CALLBOARD_LIBS_SERVER_WORKAROUNDS_READ_PAUSE_H_
#define CALLBOARD_LIBS_SERVER_WORKAROUNDS_READ_PAUSE_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_interceptor.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/time/time.h"
#include "libs/base/mutex.h"
#include "libs/ports/environment.h"

namespace callboard::server {

struct ReadPauseLimits {
  // Reading stops above this number of unserved calls, and continues at half of it.
  size_t unserved_max;
  // Unserved calls that do not end during this time are not counted any more.
  absl::Duration pause_max;
};

// Pauses the reading of accepted connections while too many calls are unserved.
//
// A call is unserved from the moment when gRPC has read it until a reaction thread takes it. A call
// that was reset before its request arrived is unserved until it ends. Each costs 24 KiB. gRPC
// reads on reaction threads and on threads of its own, as fast as the bytes arrive. If clients
// reset calls on several connections, gRPC reads calls faster than the server can end them, without
// a bound.
//
// To gRPC, a paused connection looks as if it had no more bytes: recvmsg(), which the .cc file
// defines, returns EAGAIN. gRPC then waits for an event of the socket. The end of the pause causes
// that event.
//
// A client can keep calls without a request from ending, by not reading the answers. They must not
// stop all other clients, so the limit rises by `unserved_max` when a pause has lasted `pause_max`.
// It returns to its first value when these calls have ended.
//
// The reaction threads and recvmsg() belong to the process, so there is one instance of this class,
// except in tests. Thread-safe.
class ReadPause {
 public:
  // Calls `then` once, after `wait`, on any thread.
  using RunAfter = std::function<void(absl::Duration wait, std::function<void()> then)>;

  // The arguments outlive the object, which outlives everything that `run_after` has to call.
  ReadPause(const ReadPauseLimits& limits, const ports::Clock& clock, RunAfter run_after)
      : limits_(limits),
        clock_(clock),
        run_after_(std::move(run_after)),
        unserved_max_(limits.unserved_max) {}

  static ReadPause& OfProcess();

  // Adds a socket that can be paused. Others cannot, not even one that gets the same descriptor
  // after this one was closed.
  void AddSocket(int socket);
  void AddUnserved();
  void RemoveUnserved();
  // Returns true if `socket` must not be read now. It gets an event when it may be read again.
  bool Holds(int socket);

 private:
  // Ends a pause that has lasted too long.
  void EndLongPause() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Resume() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const ReadPauseLimits limits_;
  const ports::Clock& clock_;
  const RunAfter run_after_;
  std::atomic<size_t> unserved_ = 0;
  std::atomic<size_t> unserved_max_;
  std::atomic<bool> paused_ = false;
  base::Mutex mutex_;
  absl::Duration paused_since_ ABSL_GUARDED_BY(mutex_);
  // By descriptor, with the inode, which tells whether the descriptor is still that socket.
  absl::flat_hash_map<int, uint64_t> sockets_ ABSL_GUARDED_BY(mutex_);
  // The sockets that need an event at the end of the pause.
  absl::flat_hash_set<int> held_ ABSL_GUARDED_BY(mutex_);
};

// Returns an allocator that only reports each new call to `pause`, because gRPC asks it on the
// thread that has read the call. gRPC allocates the context itself.
std::unique_ptr<grpc::ContextAllocator> NewUnservedCallCounter(ReadPause& pause);

// Returns interceptors that tell `pause` when a call is served or ends.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
NewReadPauseInterceptorFactory(ReadPause& pause);

}  // namespace callboard::server

#endif  // CALLBOARD_LIBS_SERVER_WORKAROUNDS_READ_PAUSE_H_
