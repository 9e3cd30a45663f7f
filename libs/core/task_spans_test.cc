#include "libs/core/task_spans.h"

#include <gtest/gtest.h>

#include <set>

namespace callboard::core {
namespace {

constexpr QueueId kTask = QueueId(Ulid(0x018c'2f3a'0000'1234, 0x5678));
constexpr QueueId kOther = QueueId(Ulid(0x018c'2f3a'0000'1234, 0x5679));

TEST(TaskSpansTest, EverySpanHasANameOfItsOwn) {
  std::set<SpanId> seen;
  for (const QueueId task : {kTask, kOther}) {
    seen.insert(SubmitSpanOf(task).span_id);
    for (uint64_t i = 0; i < 10; ++i) {
      seen.insert(WaitSpanOf(task, DispatchNumber(i)));
      seen.insert(DispatchSpanOf(task, DispatchNumber(i)));
    }
  }
  EXPECT_EQ(seen.size(), 2u * 21u);
  EXPECT_FALSE(seen.contains(SpanId()));
}

TEST(TaskSpansTest, TasksAndLateDispatchesHaveTracesOfTheirOwn) {
  const std::set<TraceId> seen = {SubmitSpanOf(kTask).trace_id, SubmitSpanOf(kOther).trace_id,
                                  DispatchTraceOf(kTask, DispatchNumber(2)),
                                  DispatchTraceOf(kTask, DispatchNumber(3)),
                                  DispatchTraceOf(kOther, DispatchNumber(2))};
  EXPECT_EQ(seen.size(), 5u);
  EXPECT_FALSE(seen.contains(TraceId()));
}

TEST(TaskSpansTest, TriesOfOneRequestShareATraceAndOthersDoNot) {
  EXPECT_TRUE(FireTraceOf("director:7070", "cron/a/60") ==
              FireTraceOf("director:7070", "cron/a/60"));
  const std::set<TraceId> seen = {FireTraceOf("director:7070", "cron/a/60"),
                                  FireTraceOf("director:7070", "cron/a/61"),
                                  FireTraceOf("other:7070", "cron/a/60")};
  EXPECT_EQ(seen.size(), 3u);
  EXPECT_FALSE(seen.contains(TraceId()));
}

TEST(TaskSpansTest, CancelHasASpanOfItsOwnUnderEachSubmit) {
  const std::set<SpanId> seen = {SubmitSpanOf(kTask).span_id,
                                 CancelSpanOf(SubmitSpanOf(kTask).span_id),
                                 CancelSpanOf(SubmitSpanOf(kOther).span_id)};
  EXPECT_EQ(seen.size(), 3u);
  EXPECT_FALSE(seen.contains(SpanId()));
}

// A director of a later version ends what one of an earlier began.
TEST(TaskSpansTest, NamesNeverChange) {
  EXPECT_EQ(FormatTraceparent(SubmitSpanOf(kTask)),
            "00-deeff5733407247685c9a5d60886ac36-deeff57334072476-00");
  const SpanContext wait = {SubmitSpanOf(kTask).trace_id, WaitSpanOf(kTask, DispatchNumber(1))};
  EXPECT_EQ(FormatTraceparent(wait), "00-deeff5733407247685c9a5d60886ac36-d2afdaae92aef554-01");
  const SpanContext dispatch = {DispatchTraceOf(kTask, DispatchNumber(2)),
                                DispatchSpanOf(kTask, DispatchNumber(2))};
  EXPECT_EQ(FormatTraceparent(dispatch), "00-ec1f8cf3e148367594fb40ea4d2050c7-33d255487718c8a5-01");
  EXPECT_EQ(ToString(FireTraceOf("director:7070", "cron/nightly/60")),
            "8e113e2f3a8606103fe68374f7090268");
}

}  // namespace
}  // namespace callboard::core
