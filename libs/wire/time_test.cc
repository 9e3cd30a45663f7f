#include "libs/wire/time.h"

#include <gtest/gtest.h>

namespace callboard::wire {
namespace {

using google::protobuf::Duration;
using google::protobuf::Timestamp;

Timestamp TimestampOf(int64_t seconds, int32_t nanos) {
  Timestamp proto;
  proto.set_seconds(seconds);
  proto.set_nanos(nanos);
  return proto;
}

Duration DurationOf(int64_t seconds, int32_t nanos) {
  Duration proto;
  proto.set_seconds(seconds);
  proto.set_nanos(nanos);
  return proto;
}

TEST(TimeTest, TimesKeepTheirNanosecondsAlsoBefore1970) {
  for (const Timestamp& proto :
       {TimestampOf(0, 0), TimestampOf(1'700'000'000, 999'999'999), TimestampOf(-1, 1),
        TimestampOf(-62'135'596'800, 0), TimestampOf(253'402'300'799, 999'999'999)}) {
    ASSERT_TRUE(FromProto(proto).has_value());
    EXPECT_EQ(ToProto(*FromProto(proto)).seconds(), proto.seconds());
    EXPECT_EQ(ToProto(*FromProto(proto)).nanos(), proto.nanos());
  }
}

TEST(TimeTest, WhatIsNoTimeIsRefused) {
  EXPECT_EQ(FromProto(TimestampOf(-62'135'596'801, 0)), std::nullopt);
  EXPECT_EQ(FromProto(TimestampOf(253'402'300'800, 0)), std::nullopt);
  EXPECT_EQ(FromProto(TimestampOf(0, -1)), std::nullopt);
  EXPECT_EQ(FromProto(TimestampOf(0, 1'000'000'000)), std::nullopt);
}

TEST(TimeTest, TimesBeyondAllCalendarsAreRefusedOnTheWayBack) {
  EXPECT_EQ(FromProto(ToProto(absl::InfiniteFuture())), std::nullopt);
  EXPECT_EQ(FromProto(ToProto(absl::InfinitePast())), std::nullopt);
  EXPECT_EQ(FromProto(ToProto(absl::InfiniteDuration())), std::nullopt);
}

TEST(TimeTest, DurationsKeepSignAndNanoseconds) {
  for (const Duration& proto : {DurationOf(0, 0), DurationOf(1, 500'000'000), DurationOf(-1, -5),
                                DurationOf(0, -5), DurationOf(315'576'000'000, 0)}) {
    ASSERT_TRUE(FromProto(proto).has_value());
    EXPECT_EQ(ToProto(*FromProto(proto)).seconds(), proto.seconds());
    EXPECT_EQ(ToProto(*FromProto(proto)).nanos(), proto.nanos());
  }
}

TEST(TimeTest, WhatIsNoDurationIsRefused) {
  EXPECT_EQ(FromProto(DurationOf(315'576'000'001, 0)), std::nullopt);
  EXPECT_EQ(FromProto(DurationOf(1, -1)), std::nullopt);
  EXPECT_EQ(FromProto(DurationOf(-1, 1)), std::nullopt);
  EXPECT_EQ(FromProto(DurationOf(0, 1'000'000'000)), std::nullopt);
}

}  // namespace
}  // namespace callboard::wire
