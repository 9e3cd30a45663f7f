#include "libs/server/call_deadlines.h"

#include <gtest/gtest.h>

#include <future>
#include <string>

#include "libs/adapters/system_clock/system_clock.h"

namespace callboard::server::internal {
namespace {

class CallDeadlinesTest : public testing::Test {
 protected:
  const adapters::SystemClock clock_;
  CallDeadlines deadlines_{clock_};
};

TEST_F(CallDeadlinesTest, ElapsesNoEarlierThanItWasSetFor) {
  std::promise<absl::Duration> elapsed;
  const absl::Duration began = clock_.MonotonicNow();
  deadlines_.Add(absl::Milliseconds(20), [&] { elapsed.set_value(clock_.MonotonicNow()); });
  EXPECT_GE(elapsed.get_future().get() - began, absl::Milliseconds(20));
}

TEST_F(CallDeadlinesTest, LaterOneDoesNotHoldUpAnEarlierOne) {
  std::promise<std::string> first;
  const CallDeadlines::Key later =
      deadlines_.Add(absl::Hours(1), [&] { first.set_value("later"); });
  deadlines_.Add(absl::Milliseconds(1), [&] { first.set_value("earlier"); });
  EXPECT_EQ(first.get_future().get(), "earlier");
  deadlines_.Remove(later);
}

TEST_F(CallDeadlinesTest, RemovedOneNeverElapsesAndTheNextOneDoes) {
  std::promise<std::string> first;
  deadlines_.Remove(deadlines_.Add(absl::Milliseconds(1), [&] { first.set_value("removed"); }));
  deadlines_.Add(absl::Milliseconds(5), [&] { first.set_value("next"); });
  EXPECT_EQ(first.get_future().get(), "next");
}

TEST_F(CallDeadlinesTest, DeadlinesAfterAllHaveElapsedElapseToo) {
  for (int i = 0; i < 3; ++i) {
    std::promise<int> elapsed;
    deadlines_.Add(absl::Milliseconds(1), [&] { elapsed.set_value(i); });
    EXPECT_EQ(elapsed.get_future().get(), i);
  }
}

}  // namespace
}  // namespace callboard::server::internal
