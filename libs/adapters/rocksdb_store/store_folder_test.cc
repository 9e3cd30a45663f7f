// What can be seen of a store, whole or damaged, by who only looks at it.
#include "libs/adapters/rocksdb_store/store_folder.h"

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
#include "libs/adapters/rocksdb_store/database.h"
#include "libs/adapters/rocksdb_store/rocksdb_store.h"
#include "libs/adapters/rocksdb_store/store_survey.h"
#include "libs/base/check.h"
#include "libs/testing/damage.h"
#include "libs/testing/file_text.h"
#include "libs/testing/new_folder.h"
#include "libs/testing/status_matchers.h"
#include "libs/testing/stored_tasks.h"

namespace callboard::adapters {
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
  // In commits of ten.
  void Write(const std::vector<core::Record>& records) const {
    const std::unique_ptr<RocksDbStores> stores = *RocksDbStores::Lock({folder_});
    const auto store = stores->Open(ports::StoreAccess::kReadWrite);
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

  StoreSurvey Look() const { return Survey(**StoreFolder::Open(folder_)); }

  std::filesystem::path Newest(const std::string& extension) const {
    return test::NewestFile(folder_, extension);
  }

  static std::vector<core::QueueId> IdsOf(const StoreSurvey& survey) {
    std::vector<core::QueueId> ids;
    for (const SurveyedTask& task : survey.tasks) ids.push_back(task.queue_id);
    return ids;
  }

  const std::filesystem::path folder_ = test::NewFolder();
};

// ---- The lock -----------------------------------------------------------------------------------

TEST_F(StoreFolderTest, FolderOfADirectorIsNotLookedAt) {
  WriteTasks(1);
  const std::unique_ptr<RocksDbStores> director = *RocksDbStores::Lock({folder_});
  EXPECT_THAT(StoreFolder::Open(folder_).status(), HasReason(std::string(ports::kStoreLocked)));
}

TEST_F(StoreFolderTest, SeveralMayLookAndNoDirectorStartsMeanwhile) {
  WriteTasks(1);
  const auto first = StoreFolder::Open(folder_);
  const auto second = StoreFolder::Open(folder_);
  ASSERT_THAT(first, IsOk());
  ASSERT_THAT(second, IsOk());
  EXPECT_THAT(RocksDbStores::Lock({folder_}).status(), HasReason(std::string(ports::kStoreLocked)));
}

TEST_F(StoreFolderTest, FolderThatCannotBeWrittenToIsReadWithoutALock) {
  WriteTasks(1);
  // Nobody, not even root, creates files there.
  std::filesystem::remove(folder_ / "LOCK");
  std::filesystem::create_symlink("/sys/no_lock_can_be_made_here", folder_ / "LOCK");
  const auto folder = StoreFolder::Open(folder_);
  ASSERT_THAT(folder, IsOk());
  EXPECT_THAT(Survey(**folder).findings, IsEmpty());
}

TEST_F(StoreFolderTest, LockThatCannotBeMadeNamesDataDirAndUser) {
  std::filesystem::create_symlink("/sys/no_lock_can_be_made_here", folder_ / "LOCK");
  EXPECT_THAT(RocksDbStores::Lock({folder_}).status(),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("data_dir '" + folder_.string() + "' "),
                             HasSubstr(absl::StrCat("(uid ", geteuid(), "): ")))));
}

