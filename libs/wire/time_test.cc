#include "libs/wire/time.h"

#include <gtest/gtest.h>

namespace callboard::wire {
namespace {

using google::protobuf::Duration;
using google::protobuf::Timestamp;

Timestamp MakeTimestamp(int64_t seconds, int32_t nanos) {
  Timestamp proto;
  proto.set_seconds(seconds);
  proto.set_nanos(nanos);
  return proto;
}

Duration MakeDuration(int64_t seconds, int32_t nanos) {
  Duration proto;
  proto.set_seconds(seconds);
  proto.set_nanos(nanos);
  return proto;
}

TEST(TimeTest, TimesKeepNanosecondsBeforeAndAfter1970) {
  for (const Timestamp& proto :
       {MakeTimestamp(0, 0), MakeTimestamp(1'700'000'000, 999'999'999), MakeTimestamp(-1, 1),
        MakeTimestamp(-62'135'596'800, 0), MakeTimestamp(253'402'300'799, 999'999'999)}) {
    ASSERT_TRUE(FromProto(proto).has_value());
    EXPECT_EQ(ToProto(*FromProto(proto)).seconds(), proto.seconds());
    EXPECT_EQ(ToProto(*FromProto(proto)).nanos(), proto.nanos());
  }
}

TEST(TimeTest, InvalidTimestampIsNull) {
  EXPECT_EQ(FromProto(MakeTimestamp(-62'135'596'801, 0)), std::nullopt);
  EXPECT_EQ(FromProto(MakeTimestamp(253'402'300'800, 0)), std::nullopt);
  EXPECT_EQ(FromProto(MakeTimestamp(0, -1)), std::nullopt);
  EXPECT_EQ(FromProto(MakeTimestamp(0, 1'000'000'000)), std::nullopt);
}

TEST(TimeTest, InfiniteTimesBecomeInvalidTimestamps) {
  EXPECT_EQ(FromProto(ToProto(absl::InfiniteFuture())), std::nullopt);
  EXPECT_EQ(FromProto(ToProto(absl::InfinitePast())), std::nullopt);
  EXPECT_EQ(FromProto(ToProto(absl::InfiniteDuration())), std::nullopt);
}

TEST(TimeTest, DurationsKeepSignAndNanoseconds) {
  for (const Duration& proto :
       {MakeDuration(0, 0), MakeDuration(1, 500'000'000), MakeDuration(-1, -5), MakeDuration(0, -5),
        MakeDuration(315'576'000'000, 0)}) {
    ASSERT_TRUE(FromProto(proto).has_value());
    EXPECT_EQ(ToProto(*FromProto(proto)).seconds(), proto.seconds());
    EXPECT_EQ(ToProto(*FromProto(proto)).nanos(), proto.nanos());
  }
}

TEST(TimeTest, InvalidDurationIsNull) {
  EXPECT_EQ(FromProto(MakeDuration(315'576'000'001, 0)), std::nullopt);
  EXPECT_EQ(FromProto(MakeDuration(1, -1)), std::nullopt);
  EXPECT_EQ(FromProto(MakeDuration(-1, 1)), std::nullopt);
  EXPECT_EQ(FromProto(MakeDuration(0, 1'000'000'000)), std::nullopt);
}

}  // namespace
}  // namespace callboard::wire
