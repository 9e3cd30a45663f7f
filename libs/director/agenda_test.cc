#include "libs/director/book.h"

#include <gtest/gtest.h>

#include "absl/time/time.h"

namespace callboard::director {
namespace {

constexpr core::QueueId kFirst = core::QueueId(core::Ulid(0, 1));
constexpr core::QueueId kSecond = core::QueueId(core::Ulid(0, 2));

TEST(AgendaTest, DueTasksAreTakenOnceAndInOrder) {
  Agenda<absl::Duration> agenda;
  agenda.Set(kFirst, absl::Seconds(2));
  agenda.Set(kSecond, absl::Seconds(1));
  EXPECT_EQ(agenda.Next(), absl::Seconds(1));
  EXPECT_EQ(agenda.TakeDue(absl::Milliseconds(999)), std::nullopt);
  EXPECT_EQ(agenda.TakeDue(absl::Seconds(2)), kSecond);
  EXPECT_EQ(agenda.TakeDue(absl::Seconds(2)), kFirst);
  EXPECT_EQ(agenda.TakeDue(absl::Seconds(2)), std::nullopt);
  EXPECT_EQ(agenda.Next(), std::nullopt);
}

TEST(AgendaTest, SetReplacesTheEarlierTime) {
  Agenda<absl::Duration> agenda;
  agenda.Set(kFirst, absl::Seconds(1));
  agenda.Set(kFirst, absl::Seconds(3));
  EXPECT_EQ(agenda.TakeDue(absl::Seconds(2)), std::nullopt);
  agenda.Set(kFirst, std::nullopt);
  EXPECT_EQ(agenda.TakeDue(absl::Seconds(3)), std::nullopt);
}

}  // namespace
}  // namespace callboard::director
