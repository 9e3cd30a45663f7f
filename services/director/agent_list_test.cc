#include "services/director/lists.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "libs/testing/status_matchers.h"

namespace callboard {
namespace {

using test::IsOk;
using test::StatusIs;
using ::testing::HasSubstr;

v1::AnnounceAgentRequest Request(const std::string& name = "agent-1",
                                 const std::string& address = "127.0.0.1:7071") {
  v1::AnnounceAgentRequest request;
  request.set_name(name);
  request.set_address(address);
  request.set_instance_id("life-1");
  return request;
}

absl::Status ParseStatus(const v1::AnnounceAgentRequest& request) {
  return AnnouncementFrom(request).status();
}

TEST(AgentListTest, AnnouncementHasNameAddressLabelsAndLanes) {
  v1::AnnounceAgentRequest request = Request();
  (*request.mutable_labels())["gpu"] = "yes";
  v1::Lane& lane = *request.add_lanes();
  lane.set_name("build");
  lane.set_slots(2);
  const auto announced = AnnouncementFrom(request);
  ASSERT_THAT(announced, IsOk());
  EXPECT_EQ(announced->name, "agent-1");
  EXPECT_EQ(announced->instance_id, "life-1");
  EXPECT_EQ(announced->url, "grpc://127.0.0.1:7071");
  EXPECT_EQ(announced->labels.at("gpu"), "yes");
  EXPECT_EQ(announced->lanes.at("build").slots, 2u);
}

TEST(AgentListTest, NameHasOnlyLowerCaseLettersDigitsAndHyphens) {
  for (const std::string name : {"", "Agent", "a b", "a/b", "ä"}) {
    EXPECT_THAT(ParseStatus(Request(name)),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("name is not made of")));
  }
  EXPECT_THAT(ParseStatus(Request(std::string(257, 'a'))),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("name has 257 bytes, at most 256 are allowed")));
}

TEST(AgentListTest, AddressMustBeHostAndPort) {
  for (const std::string address : {"localhost:1", "agent-1.agents.svc:65535", "[::1]:7071"}) {
    EXPECT_THAT(ParseStatus(Request("a", address)), IsOk()) << address;
  }
  for (const std::string address : {"", "host", ":1", "host:", "host:0", "host:65536", "host:1x",
                                    "unix:/tmp/socket:1", "::1:7071", "[]:1", "a b:1"}) {
    EXPECT_THAT(ParseStatus(Request("a", address)),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("address is not host:port")))
        << address;
  }
}

TEST(AgentListTest, AnnouncementHasLimits) {
  v1::AnnounceAgentRequest request = Request();
  request.clear_instance_id();
  EXPECT_THAT(ParseStatus(request),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("instance_id is required")));
  request = Request();
  for (int i = 0; i < 33; ++i) (*request.mutable_labels())[std::to_string(i)] = "";
  EXPECT_THAT(ParseStatus(request), StatusIs(absl::StatusCode::kInvalidArgument,
                                             HasSubstr("labels has 33 entries, at most 32")));
  request = Request();
  request.add_lanes()->set_slots(1001);
  EXPECT_THAT(ParseStatus(request),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("lanes has an entry")));
  request.mutable_lanes(0)->set_name("default");
  EXPECT_THAT(ParseStatus(request), StatusIs(absl::StatusCode::kInvalidArgument,
                                             HasSubstr("lanes has 1001 slots in a lane")));
}

TEST(AgentListTest, AgentIsConvertedWithAllFields) {
  const core::QueueId task(core::Ulid(1, 2));
  const v1::Agent proto = ToProto({.name = "a",
                                   .url = "grpc://a:1",
                                   .instance_id = "life",
                                   .state = director::AgentState::kSuspect,
                                   .why = "it could not be reached",
                                   .labels = {{"gpu", "yes"}},
                                   .lanes = {{"default", {.slots = 2, .used = 1}}},
                                   .last_seen_at = absl::FromUnixSeconds(7),
                                   .suspect_until = absl::FromUnixSeconds(9),
                                   .running = {task}});
  EXPECT_EQ(proto.name(), "a");
  EXPECT_EQ(proto.agent_url(), "grpc://a:1");
  EXPECT_EQ(proto.instance_id(), "life");
  EXPECT_EQ(proto.state(), v1::Agent::STATE_SUSPECT);
  EXPECT_EQ(proto.state_why(), "it could not be reached");
  EXPECT_EQ(proto.labels().at("gpu"), "yes");
  ASSERT_EQ(proto.lanes_size(), 1);
  EXPECT_EQ(proto.lanes(0).name(), "default");
  EXPECT_EQ(proto.lanes(0).slots(), 2u);
  EXPECT_EQ(proto.lanes(0).busy(), 1u);
  EXPECT_EQ(proto.last_seen_at().seconds(), 7);
  EXPECT_EQ(proto.suspect_until().seconds(), 9);
  ASSERT_EQ(proto.running_queue_ids_size(), 1);
  EXPECT_EQ(proto.running_queue_ids(0), core::ToString(task));
}

TEST(AgentListTest, PageTokenNamesTheLastAgent) {
  director::AgentPage page = {.agents = {{.name = "a"}, {.name = "b"}}};
  EXPECT_EQ(ListResponse(page).next_page_token(), "");
  page.has_more = true;
  v1::ListAgentsRequest next;
  next.set_page_token(ListResponse(page).next_page_token());
  const auto query = AgentQueryFrom(next);
  ASSERT_THAT(query, IsOk());
  EXPECT_EQ(query->after, "b");
  next.set_page_token("%");
  EXPECT_THAT(AgentQueryFrom(next),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("page_token")));
}

TEST(AgentListTest, PageEndsEarlyWhenItIsTooLarge) {
  director::AgentPage page;
  for (int i = 1000; i < 2000; ++i) {
    page.agents.push_back({.name = std::to_string(i), .why = std::string(4096, 'x')});
  }
  const v1::ListAgentsResponse response = ListResponse(page);
  EXPECT_LT(response.agents_size(), 1000);
  EXPECT_NE(response.next_page_token(), "");
}

TEST(AgentListTest, DrainReasonHasALimit) {
  v1::DrainAgentRequest request;
  request.set_why(std::string(4097, 'x'));
  EXPECT_THAT(DrainReasonFrom(request),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("why has 4097 bytes")));
}

}  // namespace
}  // namespace callboard
