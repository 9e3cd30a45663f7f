#ifndef CALLBOARD_LIBS_AGENT_OBSERVER_H_
#define CALLBOARD_LIBS_AGENT_OBSERVER_H_

#include <cstddef>

#include "libs/core/record.h"
#include "libs/core/session.h"

namespace callboard::agent {

// How an agent stands.
struct AgentLevels {
  core::LaneLoads lanes = {};
  // Results that no director has acknowledged.
  size_t unacknowledged_results = 0;
  // A director has a Session with it.
  bool connected = false;
  bool draining = false;

  friend bool operator==(const AgentLevels&, const AgentLevels&) = default;
};

// Hears what an agent does, on its threads, of which it must block none.
class Observer {
 public:
  virtual ~Observer() = default;

  // Also of a run whose result nobody waits for.
  virtual void OnRunEnded(core::RunResult::End end) = 0;
  // At the start and with every turn.
  virtual void OnLevels(const AgentLevels& levels) = 0;
};

}  // namespace callboard::agent

#endif  // CALLBOARD_LIBS_AGENT_OBSERVER_H_
