#include "libs/agent/traced_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "libs/testing/fake_clock.h"
#include "libs/testing/fake_random.h"
#include "libs/testing/fake_task_runner.h"
#include "libs/testing/recorded_runs.h"
#include "libs/testing/recorded_spans.h"
#include "libs/testing/run_orders.h"
#include "libs/testing/task_runner_contract.h"

namespace callboard::agent {
namespace {

using core::RunResult;
using testing::IsEmpty;

struct Traced {
  explicit Traced(ports::RunWatcher& watcher) {
    const auto make =
        [this](ports::RunWatcher& watches) -> absl::StatusOr<std::unique_ptr<ports::TaskRunner>> {
      auto made = std::make_unique<test::FakeTaskRunner>(watches);
      fake = made.get();
      return made;
    };
    runner = *TracedRunner::Create("agent-1", {spans, clock, random}, make, watcher);
  }

  test::RecordedSpans spans;
  test::FakeClock clock;
  test::FakeRandom random;
  test::FakeTaskRunner* fake = nullptr;
  std::unique_ptr<ports::TaskRunner> runner;
};

struct TracedHarness {
  static constexpr bool kLasts = true;

  explicit TracedHarness(ports::RunWatcher& watcher) : traced(watcher) {}

  ports::TaskRunner& runner() { return *traced.runner; }
  void Destroy() { traced.runner.reset(); }
  core::TaskSpec Spec() { return test::SpecOf("prompt"); }
  void Finish(const core::FenceToken& run) { traced.fake->End(run); }
  void Obey(const core::FenceToken& run) {
    traced.fake->End(run, {.end = RunResult::End::kCancelled});
  }

  Traced traced;
};

class TracedRunnerTest : public testing::Test {
 protected:
  const core::SpanContext dispatch_ =
      *core::ParseTraceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
  const core::FenceToken token_ = test::RunToken(1);

  void Start(const core::SpanContext& trace, absl::Duration timeout = absl::Hours(1)) {
    core::TaskSpec spec = test::SpecOf("canary");
    spec.timeout = timeout;
    ports::RunOrder order = test::RunOrderOf(token_, spec);
    order.trace = trace;
    order.fence_at = In(absl::Seconds(10));
    traced_.runner->Start(std::move(order));
  }

  absl::Duration In(absl::Duration time) const { return traced_.clock.MonotonicNow() + time; }

  // Of a run that has ended; nothing when it had none.
  std::optional<absl::Duration> Grace() const {
    for (const ports::FinishedSpan& span : traced_.spans.All()) {
      if (span.name == "agent.kill_grace") return span.end - span.start;
    }
    return std::nullopt;
  }

  test::RecordedRuns runs_;
  Traced traced_{runs_};
};

TEST_F(TracedRunnerTest, RunIsPartOfItsDispatchAndItsProcessOfTheRun) {
  Start(dispatch_);
  const core::SpanContext given = traced_.fake->run(token_)->order.trace;
  EXPECT_TRUE(given.trace_id == dispatch_.trace_id);
  EXPECT_TRUE(given.span_id != dispatch_.span_id);
  traced_.clock.Advance(absl::Seconds(3));
  traced_.fake->End(token_, {.end = RunResult::End::kFailed, .exit_code = 7, .error = "canary"});
  const ports::FinishedSpan span = traced_.spans.Only();
  EXPECT_EQ(span.name, "agent.run");
  EXPECT_EQ(span.context, given);
  EXPECT_TRUE(span.parent == dispatch_.span_id);
  EXPECT_EQ(span.end - span.start, absl::Seconds(3));
  EXPECT_EQ(span.status, absl::UnknownError("failed"));
  EXPECT_EQ(test::TextOf(span, "error.type"), "failed");
  EXPECT_EQ(test::TextOf(span, "messaging.system"), "callboard");
  EXPECT_EQ(test::TextOf(span, "messaging.operation.name"), "run");
  EXPECT_EQ(test::TextOf(span, "messaging.operation.type"), "process");
  EXPECT_EQ(test::TextOf(span, "messaging.destination.name"), "queue");
  EXPECT_EQ(runs_.WaitForEnd(token_).exit_code, 7);
}

TEST_F(TracedRunnerTest, GraceOfAStoppedRunIsASpanBelowIt) {
  Start(dispatch_);
  traced_.clock.Advance(absl::Seconds(1));
  traced_.runner->Stop(token_);
  traced_.clock.Advance(absl::Seconds(1));
  traced_.runner->Stop(token_);
  traced_.clock.Advance(absl::Seconds(1));
  traced_.fake->End(token_, {.end = RunResult::End::kCancelled, .signal = "SIGTERM"});
  const std::vector<ports::FinishedSpan> spans = traced_.spans.All();
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0].name, "agent.kill_grace");
  EXPECT_TRUE(spans[0].parent == spans[1].context.span_id);
  EXPECT_EQ(test::TextOf(spans[0], "callboard.task.id"),
            core::TaskIdText(token_.queue_id, token_.dispatch));
  EXPECT_EQ(spans[0].end - spans[0].start, absl::Seconds(2));
  EXPECT_EQ(spans[1].name, "agent.run");
  EXPECT_EQ(test::TextOf(spans[1], "error.type"), "cancelled");
}

