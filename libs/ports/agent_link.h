#ifndef CALLBOARD_LIBS_PORTS_AGENT_LINK_H_
#define CALLBOARD_LIBS_PORTS_AGENT_LINK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "libs/core/session.h"

namespace callboard::ports {

// The reason for the end of a Session when a message was larger than the receiver accepts.
inline constexpr char kMessageTooLarge[] = "MESSAGE_TOO_LARGE";

// The director's end of its Sessions with agents. Messages from agents arrive at an AgentListener.
//
// Thread-safe. The methods do not block, and do not call the listener before they return.
class AgentLink {
 public:
  virtual ~AgentLink() = default;

  // Sends the messages in order, after all messages sent before in this Session, and together if
  // they fit. If the Session has ended, starts are reported with OnStartNotSent(). Other messages
  // are dropped, because the next Session begins with the dispatches that the agent knows of.
  virtual void Send(core::AgentSessionId session, std::vector<core::DirectorMessage> messages) = 0;

  // Ends all Sessions and dials the agents again, now with `director_epoch`.
  virtual void Redial(uint64_t director_epoch) = 0;
};

// Receives the events of Sessions, on threads of the AgentLink. Implementations must not block.
class AgentListener {
 public:
  virtual ~AgentListener() = default;

  // A Session was opened. Always the first call for a Session. Returns false if the director is
  // overloaded; the link then repeats the call.
  virtual bool OnSessionOpened(core::AgentSessionId session, const core::SessionOpened& opened) = 0;
  // Receives messages that arrived together, in order, except those for which there is another
  // call. Returns false, without having accepted any of them, if the director is overloaded; the
  // link then repeats the call.
  virtual bool OnMessages(core::AgentSessionId session,
                          std::vector<core::AgentMessage> messages) = 0;
  virtual void OnOutput(core::AgentSessionId session, core::RunOutput output) = 0;
  // An open Session has ended. `cause` has the reason kMessageTooLarge if a message was too large.
  virtual void OnSessionClosed(core::AgentSessionId session, const absl::Status& cause) = 0;
  // A Session with the agent `name` could not be opened.
  virtual void OnUnreachable(const std::string& name, const absl::Status& cause) = 0;
  // A start was not sent.
  virtual void OnStartNotSent(const core::FenceToken& token) = 0;
};

}  // namespace callboard::ports

#endif  // CALLBOARD_LIBS_PORTS_AGENT_LINK_H_
