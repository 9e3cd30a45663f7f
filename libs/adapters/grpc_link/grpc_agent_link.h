#ifndef CALLBOARD_LIBS_ADAPTERS_GRPC_LINK_GRPC_AGENT_LINK_H_
#define CALLBOARD_LIBS_ADAPTERS_GRPC_LINK_GRPC_AGENT_LINK_H_

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
#include "libs/ports/clock.h"

namespace callboard::adapters {

namespace internal {
class LinkCore;
}  // namespace internal

struct LinkOptions {
  // What agents are told in the opening.
  core::LeaseOptions lease = {};
  // How long until an agent that was lost is dialled again, and at most, when that fails again and
  // again; half of it or more.
  absl::Duration redial_min = absl::Milliseconds(50);
  absl::Duration redial_max = absl::Seconds(5);
  // How often agents that cannot be reached are dialled, all together; more of them are dialled
  // less often than every `redial_max`. New addresses are dialled as often, beside them, and a
  // second's worth of new ones at once.
  uint32_t redials_per_second = 100;
  // Addresses that agents announced and that no Session has reached yet; more are not dialled.
  ptrdiff_t unreached_max = core::kUnreachedAgentsMax;
  // How far apart two dials of an agent are at least when announcements ask for them.
  absl::Duration announced_dial_period = absl::Seconds(1);
  // An agent that announced itself and is not connected is dialled for so long after the last time.
  absl::Duration forget_after = absl::Minutes(1);
  // How long a silent peer is believed.
  absl::Duration keepalive = absl::Seconds(10);
};

// The director's end of its Sessions over gRPC: one bidirectional call per agent, dialled until it
// stands and again whenever it breaks.
//
// Thread-safe. Nothing waits but Stop().
class GrpcAgentLink final : public ports::AgentLink {
 public:
  // `clock` outlives the link.
  GrpcAgentLink(const LinkOptions& options, const ports::Clock& clock);
  // Stop().
  ~GrpcAgentLink() override;

  // From now on `listener` hears what agents say, and agents are dialled. It lives until Stop().
  void Start(ports::AgentListener& listener);
  // Says what is yet to be said and ends every Session, those of agents that do not take it after
  // `patience` at the latest. The listener hears nothing more; no agent is dialled again.
  void Leave(absl::Duration patience);
  // As Leave(), at once.
  void Stop();

  // Who is dialled for ever, and who only as long as it announces itself.
  enum class Known { kForEver, kWhileAnnounced };
  // Dials the agent at host:port, now if it is not connected and was not dialled a moment ago.
  // `name`: as it announced itself. One that was not reached yet is dialled at its last address
  // only.
  void Dial(const std::string& address, Known known, const std::string& name = "");

  void Say(core::SessionId session, std::vector<core::DirectorItem> items) override;
  void Redial(uint64_t director_epoch) override;

  // Says that output has been written. Dropped when the Session is gone.
  void Acknowledge(core::SessionId session, const core::OutputAcknowledged& acknowledged);
  // Ends a Session whose agent was refused; it is dialled again later.
  void End(core::SessionId session, const absl::Status& why);

  // Items of agents that this version does not know, and ignored.
  uint64_t unknown_items() const;
  // Addresses that it has Sessions with, dials or waits to dial.
  size_t addresses() const;

 private:
  // Shared with calls and timers under way, which may end after the link.
  const std::shared_ptr<internal::LinkCore> core_;
};

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_GRPC_LINK_GRPC_AGENT_LINK_H_
