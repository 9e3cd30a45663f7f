// The gRPC service of an agent, and the agent's end of a Session.

#ifndef CALLBOARD_SERVICES_AGENT_AGENT_SERVICE_H_
#define CALLBOARD_SERVICES_AGENT_AGENT_SERVICE_H_

#include <grpcpp/support/server_callback.h>

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "callboard/v1/agent.grpc.pb.h"
#include "callboard/v1/agent.pb.h"
#include "libs/agent/driver.h"
#include "libs/base/mutex.h"
#include "libs/core/session.h"
#include "libs/ports/environment.h"
#include "libs/server/call.h"
#include "libs/server/stream_budget.h"
#include "libs/wire/session.h"

namespace callboard {

// The agent's end of a Session. Passes the director's messages to the driver, and sends the
// driver's messages. One write is outstanding at a time; messages that arrive meanwhile go into the
// next one.
//
// gRPC owns the reactor until OnDone(), which deletes it. The driver holds a DriverStream, which
// outlives the reactor.
class SessionReactor final
    : public grpc::ServerBidiReactor<v1::SessionRequest, v1::SessionResponse> {
 public:
  // `driver` outlives the reactor. `on_end` runs when an opened Session has ended.
  SessionReactor(agent::AgentDriver& driver, std::function<void()> on_end);

 private:
  class DriverStream;

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  absl::Status HandleMessage();

  agent::AgentDriver& driver_;
  const std::function<void()> on_end_;
  // Shared with the driver.
  const std::shared_ptr<DriverStream> stream_;
  v1::SessionRequest incoming_;
  // Set when the Session has been opened.
  std::optional<core::AgentSessionId> session_;
};

// The gRPC service of an agent. Translates calls for an AgentDriver. Thread-safe.
class AgentService final : public v1::AgentService::CallbackService {
 public:
  // Driver, clock and tracer outlive the service. `on_session_end` runs after each Session has
  // ended.
  AgentService(agent::AgentDriver& driver, const ports::Clock& clock,
               const server::CallTracer& tracer, std::function<void()> on_session_end)
      : driver_(driver),
        tracer_(tracer),
        on_session_end_(std::move(on_session_end)),
        // A third of what all readers together can have in flight (kReadersMax pieces): above it,
        // streams whose clients do not read are cut off to make room.
        budget_(clock, {.bytes_max = 8 << 20}) {}

  grpc::ServerBidiReactor<v1::SessionRequest, v1::SessionResponse>* Session(
      grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* StartTask(grpc::CallbackServerContext* context,
                                      const v1::StartTaskRequest* request,
                                      v1::StartTaskResponse* response) override;
  grpc::ServerUnaryReactor* GetTask(grpc::CallbackServerContext* context,
                                    const v1::AgentServiceGetTaskRequest* request,
                                    v1::AgentRun* response) override;
  grpc::ServerWriteReactor<v1::TailLogsResponse>* TailLogs(
      grpc::CallbackServerContext* context, const v1::TailLogsRequest* request) override;
  grpc::ServerUnaryReactor* GetAgentStatus(grpc::CallbackServerContext* context,
                                           const v1::GetAgentStatusRequest* request,
                                           v1::AgentStatus* response) override;

 private:
  agent::AgentDriver& driver_;
  const server::CallTracer& tracer_;
  const std::function<void()> on_session_end_;
  // Shared by all TailLogs streams.
  server::StreamBudget budget_;
};

v1::AgentStatus ToProto(const agent::AgentSnapshot& snapshot);

}  // namespace callboard

#endif  // CALLBOARD_SERVICES_AGENT_AGENT_SERVICE_H_
