#ifndef CALLBOARD_LIBS_DIRECTOR_ENGINE_H_
#define CALLBOARD_LIBS_DIRECTOR_ENGINE_H_

#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "libs/core/queue.h"

namespace callboard::director {

// Stops admission for the rest of this process's life.
struct BeginDrain {};

using Command = std::variant<BeginDrain>;

// Admission has stopped.
struct DrainBegan {};

using Event = std::variant<DrainBegan>;

// The rules of the queue as a state machine: a command is decided into events, and events are the
// only way the state changes.
//
// Passive and pure: no threads, no I/O, no clock. Not thread-safe.
class DirectorEngine {
 public:
  explicit DirectorEngine(const core::QueueOptions& options) : options_(options) {}

  // What `command` leads to; changes nothing.
  std::vector<Event> Decide(const Command& command) const;

  void Apply(const Event& event);

  core::QueueStatus Status() const;

 private:
  const core::QueueOptions options_;
  bool draining_ = false;
};

}  // namespace callboard::director

#endif  // CALLBOARD_LIBS_DIRECTOR_ENGINE_H_
