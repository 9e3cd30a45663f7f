// The director's side of agents: the service about them, and the receiver of their events.

#ifndef CALLBOARD_SERVICES_DIRECTOR_FLEET_SERVICE_H_
#define CALLBOARD_SERVICES_DIRECTOR_FLEET_SERVICE_H_

#include <string>
#include <vector>

#include "callboard/v1/fleet.grpc.pb.h"
#include "libs/core/session.h"
#include "libs/director/driver.h"
#include "libs/link/grpc_agent_link.h"
#include "libs/ports/agent_link.h"
#include "libs/store/output_keeper.h"

namespace callboard {

// Receives the events of the agent link and posts them to the director as commands. Output bypasses
// the director and goes to the OutputKeeper.
//
// Thread-safe: the link calls it on its own threads.
class AgentEventReceiver final : public ports::AgentListener {
 public:
  // The arguments outlive this object.
  AgentEventReceiver(director::DirectorDriver& driver, link::GrpcAgentLink& link,
                     store::OutputKeeper& outputs)
      : driver_(driver), link_(link), outputs_(outputs) {}

  bool OnSessionOpened(core::AgentSessionId session, const core::SessionOpened& opened) override;
  bool OnMessages(core::AgentSessionId session, std::vector<core::AgentMessage> messages) override;
  void OnOutput(core::AgentSessionId session, core::RunOutput output) override;
  void OnSessionClosed(core::AgentSessionId session, const absl::Status& why) override;
  void OnUnreachable(const std::string& name, const absl::Status& why) override;
  void OnStartNotSent(const core::FenceToken& token) override;

 private:
  director::DirectorDriver& driver_;
  link::GrpcAgentLink& link_;
  store::OutputKeeper& outputs_;
};

// FleetService on top of the director's driver: converts requests, posts commands and converts the
// answers.
class FleetService final : public v1::FleetService::CallbackService {
 public:
  // `link` dials the agents that announce themselves. The arguments outlive the service.
  FleetService(director::DirectorDriver& driver, link::GrpcAgentLink& link)
      : driver_(driver), link_(link) {}

  grpc::ServerUnaryReactor* AnnounceAgent(grpc::CallbackServerContext* context,
                                          const v1::AnnounceAgentRequest* request,
                                          v1::AnnounceAgentResponse* response) override;
  grpc::ServerUnaryReactor* ListAgents(grpc::CallbackServerContext* context,
                                       const v1::ListAgentsRequest* request,
                                       v1::ListAgentsResponse* response) override;
  grpc::ServerUnaryReactor* DrainAgent(grpc::CallbackServerContext* context,
                                       const v1::DrainAgentRequest* request,
                                       v1::Agent* response) override;
  grpc::ServerUnaryReactor* UndrainAgent(grpc::CallbackServerContext* context,
                                         const v1::UndrainAgentRequest* request,
                                         v1::Agent* response) override;

 private:
  director::DirectorDriver& driver_;
  link::GrpcAgentLink& link_;
};

}  // namespace callboard

#endif  // CALLBOARD_SERVICES_DIRECTOR_FLEET_SERVICE_H_
