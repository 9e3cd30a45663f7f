#include "services/scheduler/scheduler_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>
#include <spdlog/sinks/ostream_sink.h>

#include <memory>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "libs/base/log.h"
#include "libs/testing/files.h"

namespace callboard {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const absl::Time kNow = absl::FromUnixSeconds(1'700'000'000);

class SchedulerMetricsTest : public testing::Test {
 protected:
  SchedulerMetricsTest() {
    base::StartLogging({.sink = std::make_shared<spdlog::sinks::ostream_sink_st>(log_)});
  }
  ~SchedulerMetricsTest() override { base::StartLogging(base::LogOptions()); }

  void Commit(const core::Firing& firing) {
    metrics_.OnCommit({scheduler::LedgerChange(firing)}, absl::Milliseconds(1));
  }
  std::string Metrics() const {
    return prometheus::TextSerializer().Serialize(registry_.Collect());
  }
  std::string GaugesAt(absl::Time now) const {
    return prometheus::TextSerializer().Serialize(metrics_.Gauges(now, /*file_refused=*/true));
  }

  std::ostringstream log_;
  prometheus::Registry registry_;
  server::Readiness readiness_;
  SchedulerMetrics metrics_{registry_, readiness_};
};

TEST_F(SchedulerMetricsTest, EveryRowIsLoggedAndCounted) {
  Commit({.job = "nightly", .nominal = kNow, .queue_id = "queue-1"});
  EXPECT_THAT(log_.str(), HasSubstr("INFO schedule=fired job=nightly nominal=2023-11-14T22:13:20Z "
                                    "queue_id=queue-1"));
  EXPECT_THAT(Metrics(),
              AllOf(HasSubstr(R"(callboard_schedule_fires_total{job="nightly",outcome="fired"} 1)"),
                    HasSubstr("callboard_commit_batch_size_count 1")));
}

TEST_F(SchedulerMetricsTest, OutcomesWithAWarningAreCountedFromZero) {
  core::Job job;
  job.name = "nightly";
  metrics_.OnJobs({job});
  for (const char* outcome :
       {"fired", "skipped_queue_full", "skipped_director_down", "missed_window", "refused"}) {
    EXPECT_THAT(Metrics(),
                HasSubstr(absl::StrCat(R"(callboard_schedule_fires_total{job="nightly",outcome=")",
                                       outcome, "\"} 0\n")));
  }
  EXPECT_THAT(Metrics(), Not(HasSubstr("coalesced")));
}

TEST_F(SchedulerMetricsTest, SummaryRowCountsAllItsOccurrences) {
  Commit({.job = "a", .outcome = core::FiringOutcome::kMissedWindow, .more = 6});
  EXPECT_THAT(Metrics(), HasSubstr(R"({job="a",outcome="missed_window"} 7)"));
  EXPECT_THAT(log_.str(), AllOf(HasSubstr("WARN schedule=missed_window"), HasSubstr("more=6")));
}

TEST_F(SchedulerMetricsTest, OverdueGrowsWithoutNewStatus) {
  EXPECT_THAT(GaugesAt(kNow), Not(HasSubstr("overdue")));
  metrics_.OnStatus({.jobs = 3, .paused_jobs = 1, .oldest_due = kNow});
  EXPECT_THAT(GaugesAt(kNow - absl::Seconds(5)),
              AllOf(HasSubstr("callboard_schedule_overdue_seconds 0\n"),
                    HasSubstr("callboard_schedule_jobs 3\n"),
                    HasSubstr("callboard_schedule_paused_jobs 1\n"),
                    HasSubstr("callboard_schedule_director_reachable 1\n"),
                    HasSubstr("callboard_schedule_file_refused 1\n")));
  EXPECT_THAT(GaugesAt(kNow + absl::Seconds(90)),
              HasSubstr("callboard_schedule_overdue_seconds 90\n"));
}

TEST_F(SchedulerMetricsTest, ClosedLedgerIsLoggedOnceAndNotReady) {
  metrics_.OnStatus({.jobs = 1, .oldest_due = kNow});
  metrics_.OnService(absl::UnavailableError("disk 1"));
  metrics_.OnService(absl::UnavailableError("disk 2"));
  EXPECT_EQ(readiness_.unready_reason(), "the ledger is away: disk 2");
  EXPECT_THAT(GaugesAt(kNow), HasSubstr("callboard_schedule_ledger_open 0\n"));
  EXPECT_THAT(log_.str(),
              AllOf(HasSubstr("ERROR ledger=away error=\"disk 1\""), Not(HasSubstr("disk 2"))));
  // Overdue occurrences stay overdue.
  EXPECT_THAT(GaugesAt(kNow + absl::Seconds(7)),
              HasSubstr("callboard_schedule_overdue_seconds 7\n"));
  metrics_.OnService(absl::OkStatus());
  EXPECT_THAT(readiness_.unready_reason(), IsEmpty());
  EXPECT_THAT(GaugesAt(kNow), HasSubstr("callboard_schedule_ledger_open 1\n"));
  EXPECT_THAT(log_.str(), HasSubstr("INFO ledger=open"));
}

TEST_F(SchedulerMetricsTest, NoticeNamesItsJob) {
  metrics_.OnNotice({.event = "job_paused", .job = "a", .text = "3 failures in a row"});
  EXPECT_THAT(log_.str(),
              HasSubstr("WARN scheduler=job_paused job=a detail=\"3 failures in a row\""));
}

TEST_F(SchedulerMetricsTest, UnreachableDirectorIsLoggedWithTheNextStep) {
  metrics_.OnNotice({.event = "director_unreachable", .text = "refused"});
  EXPECT_THAT(log_.str(),
              HasSubstr("WARN scheduler=director_unreachable detail=refused next=\"check "
                        "that the director runs and that director.address is its gRPC "
                        "port\""));
  metrics_.OnNotice({.event = "director_reachable"});
  EXPECT_THAT(log_.str(), testing::EndsWith("WARN scheduler=director_reachable\n"));
}

TEST_F(SchedulerMetricsTest, OperationsPageListsAllMetrics) {
  metrics_.OnStatus({});
  Commit({.job = "a"});
  const std::string page = test::FileText("docs/OPERATIONS.md");
  std::vector<prometheus::MetricFamily> families = metrics_.Gauges(kNow, false);
  for (const auto& family : registry_.Collect()) families.push_back(family);
  for (const auto& family : families) {
    EXPECT_THAT(page, HasSubstr("`" + family.name)) << family.name;
  }
}

}  // namespace
}  // namespace callboard
