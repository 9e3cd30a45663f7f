#include "services/director/lists.h"

#include <gtest/gtest.h>

namespace callboard {
namespace {

const core::QueueId kTask(core::Ulid(1, 2));

TEST(ExplanationTest, AllFieldsOfTheEngineAreConverted) {
  const v1::ExplainTaskResponse proto =
      ToProto(kTask, {.state = core::LifecycleState::kPending,
                      .position = 3,
                      .ready_ahead = 2,
                      .summary = "2 tasks are ahead of it",
                      .not_before = absl::FromUnixSeconds(7),
                      .agents = {{"a", false, "busy"}, {"b", true, ""}},
                      .estimated_start_at = absl::FromUnixSeconds(9)});
  EXPECT_EQ(proto.queue_id(), core::ToString(kTask));
  EXPECT_EQ(proto.state(), v1::Task::STATE_PENDING);
  EXPECT_EQ(proto.position(), 3u);
  EXPECT_EQ(proto.ready_ahead(), 2u);
  EXPECT_EQ(proto.summary(), "2 tasks are ahead of it");
  EXPECT_EQ(proto.not_before().seconds(), 7);
  ASSERT_EQ(proto.agents_size(), 2);
  EXPECT_EQ(proto.agents(0).agent(), "a");
  EXPECT_EQ(proto.agents(0).why_not(), "busy");
  EXPECT_FALSE(proto.agents(0).fits());
  EXPECT_TRUE(proto.agents(1).fits());
  EXPECT_EQ(proto.estimated_start_at().seconds(), 9);
}

TEST(ExplanationTest, UnknownFieldsAreAbsent) {
  const v1::ExplainTaskResponse proto = ToProto(kTask, {.state = core::LifecycleState::kCompleted});
  EXPECT_EQ(proto.state(), v1::Task::STATE_COMPLETED);
  EXPECT_FALSE(proto.has_not_before());
  EXPECT_FALSE(proto.has_estimated_start_at());
}

}  // namespace
}  // namespace callboard
