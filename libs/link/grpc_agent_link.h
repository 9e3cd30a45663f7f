// The director's gRPC connections to agents: one Session each, and the rules for dialling again.

#ifndef CALLBOARD_LIBS_LINK_GRPC_AGENT_LINK_H_
#define CALLBOARD_LIBS_LINK_GRPC_AGENT_LINK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/core/limits.h"
#include "libs/core/queue.h"
#include "libs/core/session.h"
#include "libs/ports/agent_link.h"
#include "libs/ports/environment.h"

namespace callboard::link {

namespace internal {
class LinkCore;
}  // namespace internal

struct LinkOptions {
  // Sent to agents in the opening message.
  core::LeaseOptions lease = {};
  // The minimum and maximum delay before an agent is dialled again. The delay doubles with each
  // failure; up to half of it is subtracted as jitter.
  absl::Duration redial_min = absl::Milliseconds(50);
  absl::Duration redial_max = absl::Seconds(5);
  // Maximum rate of dials to unreachable agents, all together. With many of them, each is dialled
  // less often than every `redial_max`. New addresses have a separate budget of the same rate, with
  // bursts of up to one second's worth.
  uint32_t redials_per_second = 100;
  // Maximum number of announced addresses that no Session has reached yet. More are not dialled.
  ptrdiff_t unreached_max = core::kUnreachedAgentsMax;
  // Minimum time between two dials of an agent when announcements request them.
  absl::Duration announced_dial_period = absl::Seconds(1);
  // An announced agent that is not connected is dialled until this long after its last
  // announcement.
  absl::Duration forget_after = absl::Minutes(1);
  // Interval and timeout of the pings that detect a dead connection.
  absl::Duration keepalive = absl::Seconds(10);
};

// The director's end of its Sessions over gRPC: one bidirectional call per agent, dialled until it
// is open and again whenever it breaks.
//
// Thread-safe. Only Shutdown(), Stop() and the destructor block.
class GrpcAgentLink final : public ports::AgentLink {
 public:
  // `clock` outlives the link.
  GrpcAgentLink(const LinkOptions& options, const ports::Clock& clock);
  // Calls Stop().
  ~GrpcAgentLink() override;

  // Starts dialling agents and passing their messages to `listener`, which must live until Stop()
  // returns.
  void Start(ports::AgentListener& listener);
  // Sends what is queued and ends all Sessions; cancels those whose agents have not taken
  // everything within `timeout`. The listener gets no further calls, and no agent is dialled again.
  void Shutdown(absl::Duration timeout);
  // Same as Shutdown() without waiting.
  void Stop();

  // How long an address is dialled: always, or only while its agent announces itself.
  enum class DialPolicy { kAlways, kWhileAnnounced };
  // Dials the agent at host:port if it is not connected and was not dialled a moment ago. `name`:
  // as the agent announced itself. An agent that was never reached is dialled only at its latest
  // address.
  void Dial(const std::string& address, DialPolicy policy, const std::string& name = "");

  void Send(core::AgentSessionId session, std::vector<core::DirectorMessage> messages) override;
  void Redial(uint64_t director_epoch) override;

  // Confirms to the agent that its output was stored. Does nothing if the Session has ended.
  void AcknowledgeOutput(core::AgentSessionId session, const core::OutputAck& acknowledged);
  // Ends a Session whose agent was rejected. The agent is dialled again later.
  void EndSession(core::AgentSessionId session, const absl::Status& reason);

  // Items in agents' messages that this version does not know and ignored.
  uint64_t unknown_items() const;
  // Number of addresses that have a Session, are being dialled or wait to be dialled.
  size_t address_count() const;

 private:
  // Shared with pending calls and timers, which may end after the link.
  const std::shared_ptr<internal::LinkCore> core_;
};

}  // namespace callboard::link

#endif  // CALLBOARD_LIBS_LINK_GRPC_AGENT_LINK_H_
