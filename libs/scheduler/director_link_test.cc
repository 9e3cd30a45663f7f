#include "libs/scheduler/director_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libs/base/error.h"
#include "libs/testing/fake_environment.h"
#include "libs/testing/recorded_spans.h"
#include "libs/testing/scheduler_fixture.h"

namespace callboard::scheduler {
namespace {

SubmitAnswer Classify(absl::StatusCode code, absl::string_view reason) {
  absl::Status status(code, "text");
  return ClassifyAnswer(reason.empty() ? status : base::WithReason(status, reason));
}

TEST(ClassifyAnswerTest, PermanentErrorsAreNotRetried) {
  for (const absl::StatusCode code :
       {absl::StatusCode::kInvalidArgument, absl::StatusCode::kUnimplemented,
        absl::StatusCode::kPermissionDenied, absl::StatusCode::kUnauthenticated,
        absl::StatusCode::kFailedPrecondition, absl::StatusCode::kNotFound}) {
    EXPECT_EQ(Classify(code, "ANY"), SubmitAnswer::kRejected) << static_cast<int>(code);
  }
}

TEST(ClassifyAnswerTest, MissingAnswerMeansUnknown) {
  for (const absl::StatusCode code :
       {absl::StatusCode::kUnavailable, absl::StatusCode::kDeadlineExceeded,
        absl::StatusCode::kCancelled, absl::StatusCode::kUnknown, absl::StatusCode::kInternal,
        absl::StatusCode::kResourceExhausted}) {
    EXPECT_EQ(Classify(code, ""), SubmitAnswer::kUnknown) << static_cast<int>(code);
  }
  EXPECT_EQ(Classify(absl::StatusCode::kUnavailable, "OUTCOME_UNKNOWN"), SubmitAnswer::kUnknown);
}

TEST(ClassifyAnswerTest, ReasonsDecideTheMeaning) {
  const auto kUnavailable = absl::StatusCode::kUnavailable;
  EXPECT_EQ(ClassifyAnswer(absl::OkStatus()), SubmitAnswer::kAccepted);
  EXPECT_EQ(Classify(absl::StatusCode::kAlreadyExists, "REQUEST_ID_REUSED"),
            SubmitAnswer::kIdReused);
  EXPECT_EQ(Classify(absl::StatusCode::kFailedPrecondition, "OVERLAP"), SubmitAnswer::kOverlap);
  EXPECT_EQ(Classify(absl::StatusCode::kResourceExhausted, "QUEUE_FULL"), SubmitAnswer::kFull);
  EXPECT_EQ(Classify(absl::StatusCode::kResourceExhausted, "STORE_FULL"), SubmitAnswer::kTryLater);
  EXPECT_EQ(Classify(kUnavailable, "QUEUE_DRAINING"), SubmitAnswer::kDraining);
  EXPECT_EQ(Classify(kUnavailable, "OVERLOADED"), SubmitAnswer::kTryLater);
  EXPECT_EQ(Classify(kUnavailable, kDirectorUnreachable), SubmitAnswer::kNotSent);
}

TEST(ClassifyAnswerTest, OnlyErrorsAfterTheIdLookupProveTheIdUnused) {
  for (const SubmitAnswer answer :
       {SubmitAnswer::kOverlap, SubmitAnswer::kFull, SubmitAnswer::kDraining}) {
    EXPECT_TRUE(ProvesIdUnused(answer));
  }
  for (const SubmitAnswer answer :
       {SubmitAnswer::kAccepted, SubmitAnswer::kIdReused, SubmitAnswer::kTryLater,
        SubmitAnswer::kNotSent, SubmitAnswer::kRejected, SubmitAnswer::kUnknown}) {
    EXPECT_FALSE(ProvesIdUnused(answer));
  }
}

TEST(ClassifyAnswerTest, OnlyTheDirectorsNotFoundProvesThatALookedUpIdIsUnused) {
  EXPECT_EQ(ClassifyLookup(absl::OkStatus()), LookupAnswer::kFound);
  const absl::Status unused = base::WithReason(absl::NotFoundError("text"), "TASK_NOT_FOUND");
  EXPECT_EQ(ClassifyLookup(unused), LookupAnswer::kUnused);
  for (const absl::Status& status :
       {absl::NotFoundError("text"), absl::DeadlineExceededError("text"),
        absl::InvalidArgumentError("text"),
        base::WithReason(absl::FailedPreconditionError("text"), "WAITING"),
        base::WithReason(absl::UnavailableError("text"), "OVERLOADED"),
        base::WithReason(absl::UnavailableError("text"), kDirectorUnreachable)}) {
    EXPECT_EQ(ClassifyLookup(status), LookupAnswer::kUnknown) << status;
  }
}

TEST(ClassifyAnswerTest, QueueIdComesFromTheMetadata) {
  EXPECT_EQ(
      QueueIdFrom(base::WithReason(absl::AlreadyExistsError(""), "X", {{"queue_id", "queue-1"}})),
      "queue-1");
  EXPECT_EQ(QueueIdFrom(absl::AlreadyExistsError("")), "");
}

using testing::IsEmpty;

class TracedLinkTest : public testing::Test {
 protected:
  static core::JobSubmission JobsTask(std::string request_id = "cron/nightly/60") {
    return {.job = "nightly", .request_id = std::move(request_id)};
  }

