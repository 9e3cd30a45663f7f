#include "services/cli/db_commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <stop_token>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/base/check.h"
#include "libs/flow/abort.h"
#include "libs/store/rocksdb_store.h"
#include "libs/testing/files.h"
#include "libs/testing/status_matchers.h"
#include "libs/testing/stored_records.h"
#include "libs/testing/submissions.h"
#include "services/cli/answer_text.h"

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
            "store      data is undamaged\n"
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
                                             "discarded (never acknowledged): 5 bytes\n"
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
            "queue      running, epoch 4\n"
            "tasks      3: 2 pending, 0 dispatching, 0 working, 1 completed, 0 failed, "
            "0 cancelled\n"
            "  oldest   " +
                id +
                ", for 1m30s\n"
                "records    6\n"
                "requests   0 remembered request ids\n"
                "agents     0 drained or cordoned\n"
                "bytes      33: 10 in logs, 20 in tables, 3 in other files\n"
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

TEST(DbRestoreTest, LossIsReportedAsARangeOfSequences) {
  EXPECT_EQ(
      LossText("data",
               {.findings = {"torn"}, .sequence = 150, .high_water = 200, .tasks = 7, .aside = {}}),
      "damaged: torn\n"
      "lost       sequences 151 to 200: 50 committed writes\n"
      "kept       7 tasks in data\n");
  EXPECT_EQ(LossJson("data", {.findings = {"torn", "worn"},
                              .sequence = 150,
                              .high_water = 200,
                              .tasks = 7,
                              .aside = "data/damaged-1"}),
            R"({"data_dir":"data","findings":["torn","worn"],"sequence":150,"high_water":200,)"
            R"("tasks":7,"aside":"data/damaged-1"})"
            "\n");
}

TEST(DbRestoreTest, UnknownLossIsReportedAsUnknown) {
  const store::AcceptLossResult unknown = {
      .findings = {"gone"}, .sequence = 5, .high_water = {}, .tasks = 1, .aside = {}};
  EXPECT_THAT(LossText("data", unknown),
              HasSubstr("lost       all writes committed after sequence 5, if any;"));
  EXPECT_THAT(LossJson("data", unknown), HasSubstr("\"high_water\":null"));
  EXPECT_THAT(LossText("data", {.findings = {"block"},
                                .sequence = 5,
                                .high_water = 5,
                                .tasks = 1,
                                .aside = "data/damaged-1"}),
              HasSubstr("lost       the damaged records listed above\n"
                        "kept       1 tasks in data\n"
                        "aside      data/damaged-1\n"));
}

TEST(DbRestoreTest, WholeStoreLosesNothing) {
  EXPECT_EQ(LossText("data", {}), "data is undamaged: nothing is lost\n");
}

TEST(DbRestoreTest, RestoreReportsTheFolderOfTheOldStore) {
  const store::RestoreResult restored = {.tasks = 3, .sequence = 9, .aside = "data/damaged-1"};
  EXPECT_EQ(RestoredText("data", restored),
            "restored   data\n"
            "tasks      3\n"
            "sequence   9\n"
            "aside      data/damaged-1\n");
  EXPECT_EQ(RestoredJson("data", {.tasks = 3, .sequence = 9, .aside = {}}),
            "{\"data_dir\":\"data\",\"tasks\":3,\"sequence\":9,\"aside\":null}\n");
}

TEST(DbRestoreTest, RestoreNeedsExactlyOneMode) {
  EXPECT_EQ(ExitCodeOf(RestoreStore({}, {}, stdout)), ExitCode::kUsage);
  DbArguments both;
  both.from = "checkpoint";
  both.accept_loss = true;
  EXPECT_EQ(ExitCodeOf(RestoreStore({}, both, stdout)), ExitCode::kUsage);
}

using test::FileText;
using test::IsOk;
using test::StatusIs;
using ::testing::EndsWith;

constexpr core::QueueId kId = core::QueueId(core::Ulid(0, 1));

store::ReadTaskResult Submitted() {
  v1::SubmitTaskRequest submit = test::MakeSubmit("echo hello");
  (*submit.mutable_env())["KEY"] = "value";
  core::TaskRecord record = {
      .queue_id = kId,
      .number = 1,
      .event = {.number = 2,
                .kind = core::TaskEventKind::kAdmitted,
                .at = absl::FromUnixSeconds(100),
                .who = "anonymous"},
      .change = core::TaskAdmitted{
          .spec = test::ToSpec(submit), .submitted_at = absl::FromUnixSeconds(99), .sequence = 1}};
  return {.records = {record}, .damage = ""};
}

