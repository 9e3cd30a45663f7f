#include "services/director/director_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>
#include <spdlog/sinks/ostream_sink.h>

#include <memory>
#include <sstream>
#include <string>

#include "libs/base/log.h"
#include "libs/core/trace.h"

namespace callboard {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class DirectorMetricsTest : public testing::Test {
 protected:
  DirectorMetricsTest() {
    base::StartLogging({.sink = std::make_shared<spdlog::sinks::ostream_sink_st>(log_)});
  }
  ~DirectorMetricsTest() override { base::StartLogging(base::LogOptions()); }

  std::string Metrics() const {
    return prometheus::TextSerializer().Serialize(registry_.Collect());
  }
  std::string Gauges() const {
    return prometheus::TextSerializer().Serialize(metrics_.Gauges(absl::UnixEpoch()));
  }

  std::ostringstream log_;
  prometheus::Registry registry_;
  server::Readiness readiness_;
  DirectorMetrics metrics_{{registry_}, readiness_};
};

TEST_F(DirectorMetricsTest, CancelsAreCountedByPhaseAndLogged) {
  EXPECT_THAT(Metrics(), HasSubstr("callboard_cancels_total{phase=\"dispatching\"} 0\n"));
  metrics_.OnCancel({.phase = director::CancelPhase::kWaiting, .who = "anonymous"});
  metrics_.OnCancel({.phase = director::CancelPhase::kInFlight, .who = "anonymous"});
  metrics_.OnCancel({.phase = director::CancelPhase::kInFlight, .who = "anonymous"});
  EXPECT_THAT(Metrics(), AllOf(HasSubstr("callboard_cancels_total{phase=\"waiting\"} 1\n"),
                               HasSubstr("callboard_cancels_total{phase=\"queued\"} 0\n"),
                               HasSubstr("callboard_cancels_total{phase=\"in_flight\"} 2\n")));
  EXPECT_THAT(log_.str(), HasSubstr("INFO queue=cancel_requested phase=waiting who=anonymous"));
}

TEST_F(DirectorMetricsTest, RejectedSubmitIsCountedAndLoggedWithItsOrigin) {
  metrics_.OnReject(absl::InvalidArgumentError("wrong"),
                    {.source = "scheduler", .source_job = "nightly", .identity = "anonymous"});
  EXPECT_THAT(log_.str(), HasSubstr("WARN queue=submit_rejected reason=invalid_argument "
                                    "source=scheduler job=nightly identity=anonymous\n"));
  EXPECT_THAT(Metrics(), HasSubstr("{reason=\"invalid_argument\"} 1"));
}

TEST_F(DirectorMetricsTest, UnknownRunIsAWarningAndNotAnOrphanResult) {
  const core::FenceToken token = {core::QueueId(core::Ulid(0, 1)), core::DispatchNumber(2), 1};
  metrics_.OnOrphans({{.token = token, .agent = "agent-1", .is_run = true}});
  EXPECT_THAT(log_.str(), HasSubstr("WARN queue=unknown_run queue_id=queue-"
                                    "00000000000000000000000001 task_id=task-"
                                    "00000000000000000000000001-2 agent=agent-1 error="));
  EXPECT_THAT(Metrics(), HasSubstr("callboard_orphan_results_total 0\n"));
}

TEST_F(DirectorMetricsTest, DispatchIsCountedOnce) {
  const core::TaskRecord record = {.change = core::TaskDispatched()};
  const director::TaskStep step = {.from = core::LifecycleState::kPending};
  metrics_.OnDispatch(record, step);
  metrics_.OnTurn({core::Record(record)}, {step});
  EXPECT_THAT(Metrics(), HasSubstr("callboard_queue_pending_seconds_count 1\n"));
}

TEST_F(DirectorMetricsTest, MarkedAgentIsLoggedByName) {
  metrics_.OnTurn({core::Record(core::AgentMarked{.name = "a", .draining = true})}, {});
  EXPECT_THAT(log_.str(), HasSubstr("WARN agent=marked name=a draining=true"));
}

TEST_F(DirectorMetricsTest, QueueSwitchIsLoggedWithItsAuthorAndReason) {
  core::QueueSwitched switched = {.paused = true};
  switched.pause = core::SwitchCause{"anna", "the disk is full", absl::UnixEpoch()};
  metrics_.OnTurn({core::Record(switched), core::Record(core::QueueSwitched())}, {});
  EXPECT_THAT(log_.str(), AllOf(HasSubstr("queue=switched paused=true draining=false "
                                          "paused_by=anna pause_why=\"the disk is full\"\n"),
                                HasSubstr("queue=switched paused=false draining=false\n")));
}

TEST_F(DirectorMetricsTest, OrphanResultIsCountedAndLoggedWithItsDispatch) {
  EXPECT_THAT(Metrics(), HasSubstr("callboard_orphan_results_total 0\n"));
  core::TaskRecord record = {.change = core::EventOnly()};
  record.event.kind = core::TaskEventKind::kOrphanResult;
  record.event.dispatch = core::DispatchNumber(2);
  record.event.agent = "agent-1";
  core::TaskRecord denial = {.change = core::EventOnly()};
  denial.event.kind = core::TaskEventKind::kDenied;
  const std::vector<core::Record> records = {record, denial};
  const std::vector<director::TaskStep> steps = {{.record = 0}, {.record = 1}};
  metrics_.OnTurn(records, steps);
  EXPECT_THAT(Metrics(), HasSubstr("callboard_orphan_results_total 1\n"));
  EXPECT_THAT(log_.str(), AllOf(HasSubstr("WARN queue=orphan_result queue_id=queue-"),
                                HasSubstr("-2 agent=agent-1 trace_id=")));
}

TEST_F(DirectorMetricsTest, OrphanResultOfAnUnknownTaskIsCountedAndLogged) {
  const core::FenceToken token = {core::QueueId(core::Ulid(0, 1)), core::DispatchNumber(2), 1};
  const core::TraceId trace = core::SubmitSpan(token.queue_id).trace_id;
  metrics_.OnOrphans({{token, "agent-1", {}}, {token, "agent-2", trace}});
  EXPECT_THAT(Metrics(), HasSubstr("callboard_orphan_results_total 2\n"));
  EXPECT_THAT(log_.str(),
              AllOf(HasSubstr("WARN queue=orphan_result queue_id=queue-00000000000000000000000001 "
                              "task_id=task-00000000000000000000000001-2 agent=agent-1\n"),
                    HasSubstr("agent=agent-2 trace_id=" + core::ToString(trace) + "\n")));
}

TEST_F(DirectorMetricsTest, StoreStateIsReportedWhileTheStoreIsAway) {
  EXPECT_THAT(Gauges(), HasSubstr("callboard_store_state{state=\"away\"} 1\n"));
  metrics_.OnService(director::Service::kFull, absl::OkStatus());
  metrics_.OnStateChange({.pending = 1});
  EXPECT_THAT(Gauges(), AllOf(HasSubstr("callboard_store_state{state=\"open\"} 1\n"),
                              HasSubstr("callboard_store_state{state=\"away\"} 0\n"),
                              HasSubstr("callboard_queue_pending 1\n")));
  metrics_.OnService(director::Service::kReadOnly, absl::ResourceExhaustedError("no space"));
  EXPECT_THAT(Gauges(), AllOf(HasSubstr("callboard_store_state{state=\"full\"} 1\n"),
                              HasSubstr("callboard_store_state{state=\"open\"} 0\n")));
  metrics_.OnService(director::Service::kNone, absl::InternalError("I/O error"));
  EXPECT_THAT(Gauges(), AllOf(HasSubstr("callboard_store_state{state=\"away\"} 1\n"),
                              Not(HasSubstr("callboard_queue_pending"))));
}

}  // namespace
}  // namespace callboard
