#include "libs/core/ids.h"

#include <gtest/gtest.h>

#include <limits>

namespace callboard::core {
namespace {

constexpr uint64_t kAll = std::numeric_limits<uint64_t>::max();

TEST(UlidTest, IsWrittenInTwentySixLowerCaseCharacters) {
  EXPECT_EQ(Ulid(0, 0).ToString(), "00000000000000000000000000");
  EXPECT_EQ(Ulid(0, 33).ToString(), "00000000000000000000000011");
  EXPECT_EQ(Ulid(kAll, kAll).ToString(), "7zzzzzzzzzzzzzzzzzzzzzzzzz");
}

TEST(UlidTest, ReadsBackWhatItWrote) {
  for (const Ulid ulid : {Ulid(0, 0), Ulid(kAll, kAll), Ulid(1, 0), Ulid(0, kAll),
                          Ulid(0x0123456789abcdef, 0xfedcba9876543210)}) {
    EXPECT_EQ(Ulid::Parse(ulid.ToString()), ulid) << ulid.ToString();
  }
}

TEST(UlidTest, OtherTextIsNoUlid) {
  for (const char* text :
       {"", "0", "0000000000000000000000000", "000000000000000000000000000",
        "80000000000000000000000000", "0000000000000000000000000I", "0000000000000000000000000A",
        "0000000000000000000000000l", "0000000000000000000000000-"}) {
    EXPECT_EQ(Ulid::Parse(text), std::nullopt) << text;
  }
}

TEST(UlidTest, LaterUlidsSortLaterAsValueAndAsText) {
  const Ulid early = Ulid::At(absl::FromUnixMillis(1'700'000'000'000), {kAll, kAll});
  const Ulid late = Ulid::At(absl::FromUnixMillis(1'700'000'000'001), {0, 0});
  EXPECT_LT(early, late);
  EXPECT_LT(early.ToString(), late.ToString());
}

TEST(UlidTest, NextUlidIsLargerEvenIfTheClockGoesBack) {
  const absl::Time now = absl::FromUnixMillis(1'700'000'000'000);
  Ulid last = Ulid::At(now, {kAll, kAll});
  for (const absl::Duration step : {absl::Milliseconds(1), absl::ZeroDuration(), -absl::Hours(1)}) {
    const Ulid next = Ulid::After(last, now + step, {0, 0});
    EXPECT_GT(next, last);
    last = next;
  }
}

TEST(UlidTest, NextUlidOfALaterTimeHasThatTime) {
  const absl::Time now = absl::FromUnixMillis(1'700'000'000'000);
  EXPECT_EQ(Ulid::After(Ulid::At(now, {kAll, kAll}), now + absl::Milliseconds(1), {2, 3}),
            Ulid::At(now + absl::Milliseconds(1), {2, 3}));
}

TEST(UlidTest, TimesBeforeTheEpochCountAsTheEpoch) {
  EXPECT_EQ(Ulid::At(absl::FromUnixSeconds(-5), {0, 7}), Ulid(0, 7));
}

constexpr QueueId kId = QueueId(Ulid(1, 2));

TEST(IdsTest, QueueIdRoundTrips) {
  EXPECT_EQ(ToString(kId), "queue-0000000000000g000000000002");
  EXPECT_EQ(ParseQueueId(ToString(kId)), kId);
}

TEST(IdsTest, OtherTextIsNoQueueId) {
  for (const char* text : {"", "queue-", "queue-1", "task-0000000000000g000000000002",
                           "0000000000000g000000000002", "queue-0000000000000G000000000002"}) {
    EXPECT_EQ(ParseQueueId(text), std::nullopt) << text;
  }
}

TEST(IdsTest, TaskIdContainsTaskAndDispatch) {
  EXPECT_EQ(TaskIdText(kId, DispatchNumber(3)), "task-0000000000000g000000000002-3");
  EXPECT_EQ(ParseTaskId("task-0000000000000g000000000002-3"),
            std::make_pair(kId, DispatchNumber(3)));
}

TEST(IdsTest, OtherTextIsNoTaskId) {
  for (const char* text :
       {"", "task-", "task-1-1", "task-0000000000000g000000000002",
        "task-0000000000000g000000000002-", "task-0000000000000g000000000002-x",
        "task-0000000000000g000000000002-03", "queue-0000000000000g000000000002-3"}) {
    EXPECT_EQ(ParseTaskId(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace callboard::core
