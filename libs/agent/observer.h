// The port through which an agent reports to its metrics and logs.

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

// The state of an agent at the end of a turn, as its metrics show it.
struct AgentGauges {
  core::LaneLoads lanes = {};
  // Results that no director has acknowledged.
  size_t unacknowledged_results = 0;
  // Items in directors' messages that this version does not know and ignored.
  uint64_t unknown_items = 0;
  // A director has an open Session with the agent.
  bool connected = false;
  bool draining = false;

  friend bool operator==(const AgentGauges&, const AgentGauges&) = default;
};

// Receives notifications of what an agent does. All methods are called on the agent's own threads
// and must not block.
class Observer {
 public:
  virtual ~Observer() = default;

  // A run was accepted, its process started, the run ended. Includes runs whose result no director
  // will receive, such as runs that were fenced off.
  virtual void OnRunAccepted(const ports::RunRequest& request) = 0;
  virtual void OnRunStarted(const core::FenceToken& token, int64_t pid) = 0;
  virtual void OnRunEnded(const core::FenceToken& token, const core::RunResult& result) = 0;
  // A task was rejected for a fault of the agent, not of the task: its command cannot be executed,
  // or its disk is full.
  virtual void OnCannotRun(const absl::Status& status) = 0;
  // Called once at the start and then after every turn.
  virtual void OnTurnEnd(const AgentGauges& gauges) = 0;
};

}  // namespace callboard::agent

#endif  // CALLBOARD_LIBS_AGENT_OBSERVER_H_
