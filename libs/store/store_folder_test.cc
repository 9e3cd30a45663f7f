// Inspection of a store, undamaged and damaged.
#include "libs/store/store_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rocksdb/db.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "libs/base/check.h"
#include "libs/store/database.h"
#include "libs/store/rocksdb_store.h"
#include "libs/testing/files.h"
#include "libs/testing/status_matchers.h"
#include "libs/testing/stored_records.h"

namespace callboard::store {
namespace {

using test::FileText;
using test::FlipBit;
using test::HasReason;
using test::IsOk;
using test::StatusIs;
using test::StoredAdmission;
using test::StoredId;
using test::StoredRecord;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class StoreFolderTest : public testing::Test {
 protected:
  // Writes the records in commits of ten.
  void Write(const std::vector<core::Record>& records) const {
    const std::unique_ptr<RocksDbStoreOpener> opener = *RocksDbStoreOpener::Lock({folder_});
    const auto store = opener->Open(ports::StoreAccess::kReadWrite);
    ASSERT_THAT(store, IsOk());
    for (size_t i = 0; i < records.size(); i += 10) {
      ASSERT_THAT((*store)->Commit(absl::MakeConstSpan(records).subspan(i, 10)), IsOk());
    }
  }
  void WriteTasks(uint64_t tasks) const {
    std::vector<core::Record> records;
    for (uint64_t task = 1; task <= tasks; ++task) records.emplace_back(StoredAdmission(task));
    Write(records);
  }

  StoreSurvey TakeSurvey() const { return Survey(**StoreFolder::Open(folder_)); }

  std::filesystem::path Newest(const std::string& extension) const {
    return test::NewestFile(folder_, extension);
  }

  static std::vector<core::QueueId> TaskIds(const StoreSurvey& survey) {
    std::vector<core::QueueId> ids;
    for (const SurveyedTask& task : survey.tasks) ids.push_back(task.queue_id);
    return ids;
  }

  const std::filesystem::path folder_ = test::NewFolder();
};

// ---- The lock -----------------------------------------------------------------------------------

TEST_F(StoreFolderTest, FolderOfARunningDirectorCannotBeOpened) {
  WriteTasks(1);
  const std::unique_ptr<RocksDbStoreOpener> director = *RocksDbStoreOpener::Lock({folder_});
  EXPECT_THAT(StoreFolder::Open(folder_).status(), HasReason(std::string(ports::kStoreLocked)));
}

TEST_F(StoreFolderTest, ReadersShareTheLockAndExcludeDirectors) {
  WriteTasks(1);
  const auto first = StoreFolder::Open(folder_);
  const auto second = StoreFolder::Open(folder_);
  ASSERT_THAT(first, IsOk());
  ASSERT_THAT(second, IsOk());
  EXPECT_THAT(RocksDbStoreOpener::Lock({folder_}).status(),
              HasReason(std::string(ports::kStoreLocked)));
}

TEST_F(StoreFolderTest, ReadOnlyFolderIsOpenedWithoutALock) {
  WriteTasks(1);
  // No user, not even root, can create files in this folder.
  std::filesystem::remove(folder_ / "LOCK");
  std::filesystem::create_symlink("/sys/no_lock_can_be_made_here", folder_ / "LOCK");
  const auto folder = StoreFolder::Open(folder_);
  ASSERT_THAT(folder, IsOk());
  EXPECT_THAT(Survey(**folder).findings, IsEmpty());
}

TEST_F(StoreFolderTest, ErrorForAnUnwritableFolderNamesDataDirAndUser) {
  std::filesystem::create_symlink("/sys/no_lock_can_be_made_here", folder_ / "LOCK");
  EXPECT_THAT(RocksDbStoreOpener::Lock({folder_}).status(),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("data_dir '" + folder_.string() + "' "),
                             HasSubstr(absl::StrCat("(uid ", geteuid(), "): ")))));
}

