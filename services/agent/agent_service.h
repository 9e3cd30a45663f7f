#ifndef CALLBOARD_SERVICES_AGENT_AGENT_SERVICE_H_
#define CALLBOARD_SERVICES_AGENT_AGENT_SERVICE_H_

#include <functional>
#include <utility>

#include "callboard/v1/agent.grpc.pb.h"
#include "libs/agent/driver.h"
#include "libs/ports/clock.h"
#include "libs/server/call_tracer.h"
#include "libs/server/stream_budget.h"

namespace callboard {

// AgentService over an AgentDriver.
class AgentService final : public v1::AgentService::CallbackService {
 public:
  // Driver, clock and tracer outlive the service. `on_session_end` runs whenever a Session is over.
  AgentService(agent::AgentDriver& driver, const ports::Clock& clock,
               const server::CallTracer& tracer, std::function<void()> on_session_end)
      : driver_(driver),
        tracer_(tracer),
        on_session_end_(std::move(on_session_end)),
        // A third of what all readers may be shown at once: those that never read make room.
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
  // Of all streams of output together.
  server::StreamBudget budget_;
};

v1::AgentStatus ToProto(const agent::AgentView& view);

}  // namespace callboard

#endif  // CALLBOARD_SERVICES_AGENT_AGENT_SERVICE_H_
