#ifndef CALLBOARD_LIBS_AGENT_OBSERVER_H_
#define CALLBOARD_LIBS_AGENT_OBSERVER_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "libs/core/ids.h"
#include "libs/core/record.h"
#include "libs/core/session.h"
#include "libs/ports/task_runner.h"

namespace callboard::agent {

// How an agent stands.
struct AgentLevels {
  core::LaneLoads lanes = {};
  // Results that no director has acknowledged.
  size_t unacknowledged_results = 0;
  // Items of directors that were ignored, because this version does not know them.
  uint64_t unknown_items = 0;
  // A director has a Session with it.
  bool connected = false;
  bool draining = false;

  friend bool operator==(const AgentLevels&, const AgentLevels&) = default;
};

// Hears what an agent does, on its threads, of which it must block none.
class Observer {
 public:
  virtual ~Observer() = default;

  // A run was accepted, its process began, it is over: also one that nobody waits for.
  virtual void OnRunAccepted(const ports::RunOrder& order) = 0;
  virtual void OnRunStarted(const core::FenceToken& token, int64_t pid) = 0;
  virtual void OnRunEnded(const core::FenceToken& token, const core::RunResult& result) = 0;
  // A task was refused for a reason of the agent's own: its command, or its disk.
  virtual void OnCannotRun(const absl::Status& why) = 0;
  // At the start and with every turn.
  virtual void OnLevels(const AgentLevels& levels) = 0;
};

}  // namespace callboard::agent

#endif  // CALLBOARD_LIBS_AGENT_OBSERVER_H_
