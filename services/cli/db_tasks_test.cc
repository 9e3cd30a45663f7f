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
#include "libs/flow/limits.h"
#include "libs/store/rocksdb_store.h"
#include "libs/testing/files.h"
#include "libs/testing/status_matchers.h"
#include "libs/testing/stored_records.h"

namespace callboard::cli {
namespace {

using test::FileText;
using test::IsOk;
using test::StatusIs;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr core::QueueId kId = core::QueueId(core::Ulid(0, 1));

store::ReadTaskResult Submitted() {
  core::TaskSpec spec;
  spec.prompt = "echo hello";
  spec.env = {{"KEY", "value"}};
  spec.max_attempts = 3;
  core::TaskRecord record = {
      .queue_id = kId,
      .number = 1,
      .event = {.number = 2,
                .kind = core::TaskEventKind::kAdmitted,
                .at = absl::FromUnixSeconds(100),
                .who = "anonymous"},
      .change = core::Admitted{.spec = std::make_shared<const core::TaskSpec>(spec),
                               .submitted_at = absl::FromUnixSeconds(99),
                               .sequence = 1}};
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
                "state      pending, place 4\n"
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
                       HasSubstr("'queue-1' is not the id of a task; wanted: queue- and 26")));
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
