#ifndef CALLBOARD_LIBS_DIRECTOR_DRIVER_H_
#define CALLBOARD_LIBS_DIRECTOR_DRIVER_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/base/mutex.h"
#include "libs/core/queue.h"
#include "libs/director/command.h"
#include "libs/director/director.h"

namespace callboard::director {

struct DriverOptions {
  EngineOptions engine = {};
  // Calls that may wait for a turn; more are refused.
  size_t calls_max = 4096;
  // Agents' messages that may wait beside them; for more their Sessions are not read.
  size_t agent_messages_max = 4096;
};

// A Director and the one thread that takes its turns.
//
// Thread-safe. No call blocks: each is answered through its callback, once, on the driver's thread
// or, when it is refused, on the caller's. A callback must not block, nor destroy the driver.
class DirectorDriver {
 public:
  // Recovers before it returns. The store's error when it can be neither written nor, on a full
  // disk, read.
  static absl::StatusOr<std::unique_ptr<DirectorDriver>> Open(const DriverOptions& options,
                                                              const World& world);
  // Takes one last turn, so that every call is answered.
  ~DirectorDriver();
  DirectorDriver(const DirectorDriver&) = delete;
  DirectorDriver& operator=(const DirectorDriver&) = delete;

  // A name for a call that may have to wait.
  CallId NextCall() { return CallId(++last_call_); }

  // Hands over a command for the next turn. False when too many wait: a caller's command is refused
  // with UNAVAILABLE/OVERLOADED, an agent's is left as it was, to be posted again.
  bool Post(Command&& command);

  // Answers the status as of its turn.
  void GetQueueStatus(std::function<void(absl::StatusOr<core::QueueStatus>)> reply);

  // Stops admission, with the next turn. Never refused.
  void BeginDrain();

 private:
  DirectorDriver(const DriverOptions& options, std::unique_ptr<Director> director);

  void TakeTurns();
  bool HasRoom(const Command& command) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const DriverOptions options_;
  std::atomic<uint64_t> last_call_ = 0;

  // Touched by the driver's thread only.
  std::unique_ptr<Director> director_;

  base::Mutex mutex_;
  base::CondVar changed_;
  std::vector<Command> waiting_ ABSL_GUARDED_BY(mutex_);
  size_t calls_waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  bool drain_wanted_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread thread_;
};

}  // namespace callboard::director

#endif  // CALLBOARD_LIBS_DIRECTOR_DRIVER_H_
