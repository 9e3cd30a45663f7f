#ifndef CALLBOARD_LIBS_PORTS_AGENT_LINK_H_
#define CALLBOARD_LIBS_PORTS_AGENT_LINK_H_

#include <cstdint>
#include <vector>

#include "libs/core/session.h"

namespace callboard::ports {

// The director's end of its Sessions with the agents. What agents say comes in through the
// director's own calls.
//
// Thread-safe. Nothing here waits, and nothing calls back into the director before it returns.
class AgentLink {
 public:
  virtual ~AgentLink() = default;

  // Says `item`, after everything said before in this Session. A start for a Session that is gone
  // is reported to the director as not written; everything else that cannot be said is dropped:
  // the next Session begins with what the agent knows.
  virtual void Say(core::SessionId session, core::DirectorItem item) = 0;

  // Ends every Session. From now on agents are dialled in the name of `director_epoch`.
  virtual void Redial(uint64_t director_epoch) = 0;
};

}  // namespace callboard::ports

#endif  // CALLBOARD_LIBS_PORTS_AGENT_LINK_H_
