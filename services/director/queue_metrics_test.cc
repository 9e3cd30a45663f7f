#include "services/director/queue_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "libs/base/error.h"

namespace callboard {
namespace {

using core::FailureReason;
using core::LifecycleState;
using director::AgentState;
using director::TaskStep;
using ::testing::Contains;
using ::testing::IsSupersetOf;

const core::SpanContext kTrace = core::NewTrace({1, 2, 3});
const core::SpanContext kDispatch = core::NewTrace({4, 5, 6});
const absl::Time kNow = absl::FromUnixSeconds(1'700'000'000);

std::vector<std::string> LinesOf(const std::vector<prometheus::MetricFamily>& families) {
  return absl::StrSplit(prometheus::TextSerializer().Serialize(families), '\n');
}

class QueueMetricsTest : public testing::Test {
 protected:
  // Counts a change of a task that was in `state` for `seconds`, and was submitted ten seconds
  // before it entered that state.
  void Count(LifecycleState state, core::TaskChange change, int seconds = 1) {
    core::TaskRecord record = {.change = std::move(change)};
    record.event.at = kNow;
    const absl::Time since = kNow - absl::Seconds(seconds);
    const TaskStep step = {.from = state,
                           .since = since,
                           .submitted_at = since - absl::Seconds(10),
                           .trace = kTrace,
                           .dispatch_trace = kDispatch};
    metrics_.Count(record, step);
  }
  std::vector<std::string> Lines() const { return LinesOf(registry_.Collect()); }

  prometheus::Registry registry_;
  telemetry::Exemplars exemplars_;
  QueueMetrics metrics_{{registry_, &exemplars_}};
};

TEST_F(QueueMetricsTest, DurationHasAnExemplarWithItsTrace) {
  Count(LifecycleState::kWorking, core::TaskEnded(), 20);
  const std::optional<telemetry::Exemplar> exemplar = exemplars_.Find("callboard_run_seconds", 60);
  ASSERT_TRUE(exemplar.has_value());
  EXPECT_EQ(exemplar->value, 20);
  // A run can be in another trace than the wait before it.
  EXPECT_TRUE(exemplar->trace_id == kDispatch.trace_id);
  Count(LifecycleState::kPending, core::TaskDispatched{.dispatch = core::DispatchNumber(2)}, 20);
  EXPECT_TRUE(exemplars_.Find("callboard_queue_pending_seconds", 60)->trace_id == kTrace.trace_id);
}

TEST_F(QueueMetricsTest, KnownLabelsExistFromTheStart) {
  EXPECT_THAT(Lines(), IsSupersetOf({"callboard_tasks_total{reason=\"\",state=\"completed\"} 0",
                                     "callboard_tasks_total{reason=\"poison\",state=\"failed\"} 0",
                                     "callboard_dispatch_total{outcome=\"busy\"} 0",
                                     "callboard_submit_rejected_total{reason=\"queue_full\"} 0"}));
}

TEST_F(QueueMetricsTest, TaskEndsAndDispatchOutcomesAreCountedSeparately) {
  Count(LifecycleState::kDispatching, core::StartAccepted());
  Count(LifecycleState::kWorking, core::TaskEnded());
  Count(LifecycleState::kPending,
        core::TaskEnded{.state = LifecycleState::kFailed, .reason = FailureReason::kEvicted});
  Count(LifecycleState::kDispatching, core::StartAnsweredBusy());
  Count(LifecycleState::kDispatching, core::StartAnsweredBusy());
  EXPECT_THAT(Lines(), IsSupersetOf({"callboard_tasks_total{reason=\"\",state=\"completed\"} 1",
                                     "callboard_tasks_total{reason=\"evicted\",state=\"failed\"} 1",
                                     "callboard_dispatch_total{outcome=\"accepted\"} 1",
                                     "callboard_dispatch_total{outcome=\"busy\"} 2"}));
}

TEST_F(QueueMetricsTest, EachDurationHasItsOwnHistogram) {
  Count(LifecycleState::kPending, core::TaskAdmitted(), 1);
  Count(LifecycleState::kPending, core::TaskDispatched{.dispatch = core::DispatchNumber(1)}, 2);
  Count(LifecycleState::kDispatching, core::StartAccepted(), 3);
  Count(LifecycleState::kWorking, core::TaskEnded(), 4);
  metrics_.CountCommit(5, absl::Milliseconds(500));
  EXPECT_THAT(
      Lines(),
      IsSupersetOf({"callboard_queue_waiting_seconds_sum 11",
                    "callboard_queue_pending_seconds_sum 2", "callboard_queue_wait_seconds_sum 12",
                    "callboard_dispatch_seconds_sum 3", "callboard_run_seconds_sum 4",
                    "callboard_run_seconds_count 1", "callboard_commit_seconds_sum 0.5",
                    "callboard_commit_batch_size_sum 5"}));
}

TEST_F(QueueMetricsTest, RejectedSubmitsAreCountedByReason) {
  metrics_.CountRejectedSubmit(
      base::WithReason(absl::ResourceExhaustedError("full"), "QUEUE_FULL"));
  metrics_.CountRejectedSubmit(
      base::WithReason(absl::ResourceExhaustedError("full"), "QUEUE_FULL"));
  EXPECT_THAT(Lines(), Contains("callboard_submit_rejected_total{reason=\"queue_full\"} 2"));
}

TEST(QueueGaugesTest, ReportTheQueueAndEveryAgentState) {
  const director::QueueLevels levels = {.pending = 5,
                                        .in_flight = 2,
                                        .waiting = 3,
                                        .max_size = 50,
                                        .remembered_requests = 7,
                                        .oldest = kNow - absl::Seconds(90)};
  EXPECT_THAT(LinesOf(QueueGauges(levels, {{AgentState::kBusy, 2}}, kNow)),
              IsSupersetOf(
                  {"callboard_queue_pending 5", "callboard_queue_in_flight 2",
                   "callboard_queue_waiting 3", "callboard_queue_max_size 50",
                   "callboard_queue_oldest_age_seconds 90", "callboard_queue_remembered_requests 7",
                   "callboard_agents{state=\"busy\"} 2", "callboard_agents{state=\"idle\"} 0"}));
}

TEST(QueueGaugesTest, OldestAgeOfAnEmptyQueueIsZero) {
  EXPECT_THAT(LinesOf(QueueGauges({}, {}, kNow)), Contains("callboard_queue_oldest_age_seconds 0"));
}

}  // namespace
}  // namespace callboard
