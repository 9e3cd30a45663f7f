#include "libs/agent/traced_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "libs/testing/fake_environment.h"
#include "libs/testing/fake_task_runner.h"
#include "libs/testing/recorded_runs.h"
#include "libs/testing/recorded_spans.h"
#include "libs/testing/task_runner_contract.h"

namespace callboard::agent {
namespace {

using core::RunResult;
using testing::IsEmpty;

struct TracedFixture {
  explicit TracedFixture(ports::RunObserver& observer) {
    const auto make =
        [this](ports::RunObserver& observer) -> absl::StatusOr<std::unique_ptr<ports::TaskRunner>> {
      auto made = std::make_unique<test::FakeTaskRunner>(observer);
      fake = made.get();
      return made;
    };
    runner = *TracedRunner::Create("agent-1", {spans, clock, random}, make, observer);
  }

  test::RecordedSpans spans;
  test::FakeClock clock;
  test::FakeRandom random;
  test::FakeTaskRunner* fake = nullptr;
  std::unique_ptr<ports::TaskRunner> runner;
};

struct TracedHarness {
  static constexpr bool kLasts = true;

  explicit TracedHarness(ports::RunObserver& observer) : fixture(observer) {}

  ports::TaskRunner& runner() { return *fixture.runner; }
  void Destroy() { fixture.runner.reset(); }
  core::RunSpec Spec() { return test::SpecOf("prompt"); }
  void Finish(const core::FenceToken& run) { fixture.fake->End(run); }
  void ApplyStop(const core::FenceToken& run) {
    fixture.fake->End(run, {.end = RunResult::End::kCancelled});
  }

  TracedFixture fixture;
};

class TracedRunnerTest : public testing::Test {
 protected:
  const core::SpanContext dispatch_span_ =
      *core::ParseTraceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
  const core::FenceToken token_ = test::RunToken(1);

  void Start(const core::SpanContext& trace, absl::Duration timeout = absl::Hours(1)) {
    core::RunSpec spec = test::SpecOf("canary");
    spec.timeout = timeout;
    ports::RunRequest request = test::MakeRunRequest(token_, spec);
    request.trace = trace;
    request.fence_at = TimeAfter(absl::Seconds(10));
    fixture_.runner->Start(std::move(request));
  }

  absl::Duration TimeAfter(absl::Duration time) const {
    return fixture_.clock.MonotonicNow() + time;
  }

  // Returns the kill grace of the ended run, or nullopt when it had none.
  std::optional<absl::Duration> KillGrace() const {
    for (const ports::FinishedSpan& span : fixture_.spans.All()) {
      if (span.name == "agent.kill_grace") return span.end - span.start;
    }
    return std::nullopt;
  }

  test::RecordedRuns runs_;
  TracedFixture fixture_{runs_};
};

TEST_F(TracedRunnerTest, RunSpanIsAChildOfTheDispatchAndParentOfTheProcess) {
  Start(dispatch_span_);
  const core::SpanContext given = fixture_.fake->run(token_)->request.trace;
  EXPECT_TRUE(given.trace_id == dispatch_span_.trace_id);
  EXPECT_TRUE(given.span_id != dispatch_span_.span_id);
  fixture_.clock.Advance(absl::Seconds(3));
  fixture_.fake->End(token_, {.end = RunResult::End::kFailed, .exit_code = 7, .error = "canary"});
  const ports::FinishedSpan span = fixture_.spans.Only();
  EXPECT_EQ(span.name, "agent.run");
  EXPECT_EQ(span.context, given);
  EXPECT_TRUE(span.parent == dispatch_span_.span_id);
  EXPECT_EQ(span.end - span.start, absl::Seconds(3));
  EXPECT_EQ(span.status, absl::UnknownError("failed"));
  EXPECT_EQ(test::TextOf(span, "error.type"), "failed");
  EXPECT_EQ(test::TextOf(span, "messaging.system"), "callboard");
  EXPECT_EQ(test::TextOf(span, "messaging.operation.name"), "run");
  EXPECT_EQ(test::TextOf(span, "messaging.operation.type"), "process");
  EXPECT_EQ(test::TextOf(span, "messaging.destination.name"), "queue");
  EXPECT_EQ(runs_.WaitForEnd(token_).exit_code, 7);
}

TEST_F(TracedRunnerTest, KillGraceOfAStoppedRunIsAChildSpan) {
  Start(dispatch_span_);
  fixture_.clock.Advance(absl::Seconds(1));
  fixture_.runner->Stop(token_);
  fixture_.clock.Advance(absl::Seconds(1));
  fixture_.runner->Stop(token_);
  fixture_.clock.Advance(absl::Seconds(1));
  fixture_.fake->End(token_, {.end = RunResult::End::kCancelled, .signal = "SIGTERM"});
  const std::vector<ports::FinishedSpan> spans = fixture_.spans.All();
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0].name, "agent.kill_grace");
  EXPECT_TRUE(spans[0].parent == spans[1].context.span_id);
  EXPECT_EQ(test::TextOf(spans[0], "callboard.task.id"),
            core::TaskIdText(token_.queue_id, token_.dispatch));
  EXPECT_EQ(spans[0].end - spans[0].start, absl::Seconds(2));
  EXPECT_EQ(spans[1].name, "agent.run");
  EXPECT_EQ(test::TextOf(spans[1], "error.type"), "cancelled");
}

