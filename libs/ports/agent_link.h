#ifndef CALLBOARD_LIBS_PORTS_AGENT_LINK_H_
#define CALLBOARD_LIBS_PORTS_AGENT_LINK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "libs/core/session.h"

namespace callboard::ports {

// The reason of a Session's end: a message was larger than its other end takes.
inline constexpr char kMessageTooLarge[] = "MESSAGE_TOO_LARGE";

// The director's end of its Sessions with the agents. What agents say comes in through an
// AgentListener.
//
// Thread-safe. Nothing here waits, and nothing calls back into the director before it returns.
class AgentLink {
 public:
  virtual ~AgentLink() = default;

  // Says `items` in their order, together where they fit, after everything said before in this
  // Session. A start for a Session that is gone is reported to the director as not written;
  // everything else that cannot be said is dropped: the next Session begins with what the agent
  // knows.
  virtual void Say(core::SessionId session, std::vector<core::DirectorItem> items) = 0;

  // Ends every Session. From now on agents are dialled in the name of `director_epoch`.
  virtual void Redial(uint64_t director_epoch) = 0;
};

// Hears what happens to Sessions, on threads of the link's. Nothing here may wait.
class AgentListener {
 public:
  virtual ~AgentListener() = default;

  // The first of a Session. False when there is too much to do: the link comes back with it.
  virtual bool OnOpened(core::SessionId session, const core::AgentOpened& opened) = 0;
  // What came in one message, in its order. False as above; nothing of it was taken then.
  virtual bool OnItems(core::SessionId session, const std::vector<core::AgentItem>& items) = 0;
  virtual void OnOutput(core::SessionId session, core::OutputWritten output) = 0;
  // A Session that was opened is over. The reason in `why` is kMessageTooLarge where that ended it.
  virtual void OnBroken(core::SessionId session, const absl::Status& why) = 0;
  // A Session with an agent whose name is known could not be opened.
  virtual void OnUnreachable(const std::string& name, const absl::Status& why) = 0;
  // A start never left this process.
  virtual void OnNotWritten(const core::FenceToken& token) = 0;
};

}  // namespace callboard::ports

#endif  // CALLBOARD_LIBS_PORTS_AGENT_LINK_H_
