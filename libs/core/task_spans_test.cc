#include "libs/core/trace.h"

#include <gtest/gtest.h>

#include <set>

namespace callboard::core {
namespace {

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
