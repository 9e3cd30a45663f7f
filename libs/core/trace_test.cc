#include "libs/core/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

namespace callboard::core {
namespace {

using ::testing::Eq;
using ::testing::Optional;

// The example from the specification.
constexpr char kExample[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

const SpanContext kExampleContext = {
    .trace_id = TraceId({0x4b, 0xf9, 0x2f, 0x35, 0x77, 0xb3, 0x4d, 0xa6, 0xa3, 0xce, 0x92, 0x9d,
                         0x0e, 0x0e, 0x47, 0x36}),
    .span_id = SpanId({0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7}),
    .sampled = true};

TEST(TraceContextTest, TraceIdRoundTrips) {
  const std::string hex = "4bf92f3577b34da6a3ce929d0e0e4736";
  ASSERT_TRUE(ParseTraceId(hex).has_value());
  EXPECT_EQ(ToString(*ParseTraceId(hex)), hex);
  for (const char* text :
       {"", "4bf92f", "4BF92F3577B34DA6A3CE929D0E0E4736", "00000000000000000000000000000000"}) {
    EXPECT_FALSE(ParseTraceId(text).has_value()) << text;
  }
}

TEST(TraceContextTest, NewTraceUsesAllRandomBits) {
  EXPECT_EQ(
      FormatTraceparent(NewTrace({0x0101010101010101, 0x0202020202020202, 0x0303030303030303})),
      "00-01010101010101010202020202020202-0303030303030303-01");
}

TEST(TraceparentTest, IsReadAndWritten) {
  EXPECT_THAT(ParseTraceparent(kExample), Optional(Eq(kExampleContext)));
  EXPECT_EQ(FormatTraceparent(kExampleContext), kExample);
}

TEST(TraceparentTest, KeepsTheSampledFlagAndDropsOtherFlags) {
  const std::string start(kExample, 53);
  for (const auto& [flags, sampled] :
       {std::pair("00", false), {"01", true}, {"02", false}, {"ff", true}}) {
    const auto context = ParseTraceparent(start + flags);
    ASSERT_TRUE(context.has_value()) << flags;
    EXPECT_EQ(context->sampled, sampled) << flags;
    EXPECT_EQ(FormatTraceparent(*context), start + (sampled ? "01" : "00"));
  }
}

TEST(TraceparentTest, LaterVersionsAreReadAsFarAsKnown) {
  for (const char* later : {"01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                            "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-",
                            "fe-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what.comes"}) {
    EXPECT_THAT(ParseTraceparent(later), Optional(Eq(kExampleContext))) << later;
  }
}

TEST(TraceparentTest, MalformedHeaderIsNull) {
  for (const char* malformed : {
           "",
           "00",
           // Ids of zero.
           "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
           // Too short, too long.
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
           "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
           "00-4bf92f3577b34da6a3ce929d0e0e47361-00f067aa0ba902b7-01",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
           "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01more",
           // Upper case, and characters that are not digits.
           "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00F067AA0BA902B7-01",
           "00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0x",
           "0g-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
           // The invalid version.
           "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
           // Other separators.
           "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
           "00-4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7-01",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7_01",
       }) {
    EXPECT_EQ(ParseTraceparent(malformed), std::nullopt) << malformed;
  }
}

// Makes a trace id whose random part is `highest`, followed by zeros.
TraceId WithRandomness(uint8_t highest) {
  std::array<uint8_t, 16> bytes = {0xff};
  bytes[9] = highest;
  return TraceId(bytes);
}

TEST(IsSampledTest, ContainsTheShareWithTheHighestRandomBits) {
  int held = 0;
  for (int i = 0; i < 256; ++i) {
    held += IsSampled(WithRandomness(static_cast<uint8_t>(i)), 0.25) ? 1 : 0;
  }
  EXPECT_EQ(held, 64);
  EXPECT_TRUE(IsSampled(WithRandomness(0xc0), 0.25));
  EXPECT_FALSE(IsSampled(WithRandomness(0xbf), 0.25));
}

TEST(IsSampledTest, ContainsEveryTraceAtOneAndNoneAtZero) {
  std::array<uint8_t, 16> ones;
  ones.fill(0xff);
  for (const TraceId& id : {WithRandomness(0), TraceId(ones)}) {
    EXPECT_TRUE(IsSampled(id, 1));
    EXPECT_FALSE(IsSampled(id, 0));
  }
}

constexpr QueueId kTask = QueueId(Ulid(0x018c'2f3a'0000'1234, 0x5678));
constexpr QueueId kOther = QueueId(Ulid(0x018c'2f3a'0000'1234, 0x5679));

TEST(TaskSpansTest, EverySpanHasADifferentId) {
  std::set<SpanId> seen;
  for (const QueueId task : {kTask, kOther}) {
    seen.insert(SubmitSpan(task).span_id);
    for (uint64_t i = 0; i < 10; ++i) {
      seen.insert(WaitSpanId(task, DispatchNumber(i)));
      seen.insert(DispatchSpanId(task, DispatchNumber(i)));
    }
  }
  EXPECT_EQ(seen.size(), 2u * 21u);
  EXPECT_FALSE(seen.contains(SpanId()));
}

TEST(TaskSpansTest, TasksAndLateDispatchesHaveDifferentTraces) {
  const std::set<TraceId> seen = {SubmitSpan(kTask).trace_id, SubmitSpan(kOther).trace_id,
                                  DispatchTraceId(kTask, DispatchNumber(2)),
                                  DispatchTraceId(kTask, DispatchNumber(3)),
                                  DispatchTraceId(kOther, DispatchNumber(2))};
  EXPECT_EQ(seen.size(), 5u);
  EXPECT_FALSE(seen.contains(TraceId()));
}

TEST(TaskSpansTest, AttemptsOfOneRequestShareATrace) {
  EXPECT_TRUE(FireTraceId("director:7070", "cron/a/60") ==
              FireTraceId("director:7070", "cron/a/60"));
  const std::set<TraceId> seen = {FireTraceId("director:7070", "cron/a/60"),
                                  FireTraceId("director:7070", "cron/a/61"),
                                  FireTraceId("other:7070", "cron/a/60")};
  EXPECT_EQ(seen.size(), 3u);
  EXPECT_FALSE(seen.contains(TraceId()));
}

TEST(TaskSpansTest, CancelSpansDifferPerSubmit) {
  const std::set<SpanId> seen = {SubmitSpan(kTask).span_id, CancelSpanId(SubmitSpan(kTask).span_id),
                                 CancelSpanId(SubmitSpan(kOther).span_id)};
  EXPECT_EQ(seen.size(), 3u);
  EXPECT_FALSE(seen.contains(SpanId()));
}

// A director of a later version ends the spans that an earlier version began.
TEST(TaskSpansTest, NamesNeverChange) {
  EXPECT_EQ(FormatTraceparent(SubmitSpan(kTask)),
            "00-deeff5733407247685c9a5d60886ac36-deeff57334072476-00");
  const SpanContext wait = {SubmitSpan(kTask).trace_id, WaitSpanId(kTask, DispatchNumber(1))};
  EXPECT_EQ(FormatTraceparent(wait), "00-deeff5733407247685c9a5d60886ac36-d2afdaae92aef554-01");
  const SpanContext dispatch = {DispatchTraceId(kTask, DispatchNumber(2)),
                                DispatchSpanId(kTask, DispatchNumber(2))};
  EXPECT_EQ(FormatTraceparent(dispatch), "00-ec1f8cf3e148367594fb40ea4d2050c7-33d255487718c8a5-01");
  EXPECT_EQ(ToString(FireTraceId("director:7070", "cron/nightly/60")),
            "8e113e2f3a8606103fe68374f7090268");
}

}  // namespace
}  // namespace callboard::core