  test::FakeDirectorLink director_;
  test::RecordedSpans spans_;
  test::FakeClock clock_;
  test::FakeRandom random_;
  TracedLink link_{director_, "director:7070", {spans_, clock_, random_}};
  absl::StatusOr<AcceptedTask> answer_ = AcceptedTask{};
  const DirectorLink::Reply<AcceptedTask> reply_ = [this](absl::StatusOr<AcceptedTask> answer) {
    answer_ = std::move(answer);
  };
};

TEST_F(TracedLinkTest, FireIsTheFirstSpanOfTheTrace) {
  link_.Submit(JobsTask(), reply_);
  const test::FakeDirectorLink::Request submit = director_.Take();
  EXPECT_NE(submit.submission.trace, core::SpanContext());
  clock_.Advance(absl::Seconds(1));
  submit.reply(AcceptedTask{.queue_id = "queue-1"});
  EXPECT_EQ(answer_.value(), (AcceptedTask{.queue_id = "queue-1"}));
  const ports::FinishedSpan fire = spans_.Only();
  EXPECT_EQ(fire.name, "scheduler.fire");
  EXPECT_EQ(fire.context, submit.submission.trace);
  EXPECT_TRUE(fire.parent == std::nullopt);
  EXPECT_EQ(fire.end - fire.start, absl::Seconds(1));
  EXPECT_EQ(test::TextOf(fire, "callboard.job.name"), "nightly");
  EXPECT_EQ(test::TextOf(fire, "messaging.system"), "callboard");
  EXPECT_EQ(test::TextOf(fire, "messaging.operation.name"), "fire");
  EXPECT_EQ(test::TextOf(fire, "messaging.operation.type"), "send");
  EXPECT_EQ(test::TextOf(fire, "messaging.destination.name"), "queue");
  EXPECT_EQ(test::TextOf(fire, "messaging.message.id"), "queue-1");
  EXPECT_EQ(test::TextOf(fire, "error.type"), "");
}

TEST_F(TracedLinkTest, RejectedSubmitIsAnErrorSpan) {
  link_.Submit(JobsTask(), reply_);
  director_.Take().reply(base::WithReason(absl::ResourceExhaustedError("canary"), "QUEUE_FULL"));
  EXPECT_TRUE(absl::IsResourceExhausted(answer_.status()));
  EXPECT_EQ(spans_.Only().status, absl::ResourceExhaustedError("RESOURCE_EXHAUSTED"));
  EXPECT_EQ(test::TextOf(spans_.Only(), "error.type"), "QUEUE_FULL");
}

TEST_F(TracedLinkTest, EverySubmitIsASpanInTheTraceOfItsRequest) {
  link_.Submit(JobsTask(), reply_);
  const test::FakeDirectorLink::Request first = director_.Take();
  first.reply(absl::DeadlineExceededError("canary"));
  // Like a scheduler that was killed and restarted.
  TracedLink restarted(director_, "director:7070", {spans_, clock_, random_});
  restarted.Submit(JobsTask(), reply_);
  const test::FakeDirectorLink::Request second = director_.Take();
  second.reply(AcceptedTask{.queue_id = "queue-1", .deduplicated = true});
  restarted.StartDirect("grpc://agent:1", JobsTask(), reply_);
  const test::FakeDirectorLink::Request third = director_.Take();
  EXPECT_EQ(third.agent_url, "grpc://agent:1");
  EXPECT_TRUE(first.submission.trace.trace_id == second.submission.trace.trace_id);
  EXPECT_TRUE(first.submission.trace.trace_id == third.submission.trace.trace_id);
  EXPECT_TRUE(first.submission.trace.span_id != second.submission.trace.span_id);
  const std::vector<ports::FinishedSpan> fires = spans_.All();
  ASSERT_EQ(fires.size(), 2u);
  EXPECT_EQ(fires[0].context, first.submission.trace) << "the span that the task hangs from exists";
  EXPECT_EQ(fires[1].context, second.submission.trace);
}

TEST_F(TracedLinkTest, TraceDependsOnRequestAndDirector) {
  link_.Submit(JobsTask(), reply_);
  link_.Submit(JobsTask("cron/nightly/120"), reply_);
  TracedLink elsewhere(director_, "other:7070", {spans_, clock_, random_});
  elsewhere.Submit(JobsTask(), reply_);
  const core::TraceId first = director_.Take().submission.trace.trace_id;
  EXPECT_TRUE(first != director_.Take().submission.trace.trace_id);
  EXPECT_TRUE(first != director_.Take().submission.trace.trace_id);
}

TEST_F(TracedLinkTest, SamplingDependsOnTheRequest) {
  spans_.SetSampling(false);
  link_.Submit(JobsTask(), reply_);
  const test::FakeDirectorLink::Request submit = director_.Take();
  EXPECT_FALSE(submit.submission.trace.sampled);
  submit.reply(AcceptedTask{});
  EXPECT_THAT(spans_.All(), IsEmpty());
}

TEST_F(TracedLinkTest, WithoutTelemetryTheTraceIsLeftToTheDirector) {
  ports::NoTelemetry no_telemetry;
  TracedLink link(director_, "director:7070", {no_telemetry, clock_, random_});
  link.Submit(JobsTask(), reply_);
  EXPECT_EQ(director_.Take().submission.trace, core::SpanContext());
}

TEST_F(TracedLinkTest, LookupIsNotTraced) {
  link_.FindTask("cron/nightly/60", reply_);
  const test::FakeDirectorLink::Request lookup = director_.Take();
  EXPECT_TRUE(lookup.is_lookup);
  lookup.reply(AcceptedTask{});
  EXPECT_THAT(spans_.All(), IsEmpty());
}

}  // namespace
}  // namespace callboard::scheduler
