// The contract of every Clock, fake and real.
#include <gtest/gtest.h>

#include "libs/system/system.h"
#include "libs/testing/fake_environment.h"

namespace callboard::test {
namespace {

template <class ClockType>
class ClockContractTest : public ::testing::Test {
 protected:
  ClockType clock_;
};

using Clocks = ::testing::Types<FakeClock, system::SystemClock>;
TYPED_TEST_SUITE(ClockContractTest, Clocks);

TYPED_TEST(ClockContractTest, MonotonicTimeNeverGoesBack) {
  absl::Duration last = this->clock_.MonotonicNow();
  for (int i = 0; i < 1000; ++i) {
    const absl::Duration now = this->clock_.MonotonicNow();
    ASSERT_GE(now, last);
    last = now;
  }
}

TYPED_TEST(ClockContractTest, WallTimeIsAPlausibleDate) {
  EXPECT_GE(this->clock_.WallNow(), absl::FromUnixSeconds(1'700'000'000));
}

TEST(FakeClockTest, AdvanceMovesBothClocksAndStepOnlyTheWallClock) {
  FakeClock clock;
  const absl::Time wall = clock.WallNow();
  const absl::Duration monotonic = clock.MonotonicNow();
  clock.Advance(absl::Seconds(5));
  clock.StepWall(-absl::Seconds(30));
  EXPECT_EQ(clock.WallNow(), wall - absl::Seconds(25));
  EXPECT_EQ(clock.MonotonicNow(), monotonic + absl::Seconds(5));
}

}  // namespace
}  // namespace callboard::test
