#ifndef CALLBOARD_LIBS_DIRECTOR_DRIVER_H_
#define CALLBOARD_LIBS_DIRECTOR_DRIVER_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/base/bounded.h"
#include "libs/base/mutex.h"
#include "libs/core/queue.h"
#include "libs/director/engine.h"

namespace callboard::director {

struct DriverOptions {
  core::QueueOptions queue = {};
  // Calls that may wait for a turn; more are refused.
  size_t calls_max = 4096;
};

// Runs the engine on one thread, turn by turn: take every call that waits, decide and apply each,
// then reply to all.
//
// Thread-safe. No call blocks: each is answered through its callback, once, on the driver's thread
// or, when it is refused, on the caller's. A callback must not block, nor destroy the driver.
class DirectorDriver {
 public:
  using StatusReply = std::function<void(absl::StatusOr<core::QueueStatus>)>;

  explicit DirectorDriver(const DriverOptions& options);
  // Takes one last turn, so that every call is answered.
  ~DirectorDriver();
  DirectorDriver(const DirectorDriver&) = delete;
  DirectorDriver& operator=(const DirectorDriver&) = delete;

  // Answers the status as of its turn. UNAVAILABLE/OVERLOADED, at once, when too many calls wait.
  void GetQueueStatus(StatusReply reply);

  // Stops admission, with the next turn. Never refused.
  void BeginDrain();

 private:
  // What waits for a turn.
  struct Inbox {
    std::vector<Command> commands;
    std::deque<StatusReply> queries;
  };

  void RunTurns();
  void Turn(const Inbox& inbox);

  const size_t calls_max_;

  // Touched by the driver's thread only.
  DirectorEngine engine_;

  base::Mutex mutex_;
  base::CondVar changed_;
  base::BoundedQueue<StatusReply> queries_ ABSL_GUARDED_BY(mutex_);
  bool drain_wanted_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread thread_;
};

}  // namespace callboard::director

#endif  // CALLBOARD_LIBS_DIRECTOR_DRIVER_H_
