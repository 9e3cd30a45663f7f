// Views of sessions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "libs/testing/engine_fixture.h"

namespace callboard::director {
namespace {

using test::EngineFixture;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

core::Submission InSession(const std::string& session) {
  core::Submission submission = EngineFixture::Prompt();
  submission.spec.session_id = session;
  return submission;
}

std::vector<TaskSessionView> Sessions(EngineFixture& director) {
  return director.engine().views().ListTaskSessions({}).sessions;
}

TEST(EngineSessionTest, SessionShowsPendingAndRunningTasks) {
  EngineFixture director;
  const core::QueueId first = director.Add(InSession("s"));
  director.Add(InSession("s"));
  director.Add();
  ASSERT_THAT(Sessions(director), SizeIs(1));
  TaskSessionView session = Sessions(director)[0];
  EXPECT_EQ(session.session_id, "s");
  EXPECT_EQ(session.agent, "");
  EXPECT_EQ(session.queued, 2u);
  EXPECT_EQ(session.running, std::nullopt);
  director.Connect("a");
  session = Sessions(director)[0];
  EXPECT_EQ(session.agent, "a");
  EXPECT_EQ(session.queued, 1u);
  EXPECT_EQ(session.running, first);
}

TEST(EngineSessionTest, SessionEndsWithItsLastLiveTask) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add(InSession("s"));
  director.AcceptStart(task);
  director.FinishRun(task);
  EXPECT_THAT(Sessions(director), IsEmpty());
}

TEST(EngineSessionTest, EventsOfItsTasksMakeASessionActive) {
  EngineFixture director;
  const core::QueueId first = director.Add(InSession("s"));
  director.Add(InSession("s"));
  EXPECT_EQ(Sessions(director)[0].active_at, director.now().wall);
  director.Advance(absl::Minutes(1));
  EXPECT_EQ(Sessions(director)[0].active_at, director.now().wall - absl::Minutes(1));
  director.Cancel(first);
  EXPECT_EQ(Sessions(director)[0].active_at, director.now().wall);
  director.Restart();
  EXPECT_EQ(Sessions(director)[0].active_at, director.now().wall);
}

TEST(EngineSessionTest, SessionsAreListedByNamePageByPage) {
  EngineFixture director;
  for (const char* name : {"c", "a", "b", "a"}) director.Add(InSession(name));
  const auto names = [&](const std::string& after) {
    const TaskSessionPage page =
        director.engine().views().ListTaskSessions({.after = after, .page_size = 2});
    std::vector<std::string> names;
    for (const TaskSessionView& session : page.sessions) names.push_back(session.session_id);
    names.push_back("next: " + page.next.value_or("none"));
    return names;
  };
  EXPECT_THAT(names(""), ElementsAre("a", "b", "next: b"));
  EXPECT_THAT(names("b"), ElementsAre("c", "next: none"));
}

}  // namespace
}  // namespace callboard::director
