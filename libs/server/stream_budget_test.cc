#include "libs/server/stream_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "libs/testing/fake_environment.h"

namespace callboard::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class StreamBudgetTest : public testing::Test {
 protected:
  // Holds a message of stream `name`, which is added to `cut_off_` when the stream is cut off.
  uint64_t Hold(int name, size_t bytes) {
    return budget_.Hold(bytes, [this, name] { cut_off_.push_back(name); });
  }

  test::FakeClock clock_;
  StreamBudget budget_{clock_, {.bytes_max = 100, .stall_timeout = absl::Seconds(5)}};
  std::vector<int> cut_off_;
};

TEST_F(StreamBudgetTest, NoStreamIsCutOffWithinTheBudget) {
  Hold(1, 50);
  clock_.Advance(absl::Hours(1));
  Hold(2, 50);
  EXPECT_THAT(cut_off_, IsEmpty());
  EXPECT_EQ(budget_.bytes(), 100u);
}

TEST_F(StreamBudgetTest, StreamWithTheOldestMessageIsCutOff) {
  Hold(1, 40);
  Hold(2, 40);
  clock_.Advance(absl::Seconds(5));
  Hold(3, 40);
  EXPECT_THAT(cut_off_, ElementsAre(1));
  EXPECT_EQ(budget_.bytes(), 80u);
}

TEST_F(StreamBudgetTest, FastReaderIsNotCutOffBecauseOfSlowOnes) {
  Hold(1, 60);
  for (int i = 0; i < 10; ++i) {
    clock_.Advance(absl::Seconds(1));
    budget_.Release(Hold(2, 60));
  }
  EXPECT_THAT(cut_off_, ElementsAre(1));
  EXPECT_EQ(budget_.bytes(), 0u);
}

TEST_F(StreamBudgetTest, StreamsBelowTheStallTimeoutAreKeptUpToTwiceTheBudget) {
  Hold(1, 100);
  Hold(2, 100);
  EXPECT_THAT(cut_off_, IsEmpty());
  Hold(3, 100);
  EXPECT_THAT(cut_off_, ElementsAre(1)) << "down to twice the budget";
}

TEST_F(StreamBudgetTest, StreamIsCutOffOnce) {
  const uint64_t first = Hold(1, 100);
  clock_.Advance(absl::Seconds(5));
  Hold(2, 100);
  Hold(3, 100);
  budget_.Release(first);
  EXPECT_THAT(cut_off_, ElementsAre(1));
  EXPECT_EQ(budget_.bytes(), 200u);
}

}  // namespace
}  // namespace callboard::server
