#include "services/director/fleet_service.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "libs/base/error.h"
#include "libs/base/log.h"
#include "libs/director/command.h"
#include "libs/server/call.h"
#include "libs/wire/page.h"
#include "libs/wire/time.h"
#include "services/director/query_messages.h"

namespace callboard {

using director::AgentCommand;
using director::Command;
using director::DirectorEngine;
using director::Moment;

bool AgentEventReceiver::OnSessionOpened(core::AgentSessionId session,
                                         const core::SessionOpened& opened) {
  return driver_.Post(AgentCommand([this, session, opened](DirectorEngine& engine, Moment now) {
    const absl::Status status = engine.OnSessionOpened(session, opened, now);
    if (status.ok()) {
      base::LogInfo("agent", "connected",
                    {{"name", opened.name},
                     {"agent_url", opened.url},
                     {"version", opened.version},
                     {"features", absl::StrJoin(opened.features, ",")}});
    } else {
      base::LogWarning("agent", "refused", {{"name", opened.name}, {"error", status.message()}});
      link_.EndSession(session, status);
    }
  }));
}

bool AgentEventReceiver::OnItems(core::AgentSessionId session,
                                 const std::vector<core::AgentItem>& items) {
  return driver_.Post(AgentCommand([session, items](DirectorEngine& engine, Moment now) {
    engine.OnItems(session, items, now);
  }));
}

void AgentEventReceiver::OnOutput(core::AgentSessionId session, core::RunOutput output) {
  core::OutputAck acknowledged = {output.token};
  if (!output.chunks.empty()) acknowledged.number = output.chunks.back().number;
  outputs_.Store(std::move(output), [&link = link_, session, acknowledged] {
    link.AcknowledgeOutput(session, acknowledged);
  });
}

void AgentEventReceiver::OnSessionClosed(core::AgentSessionId session, const absl::Status& why) {
  driver_.Post(
      AgentCommand([session, why](DirectorEngine& engine,
                                  Moment now) { engine.OnSessionClosed(session, why, now); },
                   Command::Origin::kLink));
}

void AgentEventReceiver::OnUnreachable(const std::string& name, const absl::Status& why) {
  driver_.Post(AgentCommand(
      [name, why](DirectorEngine& engine, Moment now) { engine.OnUnreachable(name, why, now); },
      Command::Origin::kLink));
}

void AgentEventReceiver::OnStartNotSent(const core::FenceToken& token) {
  driver_.Post(AgentCommand(
      [token](DirectorEngine& engine, Moment now) { engine.OnStartNotSent(token, now); },
      Command::Origin::kLink));
}

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
    const absl::StatusOr<core::AgentAnnouncement> announced = AnnouncementFrom(*request);
    if (!announced.ok()) return call.Finish(announced.status());
    // kRead: nothing is written, so that agents can reach their director even when its disk is
    // full.
    driver_.PostCall<bool>(
        Command::Access::kRead,
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
    const absl::StatusOr<director::AgentQuery> query = AgentQueryFrom(scope.Unseal(*request));
    if (!query.ok()) return call.Finish(query.status());
    driver_.PostCall<AgentPage>(
        Command::Access::kRead,
        [query = *query](DirectorEngine& engine, Moment now) {
          return engine.ListAgents(query, now);
        },
        [call, scope](const absl::StatusOr<AgentPage>& page) {
          if (!page.ok()) return call.Finish(page.status());
          call.Finish(scope.Seal(ListResponse(*page)));
        });
  };
  return server::Unary(context, response, list);
}

grpc::ServerUnaryReactor* FleetService::DrainAgent(grpc::CallbackServerContext* context,
                                                   const v1::DrainAgentRequest* request,
                                                   v1::Agent* response) {
  const auto drain = [&](const AgentCall& call) {
    const absl::StatusOr<std::string> why = DrainReasonFrom(*request);
    if (!why.ok()) return call.Finish(why.status());
    driver_.PostCall<AgentView>(
        Command::Access::kWrite,
        [name = request->name(), why = *why](DirectorEngine& engine,
                                             Moment now) -> absl::StatusOr<AgentView> {
          RETURN_IF_ERROR(engine.DrainAgent(name, why, now));
          return engine.FindAgent(name, now);
        },
        [call](const absl::StatusOr<AgentView>& agent) { Finish(call, agent); });
  };
  return server::Unary(context, response, drain);
}

grpc::ServerUnaryReactor* FleetService::UndrainAgent(grpc::CallbackServerContext* context,
                                                     const v1::UndrainAgentRequest* request,
                                                     v1::Agent* response) {
  const auto undrain = [&](const AgentCall& call) {
    driver_.PostCall<AgentView>(
        Command::Access::kWrite,
        [name = request->name()](DirectorEngine& engine, Moment now) -> absl::StatusOr<AgentView> {
          RETURN_IF_ERROR(engine.UndrainAgent(name, now));
          return engine.FindAgent(name, now);
        },
        [call](const absl::StatusOr<AgentView>& agent) { Finish(call, agent); });
  };
  return server::Unary(context, response, undrain);
}

}  // namespace callboard
