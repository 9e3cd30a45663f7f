#include "services/cli/db_commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace callboard::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

StoreReport ReportOfThree() {
  StoreReport report = {.folder = "data",
                        .survey = {},
                        .notes = {},
                        .disk = {.logs = 10, .tables = 20, .others = 3},
                        .sequence = 7,
                        .high_water = 7,
                        .format = 1,
                        .now = absl::FromUnixSeconds(190)};
  report.survey.tasks.resize(3);
  report.survey.counts.pending = 2;
  report.survey.counts.completed = 1;
  report.survey.records = 6;
  report.survey.epoch = 4;
  report.survey.oldest_pending = core::QueueId(core::Ulid(0, 1));
  report.survey.oldest_pending_at = absl::FromUnixSeconds(100);
  return report;
}

TEST(DbReportTest, VerifyReportsTheContentsOfAWholeStore) {
  EXPECT_EQ(VerifyText(ReportOfThree()),
            "store      data is whole\n"
            "tasks      3\n"
            "records    6\n"
            "bytes      33\n"
            "sequence   7, committed: 7\n"
            "format     1\n");
  EXPECT_EQ(VerifyJson(ReportOfThree()),
            R"({"data_dir":"data","whole":true,"findings":[],"dropped":[],"tasks":3,"records":6,)"
            R"("bytes":33,"sequence":7,"high_water":7,"format":1})"
            "\n");
}

TEST(DbReportTest, VerifyHasALineForEachFinding) {
  StoreReport report = ReportOfThree();
  report.survey.findings = {"record a: torn", "record \"b\": torn"};
  report.notes = {"5 bytes"};
  report.high_water = std::nullopt;
  EXPECT_THAT(VerifyText(report), StartsWith("damaged: record a: torn\n"
                                             "damaged: record \"b\": torn\n"
                                             "dropped, never acknowledged: 5 bytes\n"
                                             "store      data is damaged\n"));
  EXPECT_THAT(VerifyText(report), HasSubstr("committed: unknown\n"));
  EXPECT_THAT(VerifyJson(report),
              HasSubstr(R"("whole":false,"findings":["record a: torn","record \"b\": torn"],)"
                        R"("dropped":["5 bytes"])"));
  EXPECT_THAT(VerifyJson(report), HasSubstr("\"high_water\":null"));
}

TEST(DbReportTest, StatsAreATableOrOneJsonDocument) {
  const std::string id = core::ToString(core::QueueId(core::Ulid(0, 1)));
  EXPECT_EQ(StatsText(ReportOfThree()),
            "store      data, format 1\n"
            "queue      accepts and dispatches, epoch 4\n"
            "tasks      3: 2 pending, 0 dispatching, 0 working, 1 completed, 0 failed, "
            "0 cancelled\n"
            "  oldest   " +
                id +
                ", for 1m30s\n"
                "records    6\n"
                "requests   0 request ids outlive their task\n"
                "agents     0 drained or cordoned\n"
                "bytes      33: 10 in logs, 20 in tables, 3 in others\n"
                "sequence   7, committed: 7\n");
  EXPECT_EQ(StatsJson(ReportOfThree()),
            R"({"data_dir":"data","format":1,"epoch":4,"paused":false,"draining":false,"tasks":3,)"
            R"("counts":{"pending":2,"dispatching":0,"working":0,"completed":1,"failed":0,)"
            R"("cancelled":0},"oldest_pending":{"queue_id":")" +
                id +
                R"(","created_at":"1970-01-01T00:01:40Z"},"records":6,"remembered_requests":0,)"
                R"("marked_agents":0,"bytes":{"logs":10,"tables":20,"others":3},"sequence":7,)"
                R"("high_water":7})"
                "\n");
}

TEST(DbReportTest, StatsShowAPausedDrainingOrEmptyQueue) {
  StoreReport report = ReportOfThree();
  report.survey.paused = true;
  EXPECT_THAT(StatsText(report), HasSubstr("queue      paused"));
  report.survey.draining = true;
  EXPECT_THAT(StatsText(report), HasSubstr("queue      draining"));
  report.survey.oldest_pending = std::nullopt;
  EXPECT_THAT(StatsText(report), HasSubstr("  oldest   none\n"));
  EXPECT_THAT(StatsJson(report), HasSubstr("\"oldest_pending\":null"));
}

}  // namespace
}  // namespace callboard::cli
