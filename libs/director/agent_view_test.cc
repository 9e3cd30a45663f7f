#include "libs/director/agent_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "libs/testing/engine_fixture.h"
#include "libs/testing/status_matchers.h"

namespace callboard::director {
namespace {

using test::EngineFixture;
using test::HasReason;
using ::testing::_;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

AgentView Look(EngineFixture& director, const std::string& name) {
  return *director.engine().LookAtAgent(name, director.now());
}

TEST(AgentViewTest, IdleAgentIsShownAsItOpened) {
  EngineFixture director;
  core::AgentOpened opened = EngineFixture::Knowing("a");
  opened.labels = {{"gpu", "yes"}};
  director.Connect(opened);
  const AgentView view = Look(director, "a");
  EXPECT_EQ(view.state, AgentState::kIdle);
  EXPECT_EQ(view.why, "");
  EXPECT_EQ(view.url, "grpc://a");
  EXPECT_EQ(view.instance_id, "a/1");
  EXPECT_EQ(view.labels, opened.labels);
  EXPECT_EQ(view.lanes, (core::LaneLoads{{"default", {.slots = 1, .used = 0}}}));
  EXPECT_EQ(view.last_seen_at, director.now().wall);
  EXPECT_EQ(view.suspect_until, std::nullopt);
  EXPECT_THAT(view.running, IsEmpty());
}

TEST(AgentViewTest, AgentThatHasATaskIsBusyAndNamesIt) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  EXPECT_EQ(Look(director, "a").state, AgentState::kBusy);
  EXPECT_THAT(Look(director, "a").running, ElementsAre(task));
  EXPECT_EQ(Look(director, "a").lanes.at("default").used, 1u);
  director.Finish(task);
  EXPECT_EQ(Look(director, "a").state, AgentState::kIdle);
}

TEST(AgentViewTest, LaneThatAnswered409CountsAsFull) {
  EngineFixture director;
  director.Connect("a");
  director.RefuseAsBusy(director.Add());
  EXPECT_EQ(Look(director, "a").state, AgentState::kBusy);
  EXPECT_EQ(Look(director, "a").lanes.at("default").used, 1u);
}

TEST(AgentViewTest, DrainIsShownWithItsReasonAlsoWhenTheAgentIsGoneAndAfterARestart) {
  EngineFixture director;
  director.Connect("a");
  director.DrainAgent("a", "new disk");
  EXPECT_EQ(Look(director, "a").state, AgentState::kDraining);
  EXPECT_EQ(Look(director, "a").why, "new disk");
  director.Restart();
  EXPECT_EQ(Look(director, "a").state, AgentState::kDraining);
  EXPECT_EQ(Look(director, "a").why, "new disk; it is not connected");
  EXPECT_EQ(Look(director, "a").last_seen_at, std::nullopt);
  director.Connect("a");
  director.UndrainAgent("a");
  EXPECT_EQ(Look(director, "a").state, AgentState::kIdle);
  EXPECT_EQ(Look(director, "a").why, "");
}

TEST(AgentViewTest, AgentThatShutsDownIsDraining) {
  EngineFixture director;
  director.Connect("a");
  director.Say("a", core::LoadReported{{{"default", {.slots = 1, .used = 0}}}, /*leaving=*/true});
  EXPECT_EQ(Look(director, "a").state, AgentState::kDraining);
  EXPECT_EQ(Look(director, "a").why, "it shuts down");
}

TEST(AgentViewTest, CordonNamesWhatTheAgentDid) {
  EngineFixture director;
  director.Connect("a");
  director.Answer(director.Add(), absl::UnauthenticatedError("who are you"));
  EXPECT_EQ(Look(director, "a").state, AgentState::kCordoned);
  EXPECT_THAT(Look(director, "a").why, HasSubstr("who are you"));
}

TEST(AgentViewTest, AgentThatIsLostIsSuspectForAWhileAndThenUnreachable) {
  EngineFixture director;
  director.Connect("a");
  director.Break("a");
  const AgentView view = Look(director, "a");
  EXPECT_EQ(view.state, AgentState::kSuspect);
  EXPECT_EQ(view.suspect_until, director.now().wall + absl::Seconds(5));
  EXPECT_EQ(view.why, "it could not be reached 1 times in a row: cut");
  director.Advance(absl::Seconds(5));
  EXPECT_EQ(Look(director, "a").state, AgentState::kUnreachable);
  EXPECT_EQ(Look(director, "a").why, "it is not connected: cut");
}

TEST(AgentViewTest, AgentThatRefusesTheSessionIsShownWithItsReason) {
  EngineFixture director;
  ASSERT_TRUE(director.engine().Announce({"a", "a/1", "grpc://a:1"}, director.now()).ok());
  director.engine().OnUnreachable("a", absl::UnauthenticatedError("who are you"), director.now());
  EXPECT_EQ(Look(director, "a").state, AgentState::kUnreachable);
  EXPECT_EQ(Look(director, "a").why,
            "it is not connected: it refuses the Session: UNAUTHENTICATED: who are you");
  director.Connect("a");
  EXPECT_EQ(Look(director, "a").why, "");
}

TEST(AgentViewTest, AgentThatLeavesStartsUnansweredIsSuspectAlsoWhileItIsConnected) {
  EngineFixture director;
  director.Connect("a");
  director.Add();
  director.AdvanceBeating(absl::Seconds(75));
  EXPECT_EQ(Look(director, "a").state, AgentState::kSuspect);
  EXPECT_EQ(Look(director, "a").why, "it did not answer starts, 1 times in a row");
}

TEST(AgentViewTest, ConnectedAgentThatIsSilentIsUnreachable) {
  EngineFixture director;
  director.Connect("a");
  director.Advance(absl::Seconds(31));
  EXPECT_EQ(Look(director, "a").state, AgentState::kUnreachable);
  EXPECT_EQ(Look(director, "a").why, "nothing was heard of it for 31s");
}

TEST(AgentViewTest, AnnouncedAgentIsKnownBeforeItIsReached) {
  EngineFixture director;
  ASSERT_TRUE(director.engine().Announce({"a", "a/1", "grpc://a:1"}, director.now()).ok());
  EXPECT_EQ(Look(director, "a").state, AgentState::kUnreachable);
  EXPECT_EQ(Look(director, "a").url, "grpc://a:1");
  EXPECT_EQ(Look(director, "a").last_seen_at, director.now().wall);
}

TEST(AgentViewTest, LabelsAndLanesAreThoseOfTheAnnouncementUntilASessionSaysThem) {
  EngineFixture director;
  const core::AgentAnnounced announced = {.name = "a",
                                          .instance_id = "a/1",
                                          .url = "grpc://a:1",
                                          .labels = {{"gpu", "yes"}},
                                          .lanes = {{"build", {.slots = 2}}}};
  ASSERT_TRUE(director.engine().Announce(announced, director.now()).ok());
  EXPECT_THAT(Look(director, "a").labels, ElementsAre(Pair("gpu", "yes")));
  EXPECT_EQ(Look(director, "a").lanes, announced.lanes);
  director.Add();
  EXPECT_EQ(director.engine().Status(director.now()).in_flight(), 0u);
  EXPECT_EQ(director.engine().Status(director.now()).max_in_flight, 0u) << "it is not connected";

  core::AgentOpened opened = EngineFixture::Knowing("a");
  opened.labels = {{"gpu", "no"}};
  director.Connect(opened);
  ASSERT_TRUE(director.engine().Announce(announced, director.now()).ok());
  EXPECT_THAT(Look(director, "a").labels, ElementsAre(Pair("gpu", "no")));
  EXPECT_THAT(Look(director, "a").lanes, ElementsAre(Pair("default", _)));
}

TEST(AgentViewTest, UnknownAgentIsNotFound) {
  EngineFixture director;
  EXPECT_THAT(director.engine().LookAtAgent("a", director.now()), HasReason("AGENT_NOT_FOUND"));
}

TEST(AgentViewTest, AgentsAreListedByNamePageByPage) {
  EngineFixture director;
  for (const char* name : {"c", "a", "b"}) director.Connect(name);
  const auto names = [&](const std::string& after) {
    std::vector<std::string> names;
    const AgentPage page =
        director.engine().ListAgents({.after = after, .page_size = 2}, director.now());
    for (const AgentView& agent : page.agents) names.push_back(agent.name);
    names.push_back(page.has_more ? "more" : "end");
    return names;
  };
  EXPECT_THAT(names(""), ElementsAre("a", "b", "more"));
  EXPECT_THAT(names("b"), ElementsAre("c", "end"));
}

TEST(AgentViewTest, NumberOfAgentsIsBounded) {
  EngineFixture director;
  absl::Status status;
  int known = 0;
  for (; status.ok() && known < 20'000; ++known) {
    status = director.engine().Announce({"a" + std::to_string(known), "i", "grpc://a:1"},
                                        director.now());
  }
  EXPECT_EQ(known, 1'001) << "of those that were never reached";
  EXPECT_THAT(status, HasReason("TOO_MANY_AGENTS"));
  director.Connect("listed in fleet.agents");
  director.Connect("a0");
  EXPECT_TRUE(director.engine().Announce({"b", "i", "grpc://b:1"}, director.now()).ok())
      << "one that is reached makes room";
  director.Advance(absl::Minutes(1));
  EXPECT_TRUE(director.engine().Announce({"c", "i", "grpc://c:1"}, director.now()).ok())
      << "so does one that announces itself no more";
}

}  // namespace
}  // namespace callboard::director
