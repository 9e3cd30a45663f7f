#ifndef CALLBOARD_SERVICES_AGENT_SESSION_REACTOR_H_
#define CALLBOARD_SERVICES_AGENT_SESSION_REACTOR_H_

#include <grpcpp/support/server_callback.h>

#include <functional>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "callboard/v1/agent.pb.h"
#include "libs/agent/driver.h"
#include "libs/base/mutex.h"
#include "libs/core/session.h"
#include "libs/wire/outgoing_items.h"

namespace callboard {

// The agent's end of a Session: what the driver says goes out, one write under way at a time and
// everything that comes meanwhile in the next; what the director says goes to the driver.
//
// gRPC's, until it is done with it; the driver keeps a line to it, which outlives it.
class SessionReactor final
    : public grpc::ServerBidiReactor<v1::SessionRequest, v1::SessionResponse> {
 public:
  // `driver` outlives it. `on_end` runs when a Session that was begun is over.
  SessionReactor(agent::AgentDriver& driver, std::function<void()> on_end);

 private:
  class Line;

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  absl::Status HearMessage();

  agent::AgentDriver& driver_;
  const std::function<void()> on_end_;
  // Shared with the driver.
  const std::shared_ptr<Line> line_;
  v1::SessionRequest incoming_;
  // Once it was opened.
  std::optional<core::SessionId> session_;
};

}  // namespace callboard

#endif  // CALLBOARD_SERVICES_AGENT_SESSION_REACTOR_H_
