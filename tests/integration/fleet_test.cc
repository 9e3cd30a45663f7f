// FleetService over gRPC, on a director with its store.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "callboard/v1/fleet.grpc.pb.h"
#include "libs/base/error.h"
#include "libs/testing/scripted_agent.h"
#include "tests/integration/director_fixture.h"

namespace callboard {
namespace {

using test::HasReason;
using test::IsOk;
using test::StatusIs;
using Stub = v1::FleetService::Stub;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class FleetTest : public test::DirectorFixture {
 protected:
  template <class Request, class Response>
  absl::StatusOr<Response> Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                             Response*),
                                const Request& request) {
    const auto stub = v1::FleetService::NewStub(director_->NewChannel());
    return CallOn(*stub, method, request);
  }
  absl::StatusOr<v1::AnnounceAgentResponse> Announce(const std::string& name,
                                                     const std::string& address) {
    v1::AnnounceAgentRequest request;
    request.set_name(name);
    request.set_address(address);
    request.set_instance_id(name + "/1");
    return Call(&Stub::AnnounceAgent, request);
  }
  absl::StatusOr<v1::Agent> Drain(const std::string& name) {
    v1::DrainAgentRequest request;
    request.set_name(name);
    request.set_why("new disk");
    return Call(&Stub::DrainAgent, request);
  }
  absl::StatusOr<v1::Agent> Undrain(const std::string& name) {
    v1::UndrainAgentRequest request;
    request.set_name(name);
    return Call(&Stub::UndrainAgent, request);
  }
};

TEST_F(FleetTest, AnnouncedAgentIsListed) {
  Start();
  const auto announced = Announce("agent-1", "127.0.0.1:7071");
  ASSERT_THAT(announced, IsOk());
  EXPECT_EQ(announced->announce_again_after().seconds(), 5);
  const auto agents = Call(&Stub::ListAgents, v1::ListAgentsRequest());
  ASSERT_THAT(agents, IsOk());
  ASSERT_EQ(agents->agents_size(), 1);
  EXPECT_EQ(agents->agents(0).name(), "agent-1");
  EXPECT_EQ(agents->agents(0).agent_url(), "grpc://127.0.0.1:7071");
  EXPECT_TRUE(agents->agents(0).has_last_seen_at());
}

TEST_F(FleetTest, InvalidAnnouncementIsRejectedByField) {
  Start();
  EXPECT_THAT(Announce("Agent", "127.0.0.1:7071"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("name may contain only")));
  EXPECT_THAT(Announce("agent", "7071"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("address is not host:port")));
}

TEST_F(FleetTest, AgentsAreListedByNameInPages) {
  Start();
  for (const char* name : {"c", "a", "b"}) ASSERT_THAT(Announce(name, "127.0.0.1:1"), IsOk());
  v1::ListAgentsRequest request;
  request.set_page_size(2);
  std::vector<std::string> names;
  do {
    const auto page = Call(&Stub::ListAgents, request);
    ASSERT_THAT(page, IsOk());
    for (const v1::Agent& agent : page->agents()) names.push_back(agent.name());
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  EXPECT_THAT(names, ElementsAre("a", "b", "c"));
}

TEST_F(FleetTest, DrainOutlivesARestartUntilItIsEnded) {
  Start();
  ASSERT_THAT(Announce("agent-1", "127.0.0.1:7071"), IsOk());
  const auto drained = Drain("agent-1");
  ASSERT_THAT(drained, IsOk());
  EXPECT_EQ(drained->state(), v1::Agent::STATE_DRAINING);
  EXPECT_THAT(drained->state_why(), HasSubstr("new disk"));
  Kill();
  Start();
  const auto agents = Call(&Stub::ListAgents, v1::ListAgentsRequest());
  ASSERT_EQ(agents->agents_size(), 1);
  EXPECT_EQ(agents->agents(0).state(), v1::Agent::STATE_DRAINING);
  EXPECT_THAT(agents->agents(0).state_why(), HasSubstr("new disk"));
  const auto undrained = Undrain("agent-1");
  ASSERT_THAT(undrained, IsOk());
  EXPECT_EQ(undrained->state(), v1::Agent::STATE_UNREACHABLE) << "no agent is running";
}

TEST_F(FleetTest, AgentThatRejectsTheSessionIsReported) {
  test::ScriptedAgent agent;
  agent.RejectSessions(absl::UnauthenticatedError("who are you"));
  Start();
  ASSERT_THAT(Announce("agent-1", agent.address()), IsOk());
  const std::string line = director_->process().WaitForLine(" agent=refused ");
  EXPECT_THAT(line, HasSubstr("name=agent-1"));
  EXPECT_THAT(line, HasSubstr("code=UNAUTHENTICATED"));
  EXPECT_THAT(line, HasSubstr("who are you"));
  std::string why;
  do {
    const auto agents = Call(&Stub::ListAgents, v1::ListAgentsRequest());
    ASSERT_THAT(agents, IsOk());
    why = agents->agents(0).state_why();
  } while (why == "not connected");
  EXPECT_THAT(why, HasSubstr("rejects the Session: UNAUTHENTICATED: who are you"));
}

TEST_F(FleetTest, UnknownAgentIsNotFound) {
  Start();
  EXPECT_THAT(Drain("agent-1"), HasReason("AGENT_NOT_FOUND"));
  EXPECT_THAT(Undrain("agent-1"), HasReason("AGENT_NOT_FOUND"));
}

TEST_F(FleetTest, VeryLongNameGivesABoundedError) {
  Start();
  const std::string name(100'000, 'x');
  v1::ListAgentsRequest list;
  list.set_page_token(name);
  const std::pair<const char*, absl::Status> answers[] = {
      {"AnnounceAgent", Announce(name, "127.0.0.1:7071").status()},
      {"AnnounceAgent, address", Announce("agent-1", name).status()},
      {"ListAgents", Call(&Stub::ListAgents, list).status()},
      {"DrainAgent", Drain(name).status()},
      {"UndrainAgent", Undrain(name).status()},
  };
  for (const auto& [method, error] : answers) {
    // Oversized headers would give RESOURCE_EXHAUSTED.
    EXPECT_TRUE(absl::IsInvalidArgument(error) || absl::IsNotFound(error)) << method << error;
    EXPECT_LT(error.message().size(), 1000u) << method;
    EXPECT_THAT(std::string(error.message()), Not(HasSubstr(std::string(129, 'x')))) << method;
    for (const auto& [key, value] : base::GetErrorDetails(error).metadata) {
      EXPECT_LE(value.size(), 128u) << method << " " << key;
    }
  }
}

}  // namespace
}  // namespace callboard
