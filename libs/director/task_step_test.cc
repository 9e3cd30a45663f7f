#include "libs/director/task_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <utility>

namespace callboard::director {
namespace {

using core::LifecycleState;

std::optional<CancelPhase> PhaseOf(core::TaskChange change, LifecycleState from) {
  return CancelPhaseOf({.change = std::move(change)}, {.from = from});
}

TEST(TaskStepTest, CancelOfAPendingTaskIsQueued) {
  EXPECT_EQ(PhaseOf(core::TaskEnded{.state = LifecycleState::kCancelled}, LifecycleState::kPending),
            CancelPhase::kQueued);
}

TEST(TaskStepTest, CancelOfATaskInFlightCountsWhenRequested) {
  EXPECT_EQ(PhaseOf(core::CancelRequested(), LifecycleState::kDispatching),
            CancelPhase::kDispatching);
  EXPECT_EQ(PhaseOf(core::CancelRequested(), LifecycleState::kWorking), CancelPhase::kInFlight);
}

TEST(TaskStepTest, EndOfACancelledRunIsNotASecondCancel) {
  for (const LifecycleState from : {LifecycleState::kDispatching, LifecycleState::kWorking}) {
    EXPECT_EQ(PhaseOf(core::TaskEnded{.state = LifecycleState::kCancelled}, from), std::nullopt);
  }
}

TEST(TaskStepTest, OtherEndsAreNotCancels) {
  EXPECT_EQ(PhaseOf(core::TaskEnded{.state = LifecycleState::kFailed}, LifecycleState::kPending),
            std::nullopt);
  EXPECT_EQ(PhaseOf(core::StartAccepted(), LifecycleState::kDispatching), std::nullopt);
}

}  // namespace
}  // namespace callboard::director