TEST(DbTasksTest, TaskIsShownInFullWithItsEvents) {
  const std::string json = TaskJson({.queue_id = kId, .position = 4}, Submitted());
  EXPECT_THAT(json, StartsWith(R"({"task":{"prompt":"echo hello",)"));
  EXPECT_THAT(json, HasSubstr(R"("queue_id":")" + core::ToString(kId)));
  EXPECT_THAT(json, HasSubstr(R"("state":"pending")"));
  EXPECT_THAT(json, HasSubstr(R"("position":4)"));
  EXPECT_THAT(json, HasSubstr(R"("env":{"KEY":"value"})"));
  EXPECT_THAT(json, HasSubstr(R"("events":[{"number":1,"kind":"SUBMITTED",)"));
  EXPECT_THAT(json, HasSubstr(R"({"number":2,"kind":"ADMITTED",)"));
  EXPECT_THAT(json, EndsWith("],\"damage\":null}\n"));
}

TEST(DbTasksTest, DamageOfATaskIsShown) {
  store::ReadTaskResult reading = Submitted();
  reading.damage = "record 2 was accepted without a dispatch";
  EXPECT_THAT(TaskJson({.queue_id = kId}, reading),
              EndsWith("\"damage\":\"record 2 was accepted without a dispatch\"}\n"));
  EXPECT_THAT(TaskText({.queue_id = kId}, reading),
              EndsWith("damaged    record 2 was accepted without a dispatch\n"));
}

TEST(DbTasksTest, TaskTextHasALineForEachEvent) {
  EXPECT_EQ(TaskText({.queue_id = kId, .position = 4}, Submitted()),
            "task       " + core::ToString(kId) +
                "\n"
                "state      pending, position 4\n"
                "prompt     \"echo hello\"\n"
                "runs       0 dispatches, 0 failed attempts of 3 allowed\n"
                "     1  1970-01-01T00:01:39.000Z  SUBMITTED        anonymous\n"
                "     2  1970-01-01T00:01:40.000Z  ADMITTED         anonymous\n");
}

TEST(DbTasksTest, WrongTaskIdGetsAnErrorWithTheValidForm) {
  DbArguments arguments;
  arguments.queue_id = "queue-1";
  EXPECT_THAT(ShowStoredTask({}, arguments, stdout),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("'queue-1' is not the id of a task; expected: queue- and 26")));
}

class ExportTest : public testing::Test {
 protected:
  void Has(uint64_t tasks) {
    const auto stores = *store::RocksDbStoreOpener::Lock({.data_dir = folder_});
    const auto store = *stores->Open(ports::StoreAccess::kReadWrite);
    std::vector<core::Record> records;
    for (uint64_t task = 1; task <= tasks; ++task) {
      records.push_back(test::StoredAdmission(task));
    }
    CHECK_OK(store->Commit(records));
  }
  absl::Status Export(const std::stop_token& stop) {
    const auto folder = *store::StoreFolder::Open(folder_);
    return ExportToFile(*folder, store::Survey(*folder), file_, stop);
  }

  const std::filesystem::path folder_ = test::NewFolder();
  const std::filesystem::path file_ = test::NewFolder() / "tasks.jsonl";
};

TEST_F(ExportTest, ParallelReadsKeepTheOrderOfTasks) {
  Has(2000);
  ASSERT_THAT(Export({}), IsOk());
  const std::string text = FileText(file_);
  size_t at = 0;
  for (uint64_t task = 1; task <= 2000; ++task) {
    at = text.find(absl::StrCat("\"queue_id\":\"", core::ToString(test::StoredId(task)), "\""), at);
    ASSERT_NE(at, std::string::npos) << task;
  }
}

TEST_F(ExportTest, StoppedExportKeepsTheOldFile) {
  Has(10);
  std::ofstream(file_) << "the last one";
  std::stop_source stop;
  stop.request_stop();
  EXPECT_TRUE(flow::IsAbortError(Export(stop.get_token())));
  EXPECT_EQ(FileText(file_), "the last one");
  EXPECT_FALSE(std::filesystem::exists(file_.string() + ".new"));
}

}  // namespace
}  // namespace callboard::cli
