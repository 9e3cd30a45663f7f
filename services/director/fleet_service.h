#ifndef CALLBOARD_SERVICES_DIRECTOR_FLEET_SERVICE_H_
#define CALLBOARD_SERVICES_DIRECTOR_FLEET_SERVICE_H_

#include <functional>
#include <string>
#include <utility>

#include "callboard/v1/fleet.grpc.pb.h"
#include "libs/director/driver.h"

namespace callboard {

// FleetService over the director's driver: translates, calls, translates.
class FleetService final : public v1::FleetService::CallbackService {
 public:
  // Dials an agent, by its name and host:port, unless that is done already; told of every
  // announcement that the director takes, on one of its threads, which must not be blocked.
  using Dial = std::function<void(const std::string& name, const std::string& address)>;

  // The driver outlives the service.
  FleetService(director::DirectorDriver& driver, Dial dial)
      : driver_(driver), dial_(std::move(dial)) {}

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
  const Dial dial_;
};

}  // namespace callboard

#endif  // CALLBOARD_SERVICES_DIRECTOR_FLEET_SERVICE_H_
