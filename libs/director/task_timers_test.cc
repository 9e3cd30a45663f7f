#include "libs/director/task_table.h"

#include <gtest/gtest.h>

#include "absl/time/time.h"

namespace callboard::director {
namespace {

constexpr core::QueueId kFirst = core::QueueId(core::Ulid(0, 1));
constexpr core::QueueId kSecond = core::QueueId(core::Ulid(0, 2));

TEST(TaskTimersTest, DueTasksAreTakenOnceAndInOrder) {
  TaskTimers<absl::Duration> timers;
  timers.Set(kFirst, absl::Seconds(2));
  timers.Set(kSecond, absl::Seconds(1));
  EXPECT_EQ(timers.Next(), absl::Seconds(1));
  EXPECT_EQ(timers.TakeDue(absl::Milliseconds(999)), std::nullopt);
  EXPECT_EQ(timers.TakeDue(absl::Seconds(2)), kSecond);
  EXPECT_EQ(timers.TakeDue(absl::Seconds(2)), kFirst);
  EXPECT_EQ(timers.TakeDue(absl::Seconds(2)), std::nullopt);
  EXPECT_EQ(timers.Next(), std::nullopt);
}

TEST(TaskTimersTest, SetReplacesTheEarlierTime) {
  TaskTimers<absl::Duration> timers;
  timers.Set(kFirst, absl::Seconds(1));
  timers.Set(kFirst, absl::Seconds(3));
  EXPECT_EQ(timers.TakeDue(absl::Seconds(2)), std::nullopt);
  timers.Set(kFirst, std::nullopt);
  EXPECT_EQ(timers.TakeDue(absl::Seconds(3)), std::nullopt);
}

}  // namespace
}  // namespace callboard::director