TEST_F(TracedRunnerTest, KillGraceOfATimedOutRunStartsAtTheTimeout) {
  Start(dispatch_span_, absl::Seconds(5));
  fixture_.clock.Advance(absl::Seconds(6));
  fixture_.runner->Stop(token_);
  fixture_.clock.Advance(absl::Seconds(1));
  fixture_.fake->End(token_, {.end = RunResult::End::kTimedOut, .exit_code = 0});
  EXPECT_EQ(KillGrace(), absl::Seconds(2));
}

TEST_F(TracedRunnerTest, KillGraceOfARunStartsAtItsFence) {
  Start(dispatch_span_);
  fixture_.runner->MoveFence(token_, TimeAfter(absl::Seconds(20)));
  fixture_.clock.Advance(absl::Seconds(21));
  // Both this and the cancel come too late.
  fixture_.runner->MoveFence(token_, TimeAfter(absl::Seconds(20)));
  EXPECT_EQ(fixture_.fake->run(token_)->fence_at, TimeAfter(absl::Seconds(20)));
  fixture_.runner->Stop(token_);
  fixture_.clock.Advance(absl::Seconds(2));
  fixture_.clock.StepWall(-absl::Hours(1));
  fixture_.fake->End(token_, {.end = RunResult::End::kCancelled, .signal = "SIGKILL"});
  EXPECT_EQ(KillGrace(), absl::Seconds(3));
}

TEST_F(TracedRunnerTest, RunThatEndsByItselfHasNoKillGrace) {
  Start(dispatch_span_);
  fixture_.runner->Stop(token_);
  fixture_.fake->End(token_, {.end = RunResult::End::kCompleted, .exit_code = 0});
  EXPECT_EQ(KillGrace(), std::nullopt);
}

TEST_F(TracedRunnerTest, RunStoppedBeforeItsProcessStartsHasNoKillGrace) {
  Start(dispatch_span_);
  fixture_.runner->Stop(token_);
  fixture_.fake->End(token_, {.end = RunResult::End::kCancelled});
  EXPECT_EQ(KillGrace(), std::nullopt);
}

TEST_F(TracedRunnerTest, KillGraceWithUnknownStartIsNotEmitted) {
  Start(dispatch_span_, absl::ZeroDuration());
  fixture_.fake->End(token_, {.end = RunResult::End::kTimedOut, .signal = "SIGTERM"});
  EXPECT_EQ(KillGrace(), std::nullopt);
}

TEST_F(TracedRunnerTest, UntracedRunHasNoSpan) {
  Start({});
  EXPECT_EQ(fixture_.fake->run(token_)->request.trace, core::SpanContext());
  fixture_.fake->End(token_);
  EXPECT_THAT(fixture_.spans.All(), IsEmpty());
}

TEST_F(TracedRunnerTest, ProcessOfAnUnsampledTraceSeesItUnsampled) {
  core::SpanContext unsampled = dispatch_span_;
  unsampled.sampled = false;
  Start(unsampled);
  EXPECT_EQ(fixture_.fake->run(token_)->request.trace, unsampled);
  fixture_.fake->End(token_);
  EXPECT_THAT(fixture_.spans.All(), IsEmpty());
}

TEST_F(TracedRunnerTest, LocalSamplerMayDropATraceThatTheDirectorSamples) {
  fixture_.spans.SetJoins(false);
  Start(dispatch_span_);
  EXPECT_FALSE(fixture_.fake->run(token_)->request.trace.sampled);
  fixture_.fake->End(token_);
  EXPECT_THAT(fixture_.spans.All(), IsEmpty());
}

TEST_F(TracedRunnerTest, WithoutTelemetryTheDispatchIsTheParentOfTheProcess) {
  ports::NoTelemetry no_telemetry;
  test::FakeTaskRunner* fake = nullptr;
  const auto make =
      [&fake](ports::RunObserver& observer) -> absl::StatusOr<std::unique_ptr<ports::TaskRunner>> {
    auto made = std::make_unique<test::FakeTaskRunner>(observer);
    fake = made.get();
    return made;
  };
  const auto runner = *TracedRunner::Create(
      "agent-1", {no_telemetry, fixture_.clock, fixture_.random}, make, runs_);
  ports::RunRequest request = test::MakeRunRequest(token_, test::SpecOf("canary"));
  request.trace = dispatch_span_;
  runner->Start(request);
  EXPECT_EQ(fake->run(token_)->request.trace, dispatch_span_);
  fake->End(token_);
}

}  // namespace
}  // namespace callboard::agent

namespace callboard::test {
namespace {

INSTANTIATE_TYPED_TEST_SUITE_P(Traced, TaskRunnerContractTest, agent::TracedHarness);

}  // namespace
}  // namespace callboard::test