TEST_F(StoreFolderTest, UnreadableLockFileIsAnError) {
  WriteTasks(1);
  std::filesystem::remove(folder_ / "LOCK");
  std::filesystem::create_symlink("LOCK", folder_ / "LOCK");
  EXPECT_THAT(StoreFolder::Open(folder_), StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(StoreFolderTest, FolderWithoutAStoreIsNotFoundAndNotChanged) {
  EXPECT_THAT(StoreFolder::Open(folder_), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(StoreFolder::Open(folder_ / "none"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

// ---- An undamaged store -------------------------------------------------------------------------

TEST_F(StoreFolderTest, SurveyCountsTasksAndRecords) {
  core::TaskAdmitted again = std::get<core::TaskAdmitted>(StoredAdmission(4).change);
  again.redrive_of = StoredId(3);
  core::Record remembered = core::RequestRemembered{.identity = "me", .request_id = "r"};
  Write({StoredAdmission(1), StoredAdmission(2), StoredAdmission(3),
         StoredRecord(1, 2, core::TaskDispatched{.dispatch = core::DispatchNumber(1)}),
         StoredRecord(3, 2, core::TaskEnded{.state = core::LifecycleState::kCancelled}),
         StoredRecord(4, 1, again), core::EpochBegan{5},
         core::QueueSwitched{.paused = true, .draining = false}, remembered,
         core::AgentMarked{.name = "a", .draining = true}});
  const StoreSurvey survey = TakeSurvey();
  EXPECT_THAT(survey.findings, IsEmpty());
  EXPECT_THAT(TaskIds(survey), ElementsAre(StoredId(1), StoredId(2), StoredId(4), StoredId(3)));
  EXPECT_EQ(survey.tasks[0].position, 0u);
  EXPECT_EQ(survey.tasks[1].position, 1u);
  EXPECT_EQ(survey.tasks[2].position, 2u);
  EXPECT_EQ(survey.tasks[3].redriven_as, StoredId(4));
  EXPECT_EQ(survey.counts.pending, 2u);
  EXPECT_EQ(survey.counts.dispatching, 1u);
  EXPECT_EQ(survey.counts.cancelled, 1u);
  EXPECT_EQ(survey.oldest_pending, StoredId(2));
  EXPECT_EQ(survey.records, 10u);
  EXPECT_EQ(survey.epoch, 5u);
  EXPECT_TRUE(survey.paused);
  EXPECT_EQ(survey.remembered_requests, 1u);
  EXPECT_EQ(survey.marked_agents, 1u);
}

TEST_F(StoreFolderTest, ReportsSequenceHighWaterFormatAndDiskUsage) {
  WriteTasks(3);
  const auto folder = StoreFolder::Open(folder_);
  EXPECT_EQ((*folder)->sequence(), 4u);
  EXPECT_EQ((*folder)->high_water(), 4u);
  EXPECT_EQ((*folder)->format(), 3u);
  EXPECT_EQ((*folder)->MeasureDiskUsage()->logs, std::filesystem::file_size(Newest(".log")));
  EXPECT_EQ((*folder)->ReadTask(StoredId(2)).records.size(), 1u);
  EXPECT_THAT((*folder)->ReadTask(StoredId(9)).records, IsEmpty());
}

TEST_F(StoreFolderTest, SurveyReportsProgress) {
  WriteTasks(1100);
  std::vector<uint64_t> reported;
  Survey(**StoreFolder::Open(folder_),
         [&reported](uint64_t records) { reported.push_back(records); });
  EXPECT_THAT(reported, ElementsAre(1024));
}

// ---- Damage -------------------------------------------------------------------------------------

TEST_F(StoreFolderTest, DamagedLogTailIsAFindingAndTheRestIsRead) {
  WriteTasks(100);
  FlipBit(Newest(".log"), 0.5);
  const StoreSurvey survey = TakeSurvey();
  EXPECT_THAT(survey.findings, ElementsAre(HasSubstr("committed writes are missing")));
  EXPECT_GT(survey.tasks.size(), 30u);
  EXPECT_LT(survey.tasks.size(), 70u);
}

TEST_F(StoreFolderTest, RecordsAroundADamagedBlockAreRead) {
  WriteTasks(2000);
  // Opening the store moves the content of the log into a table.
  WriteTasks(0);
  FlipBit(Newest(".sst"), 0.4);
  const StoreSurvey survey = TakeSurvey();
  EXPECT_THAT(survey.findings, ElementsAre(HasSubstr(Newest(".sst").filename().string())));
  EXPECT_GT(survey.tasks.size(), 1800u);
  EXPECT_LT(survey.tasks.size(), 2000u);
  const std::vector<core::QueueId> ids = TaskIds(survey);
  EXPECT_EQ(ids.front(), StoredId(1));
  EXPECT_EQ(ids.back(), StoredId(2000));
}

TEST_F(StoreFolderTest, ImpossibleRecordIsNamedWithItsTask) {
  Write({StoredAdmission(1), StoredRecord(1, 2, core::StartAccepted()), StoredAdmission(2),
         StoredRecord(2, 3, core::EventOnly()), StoredRecord(3, 2, core::EventOnly())});
  const StoreSurvey survey = TakeSurvey();
  EXPECT_THAT(
      survey.findings,
      ElementsAre(
          "task " + core::ToString(StoredId(1)) + ": record 2 was accepted without a dispatch",
          "task " + core::ToString(StoredId(2)) + ": record 3 cannot follow record 1",
          "task " + core::ToString(StoredId(3)) + ": record 2 cannot follow record 0"));
  // Tasks count with their state before the impossible record.
  EXPECT_THAT(TaskIds(survey), ElementsAre(StoredId(1), StoredId(2)));
  EXPECT_EQ(survey.counts.pending, 2u);
  const ReadTaskResult result = (*StoreFolder::Open(folder_))->ReadTask(StoredId(1));
  EXPECT_EQ(result.records.size(), 1u);
  EXPECT_THAT(result.damage, HasSubstr("/2 was accepted without a dispatch"));
}

TEST_F(StoreFolderTest, TwoTasksWithTheSamePlaceAreAFinding) {
  core::TaskAdmitted same = std::get<core::TaskAdmitted>(StoredAdmission(1).change);
  Write({StoredAdmission(1), StoredRecord(2, 1, same)});
  EXPECT_THAT(TakeSurvey().findings, ElementsAre(HasSubstr("has place 1, the place of task")));
}

TEST_F(StoreFolderTest, UnreadableRecordIsNamedAndTheOthersAreRead) {
  WriteTasks(3);
  CHECK((*OpenReadWrite(folder_ / "events"))
            ->Put(rocksdb::WriteOptions(), "queue/epoch", "no message")
            .ok());
  const StoreSurvey survey = TakeSurvey();
  EXPECT_THAT(survey.findings, ElementsAre(HasSubstr("record queue/epoch")));
  EXPECT_EQ(survey.tasks.size(), 3u);
}

TEST_F(StoreFolderTest, UnreadableStoreReportsTheReason) {
  WriteTasks(1);
  std::filesystem::remove(folder_ / "events" / "CURRENT");
  const auto folder = StoreFolder::Open(folder_);
  ASSERT_THAT(folder, IsOk());
  EXPECT_FALSE((*folder)->is_readable());
  EXPECT_THAT((*folder)->open_status(), HasReason(std::string(ports::kStoreRefused)));
  EXPECT_THAT(Survey(**folder).findings, ElementsAre(HasSubstr("CURRENT")));
}

TEST_F(StoreFolderTest, NewerFormatIsNotInterpreted) {
  WriteTasks(1);
  CHECK((*OpenReadWrite(folder_ / "events"))->Put(rocksdb::WriteOptions(), "format", "4").ok());
  const auto folder = StoreFolder::Open(folder_);
  EXPECT_THAT((*folder)->open_status(), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_FALSE((*folder)->is_readable());
}

}  // namespace
}  // namespace callboard::store
