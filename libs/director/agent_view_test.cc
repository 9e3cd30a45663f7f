#include "libs/director/fleet.h"

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

AgentView ViewAgent(EngineFixture& director, const std::string& name) {
  return *director.engine().views().FindAgent(name, director.now());
}

TEST(AgentViewTest, IdleAgentIsShownWithTheDataOfItsSession) {
  EngineFixture director;
  core::SessionOpened opened = EngineFixture::IdleAgent("a");
  opened.labels = {{"gpu", "yes"}};
  director.Connect(opened);
  const AgentView view = ViewAgent(director, "a");
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

TEST(AgentViewTest, AgentWithATaskIsBusyAndNamesIt) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  EXPECT_EQ(ViewAgent(director, "a").state, AgentState::kBusy);
  EXPECT_THAT(ViewAgent(director, "a").running, ElementsAre(task));
  EXPECT_EQ(ViewAgent(director, "a").lanes.at("default").used, 1u);
  director.FinishRun(task);
  EXPECT_EQ(ViewAgent(director, "a").state, AgentState::kIdle);
}

TEST(AgentViewTest, LaneThatAnsweredBusyCountsAsFull) {
  EngineFixture director;
  director.Connect("a");
  director.AnswerBusy(director.Add());
  EXPECT_EQ(ViewAgent(director, "a").state, AgentState::kBusy);
  EXPECT_EQ(ViewAgent(director, "a").lanes.at("default").used, 1u);
}

TEST(AgentViewTest, DrainIsShownWithoutASessionAndAfterARestart) {
  EngineFixture director;
  director.Connect("a");
  director.DrainAgent("a", "new disk");
  EXPECT_EQ(ViewAgent(director, "a").state, AgentState::kDraining);
  EXPECT_EQ(ViewAgent(director, "a").why, "new disk");
  director.Restart();
  EXPECT_EQ(ViewAgent(director, "a").state, AgentState::kDraining);
  EXPECT_EQ(ViewAgent(director, "a").why, "new disk; not connected");
  EXPECT_EQ(ViewAgent(director, "a").last_seen_at, std::nullopt);
  director.Connect("a");
  director.UndrainAgent("a");
  EXPECT_EQ(ViewAgent(director, "a").state, AgentState::kIdle);
  EXPECT_EQ(ViewAgent(director, "a").why, "");
}

TEST(AgentViewTest, AgentThatShutsDownIsDraining) {
  EngineFixture director;
  director.Connect("a");
  director.Send("a", core::LoadReport{{{"default", {.slots = 1, .used = 0}}}, /*leaving=*/true});
  EXPECT_EQ(ViewAgent(director, "a").state, AgentState::kDraining);
  EXPECT_EQ(ViewAgent(director, "a").why, "shutting down");
}

TEST(AgentViewTest, CordonIsShownWithItsReason) {
  EngineFixture director;
  director.Connect("a");
  director.AnswerStart(director.Add(), absl::UnauthenticatedError("who are you"));
  EXPECT_EQ(ViewAgent(director, "a").state, AgentState::kCordoned);
  EXPECT_THAT(ViewAgent(director, "a").why, HasSubstr("who are you"));
}

TEST(AgentViewTest, LostAgentIsSuspectAndThenUnreachable) {
  EngineFixture director;
  director.Connect("a");
  director.BreakSession("a");
  const AgentView view = ViewAgent(director, "a");
  EXPECT_EQ(view.state, AgentState::kSuspect);
  EXPECT_EQ(view.suspect_until, director.now().wall + absl::Seconds(5));
  EXPECT_EQ(view.why, "could not be reached 1 times in a row: cut");
  director.Advance(absl::Seconds(5));
  EXPECT_EQ(ViewAgent(director, "a").state, AgentState::kUnreachable);
  EXPECT_EQ(ViewAgent(director, "a").why, "not connected: cut");
}

TEST(AgentViewTest, AgentThatRejectsTheSessionIsShownWithItsReason) {
  EngineFixture director;
  ASSERT_TRUE(director.engine().Announce({"a", "a/1", "grpc://a:1"}, director.now()).ok());
  director.engine().OnUnreachable("a", absl::UnauthenticatedError("who are you"), director.now());
  EXPECT_EQ(ViewAgent(director, "a").state, AgentState::kUnreachable);
  EXPECT_EQ(ViewAgent(director, "a").why,
            "not connected: rejects the Session: UNAUTHENTICATED: who are you");
  director.Connect("a");
  EXPECT_EQ(ViewAgent(director, "a").why, "");
}

