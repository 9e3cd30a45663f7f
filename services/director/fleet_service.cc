#include "services/director/fleet_service.h"

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/base/status_macros.h"
#include "libs/server/call.h"
#include "libs/wire/page.h"
#include "libs/wire/time.h"
#include "services/director/agent_list.h"

namespace callboard {
namespace {

using director::AgentPage;
using director::AgentView;
using director::Command;
using director::DirectorEngine;
using director::Moment;
using AgentCall = server::UnaryCall<v1::Agent>;

constexpr absl::Duration kAnnounceAgainAfter = absl::Seconds(5);

void Finish(const AgentCall& call, const absl::StatusOr<AgentView>& agent) {
  if (!agent.ok()) return call.Finish(agent.status());
  call.Finish(ToProto(*agent));
}

}  // namespace

grpc::ServerUnaryReactor* FleetService::AnnounceAgent(grpc::CallbackServerContext* context,
                                                      const v1::AnnounceAgentRequest* request,
                                                      v1::AnnounceAgentResponse* response) {
  const auto announce = [&](const server::UnaryCall<v1::AnnounceAgentResponse>& call) {
    const absl::StatusOr<core::AgentAnnounced> announced = AnnouncementFrom(*request);
    if (!announced.ok()) return call.Finish(announced.status());
    // Nothing is written: on a full disk, too, agents have to know that their director lives.
    driver_.Ask<bool>(
        Command::Need::kRead,
        [announced = *announced](DirectorEngine& engine, Moment now) -> absl::StatusOr<bool> {
          RETURN_IF_ERROR(engine.Announce(announced, now));
          return true;
        },
        [this, call, name = request->name(),
         address = request->address()](const absl::StatusOr<bool>& known) {
          if (!known.ok()) return call.Finish(known.status());
          dial_(name, address);
          v1::AnnounceAgentResponse answer;
          *answer.mutable_announce_again_after() = wire::ToProto(kAnnounceAgainAfter);
          call.Finish(std::move(answer));
        });
  };
  return server::Unary(context, response, announce);
}

grpc::ServerUnaryReactor* FleetService::ListAgents(grpc::CallbackServerContext* context,
                                                   const v1::ListAgentsRequest* request,
                                                   v1::ListAgentsResponse* response) {
  const auto list = [&](const server::UnaryCall<v1::ListAgentsResponse>& call) {
    const wire::PageScope scope(*request);
    const absl::StatusOr<director::AgentQuery> query = AgentQueryFrom(scope.Opened(*request));
    if (!query.ok()) return call.Finish(query.status());
    driver_.Ask<AgentPage>(
        Command::Need::kRead,
        [query = *query](DirectorEngine& engine, Moment now) {
          return engine.ListAgents(query, now);
        },
        [call, scope](const absl::StatusOr<AgentPage>& page) {
          if (!page.ok()) return call.Finish(page.status());
          call.Finish(scope.Sealed(ListResponse(*page)));
        });
  };
  return server::Unary(context, response, list);
}

grpc::ServerUnaryReactor* FleetService::DrainAgent(grpc::CallbackServerContext* context,
                                                   const v1::DrainAgentRequest* request,
                                                   v1::Agent* response) {
  const auto drain = [&](const AgentCall& call) {
    const absl::StatusOr<std::string> why = WhyFrom(*request);
    if (!why.ok()) return call.Finish(why.status());
    driver_.Ask<AgentView>(
        Command::Need::kWrite,
        [name = request->name(), why = *why](DirectorEngine& engine,
                                             Moment now) -> absl::StatusOr<AgentView> {
          RETURN_IF_ERROR(engine.DrainAgent(name, why, now));
          return engine.LookAtAgent(name, now);
        },
        [call](const absl::StatusOr<AgentView>& agent) { Finish(call, agent); });
  };
  return server::Unary(context, response, drain);
}

grpc::ServerUnaryReactor* FleetService::UndrainAgent(grpc::CallbackServerContext* context,
                                                     const v1::UndrainAgentRequest* request,
                                                     v1::Agent* response) {
  const auto undrain = [&](const AgentCall& call) {
    driver_.Ask<AgentView>(
        Command::Need::kWrite,
        [name = request->name()](DirectorEngine& engine, Moment now) -> absl::StatusOr<AgentView> {
          RETURN_IF_ERROR(engine.UndrainAgent(name, now));
          return engine.LookAtAgent(name, now);
        },
        [call](const absl::StatusOr<AgentView>& agent) { Finish(call, agent); });
  };
  return server::Unary(context, response, undrain);
}

}  // namespace callboard