TEST_F(TracedRunnerTest, GraceOfARunThatTookTooLongBeginsAtItsTimeoutAlsoWhenItIsCancelledThen) {
  Start(dispatch_, absl::Seconds(5));
  traced_.clock.Advance(absl::Seconds(6));
  traced_.runner->Stop(token_);
  traced_.clock.Advance(absl::Seconds(1));
  traced_.fake->End(token_, {.end = RunResult::End::kTimedOut, .exit_code = 0});
  EXPECT_EQ(Grace(), absl::Seconds(2));
}

TEST_F(TracedRunnerTest, GraceOfARunThatIsKilledAtItsFenceBeginsThere) {
  Start(dispatch_);
  traced_.runner->SetFence(token_, In(absl::Seconds(20)));
  traced_.clock.Advance(absl::Seconds(21));
  // Too late, as is the cancel.
  traced_.runner->SetFence(token_, In(absl::Seconds(20)));
  EXPECT_EQ(traced_.fake->run(token_)->fence_at, In(absl::Seconds(20)));
  traced_.runner->Stop(token_);
  traced_.clock.Advance(absl::Seconds(2));
  traced_.clock.StepWall(-absl::Hours(1));
  traced_.fake->End(token_, {.end = RunResult::End::kCancelled, .signal = "SIGKILL"});
  EXPECT_EQ(Grace(), absl::Seconds(3));
}

TEST_F(TracedRunnerTest, RunThatEndsByItselfBeforeItHearsOfItsStopHasNoGrace) {
  Start(dispatch_);
  traced_.runner->Stop(token_);
  traced_.fake->End(token_, {.end = RunResult::End::kCompleted, .exit_code = 0});
  EXPECT_EQ(Grace(), std::nullopt);
}

TEST_F(TracedRunnerTest, RunThatIsStoppedBeforeItsProcessBeginsHasNoGrace) {
  Start(dispatch_);
  traced_.runner->Stop(token_);
  traced_.fake->End(token_, {.end = RunResult::End::kCancelled});
  EXPECT_EQ(Grace(), std::nullopt);
}

TEST_F(TracedRunnerTest, GraceWhoseBeginNobodyKnowsIsNotShown) {
  Start(dispatch_, absl::ZeroDuration());
  traced_.fake->End(token_, {.end = RunResult::End::kTimedOut, .signal = "SIGTERM"});
  EXPECT_EQ(Grace(), std::nullopt);
}

TEST_F(TracedRunnerTest, RunOfNoTraceAndRunOfOneThatIsNotKeptAreNoSpans) {
  Start({});
  EXPECT_EQ(traced_.fake->run(token_)->order.trace, core::SpanContext());
  traced_.fake->End(token_);
  EXPECT_THAT(traced_.spans.All(), IsEmpty());
}

TEST_F(TracedRunnerTest, ProcessOfATraceThatIsNotKeptHearsSo) {
  core::SpanContext unsampled = dispatch_;
  unsampled.sampled = false;
  Start(unsampled);
  EXPECT_EQ(traced_.fake->run(token_)->order.trace, unsampled);
  traced_.fake->End(token_);
  EXPECT_THAT(traced_.spans.All(), IsEmpty());
}

TEST_F(TracedRunnerTest, SamplerMayKeepNothingOfATraceThatTheDirectorKeepsAndTheProcessHearsSo) {
  traced_.spans.SetJoins(false);
  Start(dispatch_);
  EXPECT_FALSE(traced_.fake->run(token_)->order.trace.sampled);
  traced_.fake->End(token_);
  EXPECT_THAT(traced_.spans.All(), IsEmpty());
}

TEST_F(TracedRunnerTest, WhereNobodyCollectsSpansTheProcessIsPartOfTheDispatch) {
  ports::NoTelemetry nobody;
  test::FakeTaskRunner* fake = nullptr;
  const auto make =
      [&fake](ports::RunWatcher& watches) -> absl::StatusOr<std::unique_ptr<ports::TaskRunner>> {
    auto made = std::make_unique<test::FakeTaskRunner>(watches);
    fake = made.get();
    return made;
  };
  const auto runner =
      *TracedRunner::Create("agent-1", {nobody, traced_.clock, traced_.random}, make, runs_);
  ports::RunOrder order = test::RunOrderOf(token_, test::SpecOf("canary"));
  order.trace = dispatch_;
  runner->Start(order);
  EXPECT_EQ(fake->run(token_)->order.trace, dispatch_);
  fake->End(token_);
}

}  // namespace
}  // namespace callboard::agent

namespace callboard::test {
namespace {

INSTANTIATE_TYPED_TEST_SUITE_P(Traced, TaskRunnerContractTest, agent::TracedHarness);

}  // namespace
}  // namespace callboard::test
