#include "services/director/task_spans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/core/trace.h"
#include "libs/testing/recorded_spans.h"

namespace callboard {
namespace {

using core::LifecycleState;
using director::TaskStep;
using test::TextOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr core::QueueId kTask = core::QueueId(core::Ulid(1, 2));
const absl::Time kNow = absl::FromUnixSeconds(1'700'000'000);
const core::SpanContext kSubmit = core::SubmitSpan(core::QueueId(core::Ulid(3, 4)));
const core::SpanContext kSecondDispatch = {kSubmit.trace_id,
                                           core::DispatchSpanId(kTask, core::DispatchNumber(2))};

core::TaskRecord Record(core::TaskChange change) {
  return {
      .queue_id = kTask, .event = {.at = kNow, .agent = "agent-1"}, .change = std::move(change)};
}

// A step of a task that was submitted ten seconds ago and has been in its state for two.
TaskStep StepFrom(LifecycleState state, uint64_t dispatch) {
  return {.from = state,
          .since = kNow - absl::Seconds(2),
          .submitted_at = kNow - absl::Seconds(10),
          .attempts = 1,
          .max_attempts = 3,
          .trace = kSubmit,
          .dispatch = core::DispatchNumber(dispatch),
          .dispatch_trace = kSecondDispatch,
          .dispatched_at = kNow - absl::Seconds(3)};
}

std::vector<std::string> EventsOf(const ports::FinishedSpan& span) {
  std::vector<std::string> events;
  for (const ports::SpanEvent& event : span.events) {
    events.push_back(absl::StrCat(event.name, " ", absl::ToInt64Seconds(kNow - event.at)));
  }
  return events;
}

TEST(TaskSpansTest, FirstWaitBeginsAtTheSubmit) {
  const auto span = SpanOf(Record(core::TaskDispatched{}), StepFrom(LifecycleState::kPending, 0));
  EXPECT_EQ(span.name, "queue.wait");
  EXPECT_TRUE(span.context.trace_id == kSubmit.trace_id);
  EXPECT_TRUE(span.context.span_id == core::WaitSpanId(kTask, core::DispatchNumber(0)));
  EXPECT_TRUE(span.parent == kSubmit.span_id);
  EXPECT_EQ(span.start, kNow - absl::Seconds(10));
  EXPECT_EQ(span.end, kNow);
  EXPECT_THAT(EventsOf(span), ElementsAre("waiting 10", "pending 2"));
  EXPECT_TRUE(span.status.ok());
}

TEST(TaskSpansTest, EachLaterWaitHasItsOwnSpan) {
  const auto span = SpanOf(Record(core::TaskDispatched{}), StepFrom(LifecycleState::kPending, 2));
  EXPECT_TRUE(span.context.span_id == core::WaitSpanId(kTask, core::DispatchNumber(2)));
  EXPECT_EQ(span.start, kNow - absl::Seconds(2));
  EXPECT_THAT(EventsOf(span), ElementsAre("pending 2"));
}

TEST(TaskSpansTest, TaskThatEndsWhilePendingEndsItsWait) {
  const auto span = SpanOf(Record(core::TaskEnded{.state = LifecycleState::kFailed,
                                                  .reason = core::FailureReason::kExpired}),
                           StepFrom(LifecycleState::kPending, 0));
  EXPECT_EQ(span.name, "queue.wait");
  EXPECT_EQ(TextOf(span, "callboard.task.state"), "failed");
  EXPECT_EQ(span.status, absl::UnknownError("expired"));
  EXPECT_EQ(TextOf(span, "error.type"), "expired");
}

TEST(TaskSpansTest, DispatchSpanLastsUntilItsRunEnds) {
  const auto span =
      SpanOf(Record(core::TaskEnded{.state = LifecycleState::kCompleted, .run = core::RunResult{}}),
             StepFrom(LifecycleState::kWorking, 2));
  EXPECT_EQ(span.name, "dispatch");
  EXPECT_EQ(span.context, kSecondDispatch);
  EXPECT_TRUE(span.parent == kSubmit.span_id);
  EXPECT_THAT(span.links, IsEmpty());
  EXPECT_EQ(span.start, kNow - absl::Seconds(3));
  EXPECT_THAT(EventsOf(span), ElementsAre("accepted 2"));
  EXPECT_EQ(TextOf(span, "callboard.dispatch.outcome"), "accepted");
  EXPECT_EQ(TextOf(span, "callboard.agent.name"), "agent-1");
  EXPECT_EQ(TextOf(span, "callboard.task.state"), "completed");
  EXPECT_EQ(TextOf(span, "messaging.operation.name"), "dispatch");
  EXPECT_EQ(TextOf(span, "messaging.operation.type"), "send");
  EXPECT_EQ(TextOf(span, "messaging.destination.name"), "queue");
  EXPECT_EQ(TextOf(span, "error.type"), "");
}

TEST(TaskSpansTest, DispatchSpanHasTheOutcomeOfAFailure) {
  const auto busy =
      SpanOf(Record(core::StartAnsweredBusy{}), StepFrom(LifecycleState::kDispatching, 2));
  EXPECT_EQ(TextOf(busy, "callboard.dispatch.outcome"), "busy");
  EXPECT_TRUE(busy.status.ok());
  const auto failed = SpanOf(Record(core::TaskReturned{.error = "canary"}),
                             StepFrom(LifecycleState::kDispatching, 2));
  EXPECT_EQ(TextOf(failed, "callboard.dispatch.outcome"), "failed");
  EXPECT_EQ(TextOf(failed, "error.type"), "director_restarted");
  EXPECT_EQ(TextOf(busy, "error.type"), "");
}

TEST(TaskSpansTest, DispatchThatReturnsItsTaskHasAnErrorType) {
  using core::DispatchFailure;
  const std::vector<std::pair<core::TaskReturned, std::string>> all = {
      {{.failure = DispatchFailure::kNone, .error = "canary"}, "director_restarted"},
      {{.failure = DispatchFailure::kNone, .reported = true, .error = "canary"}, "run_failed"},
      {{.failure = DispatchFailure::kAgentFailed, .error = "canary"}, "agent_failed"},
      {{.failure = DispatchFailure::kAgentFailed, .reported = true, .error = "canary"},
       "not_started"},
      {{.failure = DispatchFailure::kAgentLost, .error = "canary"}, "agent_lost"}};
  for (const auto& [returned, why] : all) {
    const auto span = SpanOf(Record(returned), StepFrom(LifecycleState::kWorking, 2));
    EXPECT_EQ(TextOf(span, "error.type"), why);
    EXPECT_EQ(span.status, absl::UnknownError(why));
  }
}

TEST(TaskSpansTest, DispatchInAnotherTraceIsLinkedToTheSubmit) {
  TaskStep step = StepFrom(LifecycleState::kWorking, 2);
  step.dispatch_trace.trace_id = core::DispatchTraceId(kTask, core::DispatchNumber(2));
  const auto span = SpanOf(Record(core::TaskReturned{}), step);
  EXPECT_TRUE(span.parent == std::nullopt);
  EXPECT_THAT(span.links, ElementsAre(kSubmit));
}

TEST(TaskSpansTest, RedriveBeginsANewTrace) {
  const auto span =
      SpanOf(Record(core::TaskAdmitted{.redrive_of = core::QueueId(core::Ulid(5, 6))}),
             StepFrom(LifecycleState::kPending, 0));
  EXPECT_EQ(span.name, "queue.redrive");
  EXPECT_EQ(span.context, kSubmit);
  EXPECT_TRUE(span.parent == std::nullopt);
}

TEST(TaskSpansTest, StepsWithinASpanDoNotEndIt) {
  EXPECT_FALSE(EndsSpan(Record(core::TaskAdmitted{})));
  EXPECT_FALSE(EndsSpan(Record(core::EventOnly{})));
  EXPECT_FALSE(EndsSpan(Record(core::StartAccepted{})));
  EXPECT_FALSE(EndsSpan(Record(core::CancelRequested{})));
}

// Returns everything in a span as text.
std::string FullText(const ports::FinishedSpan& span) {
  std::string text = absl::StrCat(span.name, " ", span.status.ToString(), " ", span.links.size(),
                                  " ", absl::FormatTime(span.start), absl::FormatTime(span.end),
                                  absl::StrJoin(EventsOf(span), ","));
  for (const ports::SpanAttribute& attribute : span.attributes) {
    absl::StrAppend(&text, " ", attribute.name, "=");
    if (const auto* value = std::get_if<std::string>(&attribute.value)) {
      absl::StrAppend(&text, *value);
    } else {
      absl::StrAppend(&text, std::get<int64_t>(attribute.value));
    }
  }
  return text;
}

TEST(TaskSpansTest, UnsampledTraceHasNoSpans) {
  test::RecordedSpans spans;
  const std::vector<core::Record> records = {Record(core::TaskDispatched{})};
  TaskStep step = StepFrom(LifecycleState::kPending, 0);
  step.trace.sampled = false;
  EmitSpans(records, {step}, spans);
  EXPECT_THAT(spans.All(), IsEmpty());
  step.trace.sampled = true;
  EmitSpans(records, {step}, spans);
  EXPECT_EQ(spans.Only().name, "queue.wait");
}

TEST(TaskSpansTest, CancelSpanLastsAsLongAsItsCallerWaited) {
  test::RecordedSpans spans;
  core::SpanContext trace = kSubmit;
  trace.sampled = true;
  EmitSpan({.phase = director::CancelPhase::kWaiting,
            .at = kNow,
            .origin = {.arrived = kNow - absl::Seconds(4), .trace = trace}},
           spans);
  const ports::FinishedSpan span = spans.Only();
  EXPECT_EQ(span.name, "queue.cancel");
  EXPECT_TRUE(span.context.trace_id == kSubmit.trace_id);
  EXPECT_TRUE(span.parent == kSubmit.span_id);
  EXPECT_EQ(span.end - span.start, absl::Seconds(4));
  EXPECT_THAT(FullText(span), HasSubstr("callboard.cancel.phase=waiting"));
}

TEST(TaskSpansTest, CancelWithoutATraceHasNoSpan) {
  test::RecordedSpans spans;
  EmitSpan({.phase = director::CancelPhase::kQueued, .queue_id = kTask}, spans);
  EXPECT_THAT(spans.All(), IsEmpty());
}

TEST(TaskSpansTest, SpanThatIsBuiltLaterIsComplete) {
  const std::vector<std::pair<core::TaskChange, LifecycleState>> steps = {
      {core::TaskAdmitted{.redrive_of = core::QueueId(core::Ulid(5, 6))}, LifecycleState::kPending},
      {core::TaskDispatched{.instance_id = "i"}, LifecycleState::kPending},
      {core::StartAnsweredBusy{.busy_rejections = 2}, LifecycleState::kDispatching},
      {core::TaskReturned{.error = "why"}, LifecycleState::kDispatching},
      {core::TaskReturned{.reported = true, .error = "why"}, LifecycleState::kDispatching},
      {core::TaskReturned{.failure = core::DispatchFailure::kAgentLost, .error = "why"},
       LifecycleState::kWorking},
      {core::TaskEnded{.state = LifecycleState::kCancelled}, LifecycleState::kDispatching},
      {core::TaskEnded{.state = LifecycleState::kFailed,
                       .reason = core::FailureReason::kAgentRejected},
       LifecycleState::kDispatching},
      {core::TaskEnded{.state = LifecycleState::kFailed,
                       .reason = core::FailureReason::kExecFailed,
                       .run = core::RunResult{.exit_code = 7, .result = "result"},
                       .error = "why"},
       LifecycleState::kDispatching},
      {core::TaskEnded{.state = LifecycleState::kCompleted, .run = core::RunResult{}},
       LifecycleState::kWorking}};
  for (const auto& [change, from] : steps) {
    test::RecordedSpans spans;
    const core::TaskRecord record = Record(change);
    TaskStep step = StepFrom(from, 2);
    step.trace.sampled = true;
    EmitSpans({core::Record(record)}, {step}, spans);
    EXPECT_EQ(FullText(spans.Only()), FullText(SpanOf(record, step)));
  }
}

}  // namespace
}  // namespace callboard
