#include "libs/director/task_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <utility>

namespace callboard::director {
namespace {

using core::TaskState;

std::optional<CancelPhase> PhaseOf(core::TaskChange change, TaskState from) {
  return CancelPhaseOf({.change = std::move(change)}, {.from = from});
}

TEST(TaskStepTest, CancelOfATaskInLineIsQueued) {
  EXPECT_EQ(PhaseOf(core::Ended{.state = TaskState::kCancelled}, TaskState::kPending),
            CancelPhase::kQueued);
}

TEST(TaskStepTest, CancelOfATaskThatAnAgentHasCountsWhenItIsAskedFor) {
  EXPECT_EQ(PhaseOf(core::CancelRequested(), TaskState::kDispatching), CancelPhase::kDispatching);
  EXPECT_EQ(PhaseOf(core::CancelRequested(), TaskState::kWorking), CancelPhase::kInFlight);
}

TEST(TaskStepTest, EndOfACancelledRunIsNoSecondCancel) {
  for (const TaskState from : {TaskState::kDispatching, TaskState::kWorking}) {
    EXPECT_EQ(PhaseOf(core::Ended{.state = TaskState::kCancelled}, from), std::nullopt);
  }
}

TEST(TaskStepTest, OtherEndsAreNoCancels) {
  EXPECT_EQ(PhaseOf(core::Ended{.state = TaskState::kFailed}, TaskState::kPending), std::nullopt);
  EXPECT_EQ(PhaseOf(core::Accepted(), TaskState::kDispatching), std::nullopt);
}

}  // namespace
}  // namespace callboard::director