TEST_F(StoreFolderTest, LockThatIsThereAndCannotBeOpenedIsAnError) {
  WriteTasks(1);
  std::filesystem::remove(folder_ / "LOCK");
  std::filesystem::create_symlink("LOCK", folder_ / "LOCK");
  EXPECT_THAT(StoreFolder::Open(folder_), StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(StoreFolderTest, FolderWithoutAStoreIsNotFoundAndLeftAlone) {
  EXPECT_THAT(StoreFolder::Open(folder_), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(StoreFolder::Open(folder_ / "none"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

// ---- A whole store ------------------------------------------------------------------------------

TEST_F(StoreFolderTest, SurveyCountsWhatIsThere) {
  core::Admitted again = std::get<core::Admitted>(StoredAdmission(4).change);
  again.redrive_of = StoredId(3);
  core::Record remembered = core::RequestRemembered{.identity = "me", .request_id = "r"};
  Write({StoredAdmission(1), StoredAdmission(2), StoredAdmission(3),
         StoredRecord(1, 2, core::Dispatched{.dispatch = core::DispatchNumber(1)}),
         StoredRecord(3, 2, core::Ended{.state = core::TaskState::kCancelled}),
         StoredRecord(4, 1, again), core::EpochBegan{5},
         core::QueueSwitched{.paused = true, .draining = false}, remembered,
         core::AgentMarked{.name = "a", .draining = true}});
  const StoreSurvey survey = Look();
  EXPECT_THAT(survey.findings, IsEmpty());
  EXPECT_THAT(IdsOf(survey), ElementsAre(StoredId(1), StoredId(2), StoredId(4), StoredId(3)));
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

TEST_F(StoreFolderTest, SaysHowFarTheStoreHasComeAndWhatItTakes) {
  WriteTasks(3);
  const auto folder = StoreFolder::Open(folder_);
  EXPECT_EQ((*folder)->sequence(), 4u);
  EXPECT_EQ((*folder)->high_water(), 4u);
  EXPECT_EQ((*folder)->format(), 2u);
  EXPECT_EQ((*folder)->MeasureDiskUse()->logs, std::filesystem::file_size(Newest(".log")));
  EXPECT_EQ((*folder)->ReadTask(StoredId(2)).records.size(), 1u);
  EXPECT_THAT((*folder)->ReadTask(StoredId(9)).records, IsEmpty());
}

TEST_F(StoreFolderTest, ProgressIsTold) {
  WriteTasks(1100);
  std::vector<uint64_t> told;
  Survey(**StoreFolder::Open(folder_), [&told](uint64_t records) { told.push_back(records); });
  EXPECT_THAT(told, ElementsAre(1024));
}

// ---- Damage -------------------------------------------------------------------------------------

TEST_F(StoreFolderTest, LogThatLostItsEndIsAFindingAndTheRestIsRead) {
  WriteTasks(100);
  FlipBit(Newest(".log"), 0.5);
  const StoreSurvey survey = Look();
  EXPECT_THAT(survey.findings, ElementsAre(HasSubstr("committed writes are missing")));
  EXPECT_GT(survey.tasks.size(), 30u);
  EXPECT_LT(survey.tasks.size(), 70u);
}

TEST_F(StoreFolderTest, WhatComesBeforeAndAfterADamagedBlockIsRead) {
  WriteTasks(2000);
  // Opening moves what is in the log into a table.
  WriteTasks(0);
  FlipBit(Newest(".sst"), 0.4);
  const StoreSurvey survey = Look();
  EXPECT_THAT(survey.findings, ElementsAre(HasSubstr(Newest(".sst").filename().string())));
  EXPECT_GT(survey.tasks.size(), 1800u);
  EXPECT_LT(survey.tasks.size(), 2000u);
  const std::vector<core::QueueId> ids = IdsOf(survey);
  EXPECT_EQ(ids.front(), StoredId(1));
  EXPECT_EQ(ids.back(), StoredId(2000));
}

TEST_F(StoreFolderTest, ImpossibleRecordIsNamedWithItsTask) {
  Write({StoredAdmission(1), StoredRecord(1, 2, core::Accepted()), StoredAdmission(2),
         StoredRecord(2, 3, core::Noted()), StoredRecord(3, 2, core::Noted())});
  const StoreSurvey survey = Look();
  EXPECT_THAT(
      survey.findings,
      ElementsAre(
          "task " + core::ToString(StoredId(1)) + ": record 2 is accepted while nobody was asked",
          "task " + core::ToString(StoredId(2)) + ": record 3 comes after record 1",
          "task " + core::ToString(StoredId(3)) + ": record 2 comes after record 0"));
  // As they were before.
  EXPECT_THAT(IdsOf(survey), ElementsAre(StoredId(1), StoredId(2)));
  EXPECT_EQ(survey.counts.pending, 2u);
  const TaskReading reading = (*StoreFolder::Open(folder_))->ReadTask(StoredId(1));
  EXPECT_EQ(reading.records.size(), 1u);
  EXPECT_THAT(reading.damage, HasSubstr("/2 is accepted while nobody was asked"));
}

TEST_F(StoreFolderTest, TwoTasksInOnePlaceAreAFinding) {
  core::Admitted same = std::get<core::Admitted>(StoredAdmission(1).change);
  Write({StoredAdmission(1), StoredRecord(2, 1, same)});
  EXPECT_THAT(Look().findings, ElementsAre(HasSubstr("has place 1, as has task")));
}

TEST_F(StoreFolderTest, RecordThatCannotBeReadIsNamedAndTheOthersAreRead) {
  WriteTasks(3);
  CHECK((*OpenToWrite(folder_ / "events"))
            ->Put(rocksdb::WriteOptions(), "queue/epoch", "no message")
            .ok());
  const StoreSurvey survey = Look();
  EXPECT_THAT(survey.findings, ElementsAre(HasSubstr("record queue/epoch")));
  EXPECT_EQ(survey.tasks.size(), 3u);
}

TEST_F(StoreFolderTest, StoreOfWhichNothingCanBeReadSaysWhy) {
  WriteTasks(1);
  std::filesystem::remove(folder_ / "events" / "CURRENT");
  const auto folder = StoreFolder::Open(folder_);
  ASSERT_THAT(folder, IsOk());
  EXPECT_FALSE((*folder)->is_readable());
  EXPECT_THAT((*folder)->refusal(), HasReason(std::string(ports::kStoreRefused)));
  EXPECT_THAT(Survey(**folder).findings, ElementsAre(HasSubstr("CURRENT")));
}

TEST_F(StoreFolderTest, NewerFormatIsNotInterpreted) {
  WriteTasks(1);
  CHECK((*OpenToWrite(folder_ / "events"))->Put(rocksdb::WriteOptions(), "format", "3").ok());
  const auto folder = StoreFolder::Open(folder_);
  EXPECT_THAT((*folder)->refusal(), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_FALSE((*folder)->is_readable());
}

}  // namespace
}  // namespace callboard::adapters
