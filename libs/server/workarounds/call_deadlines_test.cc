#include "libs/server/workarounds/call_deadlines.h"

#include <gtest/gtest.h>

#include <future>
#include <string>

#include "libs/system/system.h"

namespace callboard::server::internal {
namespace {

class CallDeadlinesTest : public testing::Test {
 protected:
  const system::SystemClock clock_;
  CallDeadlines deadlines_{clock_};
};

TEST_F(CallDeadlinesTest, DeadlineDoesNotElapseEarly) {
  std::promise<absl::Duration> elapsed;
  const absl::Duration began = clock_.MonotonicNow();
  deadlines_.Add(absl::Milliseconds(20), [&] { elapsed.set_value(clock_.MonotonicNow()); });
  EXPECT_GE(elapsed.get_future().get() - began, absl::Milliseconds(20));
}

TEST_F(CallDeadlinesTest, LaterDeadlineDoesNotDelayAnEarlierOne) {
  std::promise<std::string> first;
  const CallDeadlines::Key later =
      deadlines_.Add(absl::Hours(1), [&] { first.set_value("later"); });
  deadlines_.Add(absl::Milliseconds(1), [&] { first.set_value("earlier"); });
  EXPECT_EQ(first.get_future().get(), "earlier");
  deadlines_.Remove(later);
}

TEST_F(CallDeadlinesTest, RemovedDeadlineNeverElapsesAndTheNextOneDoes) {
  std::promise<std::string> first;
  deadlines_.Remove(deadlines_.Add(absl::Milliseconds(1), [&] { first.set_value("removed"); }));
  deadlines_.Add(absl::Milliseconds(5), [&] { first.set_value("next"); });
  EXPECT_EQ(first.get_future().get(), "next");
}

TEST_F(CallDeadlinesTest, DeadlineAddedAfterAllElapsedAlsoElapses) {
  for (int i = 0; i < 3; ++i) {
    std::promise<int> elapsed;
    deadlines_.Add(absl::Milliseconds(1), [&] { elapsed.set_value(i); });
    EXPECT_EQ(elapsed.get_future().get(), i);
  }
}

}  // namespace
}  // namespace callboard::server::internal