TEST(AgentViewTest, ConnectedAgentThatDoesNotAnswerStartsIsSuspect) {
  EngineFixture director;
  director.Connect("a");
  director.Add();
  director.AdvanceWithHeartbeats(absl::Seconds(75));
  EXPECT_EQ(ViewAgent(director, "a").state, AgentState::kSuspect);
  EXPECT_EQ(ViewAgent(director, "a").why, "did not answer 1 starts in a row");
}

TEST(AgentViewTest, SilentConnectedAgentIsUnreachable) {
  EngineFixture director;
  director.Connect("a");
  director.Advance(absl::Seconds(31));
  EXPECT_EQ(ViewAgent(director, "a").state, AgentState::kUnreachable);
  EXPECT_EQ(ViewAgent(director, "a").why, "silent for 31s");
}

TEST(AgentViewTest, AnnouncedAgentIsKnownBeforeItIsReached) {
  EngineFixture director;
  ASSERT_TRUE(director.engine().Announce({"a", "a/1", "grpc://a:1"}, director.now()).ok());
  EXPECT_EQ(ViewAgent(director, "a").state, AgentState::kUnreachable);
  EXPECT_EQ(ViewAgent(director, "a").url, "grpc://a:1");
  EXPECT_EQ(ViewAgent(director, "a").last_seen_at, director.now().wall);
}

TEST(AgentViewTest, SessionReplacesTheAnnouncedLabelsAndLanes) {
  EngineFixture director;
  const core::AgentAnnouncement announced = {.name = "a",
                                             .instance_id = "a/1",
                                             .url = "grpc://a:1",
                                             .labels = {{"gpu", "yes"}},
                                             .lanes = {{"build", {.slots = 2}}}};
  ASSERT_TRUE(director.engine().Announce(announced, director.now()).ok());
  EXPECT_THAT(ViewAgent(director, "a").labels, ElementsAre(Pair("gpu", "yes")));
  EXPECT_EQ(ViewAgent(director, "a").lanes, announced.lanes);
  director.Add();
  EXPECT_EQ(director.engine().views().Status(director.now()).in_flight(), 0u);
  EXPECT_EQ(director.engine().views().Status(director.now()).max_in_flight, 0u)
      << "it is not connected";

  core::SessionOpened opened = EngineFixture::IdleAgent("a");
  opened.labels = {{"gpu", "no"}};
  director.Connect(opened);
  ASSERT_TRUE(director.engine().Announce(announced, director.now()).ok());
  EXPECT_THAT(ViewAgent(director, "a").labels, ElementsAre(Pair("gpu", "no")));
  EXPECT_THAT(ViewAgent(director, "a").lanes, ElementsAre(Pair("default", _)));
}

TEST(AgentViewTest, UnknownAgentIsNotFound) {
  EngineFixture director;
  EXPECT_THAT(director.engine().views().FindAgent("a", director.now()),
              HasReason("AGENT_NOT_FOUND"));
}

TEST(AgentViewTest, AgentsAreListedByNamePageByPage) {
  EngineFixture director;
  for (const char* name : {"c", "a", "b"}) director.Connect(name);
  const auto names = [&](const std::string& after) {
    std::vector<std::string> names;
    const AgentPage page =
        director.engine().views().ListAgents({.after = after, .page_size = 2}, director.now());
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
  EXPECT_EQ(known, 1'001) << "agents that were never reached";
  EXPECT_THAT(status, HasReason("TOO_MANY_AGENTS"));
  director.Connect("listed in fleet.agents");
  director.Connect("a0");
  EXPECT_TRUE(director.engine().Announce({"b", "i", "grpc://b:1"}, director.now()).ok())
      << "an agent that was reached is not counted";
  director.Advance(absl::Minutes(1));
  EXPECT_TRUE(director.engine().Announce({"c", "i", "grpc://c:1"}, director.now()).ok())
      << "a forgotten agent makes room";
}

}  // namespace
}  // namespace callboard::director
