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

using director::Command;
using director::DirectorEngine;
using director::MakeCommand;
using director::Moment;

bool AgentEventReceiver::OnSessionOpened(core::AgentSessionId session,
                                         const core::SessionOpened& opened) {
  return driver_.Post(MakeCommand({.origin = Command::Origin::kAgent}, [this, session, opened](
                                                                           DirectorEngine& engine,
                                                                           Moment now) {
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

bool AgentEventReceiver::OnMessages(core::AgentSessionId session,
                                    std::vector<core::AgentMessage> messages) {
  return driver_.Post(
      MakeCommand({.origin = Command::Origin::kAgent},
                  [session, messages = std::move(messages)](DirectorEngine& engine, Moment now) {
                    engine.OnMessages(session, messages, now);
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
  driver_.Post(MakeCommand({.origin = Command::Origin::kLink},
                           [session, why](DirectorEngine& engine, Moment now) {
                             engine.OnSessionClosed(session, why, now);
                           }));
}

void AgentEventReceiver::OnUnreachable(const std::string& name, const absl::Status& why) {
  driver_.Post(MakeCommand(
      {.origin = Command::Origin::kLink},
      [name, why](DirectorEngine& engine, Moment now) { engine.OnUnreachable(name, why, now); }));
}

void AgentEventReceiver::OnStartNotSent(const core::FenceToken& token) {
  driver_.Post(MakeCommand(
      {.origin = Command::Origin::kLink},
      [token](DirectorEngine& engine, Moment now) { engine.OnStartNotSent(token, now); }));
}

namespace {

using director::AgentPage;
using director::AgentView;
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
    driver_.Post(MakeCommand(
        {.access = Command::Access::kRead},
        [announced = *announced](DirectorEngine& engine, Moment now) {
          return engine.Announce(announced, now);
        },
        [this, call, name = request->name(),
         address = request->address()](const absl::Status& known) {
          if (!known.ok()) return call.Finish(known);
          link_.Dial(address, link::GrpcAgentLink::DialPolicy::kWhileAnnounced, name);
          v1::AnnounceAgentResponse answer;
          *answer.mutable_announce_again_after() = wire::ToProto(kAnnounceAgainAfter);
          call.Finish(std::move(answer));
        }));
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
    driver_.Post(MakeCommand(
        {.access = Command::Access::kRead},
        [query = *query](DirectorEngine& engine, Moment now) {
          return engine.views().ListAgents(query, now);
        },
        [call, scope](const absl::StatusOr<AgentPage>& page) {
          if (!page.ok()) return call.Finish(page.status());
          call.Finish(scope.Seal(ListResponse(*page)));
        }));
  };
  return server::Unary(context, response, list);
}

grpc::ServerUnaryReactor* FleetService::DrainAgent(grpc::CallbackServerContext* context,
                                                   const v1::DrainAgentRequest* request,
                                                   v1::Agent* response) {
  const auto drain = [&](const AgentCall& call) {
    const absl::StatusOr<std::string> why = DrainReasonFrom(*request);
    if (!why.ok()) return call.Finish(why.status());
    driver_.Post(MakeCommand(
        {},
        [name = request->name(), why = *why](DirectorEngine& engine,
                                             Moment now) -> absl::StatusOr<AgentView> {
          RETURN_IF_ERROR(engine.DrainAgent(name, why, now));
          return engine.views().FindAgent(name, now);
        },
        [call](const absl::StatusOr<AgentView>& agent) { Finish(call, agent); }));
  };
  return server::Unary(context, response, drain);
}

grpc::ServerUnaryReactor* FleetService::UndrainAgent(grpc::CallbackServerContext* context,
                                                     const v1::UndrainAgentRequest* request,
                                                     v1::Agent* response) {
  const auto undrain = [&](const AgentCall& call) {
    driver_.Post(MakeCommand(
        {},
        [name = request->name()](DirectorEngine& engine, Moment now) -> absl::StatusOr<AgentView> {
          RETURN_IF_ERROR(engine.UndrainAgent(name, now));
          return engine.views().FindAgent(name, now);
        },
        [call](const absl::StatusOr<AgentView>& agent) { Finish(call, agent); }));
  };
  return server::Unary(context, response, undrain);
}

}  // namespace callboard
