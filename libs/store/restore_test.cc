#include "libs/store/restore.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "libs/base/check.h"
#include "libs/store/rocksdb_store.h"
#include "libs/store/store_folder.h"
#include "libs/testing/files.h"
#include "libs/testing/status_matchers.h"
#include "libs/testing/stored_records.h"

namespace callboard::store {
namespace {

using test::FileText;
using test::FlipBit;
using test::HasReason;
using test::IsOk;
using test::NewestFile;
using test::NewFolder;
using test::StatusIs;
using test::StoredAdmission;
using test::StoredRecord;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const absl::Time kNow = absl::FromUnixSeconds(1'700'000'000);
constexpr char kAside[] = "damaged-20231114T221320.000000Z";

// Writes tasks `first` to `last`, in commits of ten, and closes the store.
void Write(const std::filesystem::path& folder, uint64_t first, uint64_t last) {
  const std::unique_ptr<RocksDbStoreOpener> opener = *RocksDbStoreOpener::Lock({folder});
  const auto store = opener->Open(ports::StoreAccess::kReadWrite);
  ASSERT_THAT(store, IsOk());
  std::vector<core::Record> batch;
  for (uint64_t task = first; task <= last; ++task) {
    batch.emplace_back(StoredAdmission(task));
    if (batch.size() < 10 && task < last) continue;
    ASSERT_THAT((*store)->Commit(batch), IsOk());
    batch.clear();
  }
}

// Loads the store like a director, and returns the number of task records.
absl::StatusOr<uint64_t> Load(const std::filesystem::path& folder) {
  const std::unique_ptr<RocksDbStoreOpener> opener = *RocksDbStoreOpener::Lock({folder});
  const auto store = opener->Open(ports::StoreAccess::kReadWrite);
  if (!store.ok()) return store.status();
  const absl::StatusOr<std::vector<core::Record>> records = test::StoredRecords(**store);
  if (!records.ok()) return records.status();
  return std::count_if(records->begin(), records->end(), [](const core::Record& record) {
    return std::holds_alternative<core::TaskRecord>(record);
  });
}

uint64_t EpochIn(const std::filesystem::path& folder) {
  return Survey(**StoreFolder::Open(folder)).epoch;
}

void BeginEpoch(const std::filesystem::path& folder, uint64_t epoch) {
  const std::unique_ptr<RocksDbStoreOpener> opener = *RocksDbStoreOpener::Lock({folder});
  const core::Record began = core::EpochBegan{epoch};
  CHECK_OK((*opener->Open(ports::StoreAccess::kReadWrite))->Commit({&began, 1}));
}

std::filesystem::path NewCheckpoint(const std::filesystem::path& folder) {
  const std::unique_ptr<RocksDbStoreOpener> opener = *RocksDbStoreOpener::Lock({folder});
  return (*opener->Open(ports::StoreAccess::kReadWrite))->CreateCheckpoint("kept")->path;
}

// Returns a hook that stops the work before the step with this number, counted from 1.
StepHook StopBefore(int step) {
  return [step, count = std::make_shared<int>(0)]() -> absl::Status {
    return ++*count == step ? absl::AbortedError("stopped") : absl::OkStatus();
  };
}

// ---- A checkpoint -------------------------------------------------------------------------------

TEST(RestoreTest, CheckpointReplacesADamagedStoreWhichIsKept) {
  const std::filesystem::path folder = NewFolder();
  Write(folder, 1, 10);
  const std::filesystem::path checkpoint = NewCheckpoint(folder);
  Write(folder, 11, 100);
  FlipBit(NewestFile(folder, ".log"), 0.5);
  ASSERT_THAT(Load(folder), HasReason(std::string(ports::kStoreRefused)));

  const auto restored = RestoreCheckpoint({.data_dir = folder, .now = kNow}, checkpoint);
  ASSERT_THAT(restored, IsOk());
  EXPECT_EQ(restored->tasks, 10u);
  EXPECT_EQ(restored->sequence, 11u);
  EXPECT_EQ(restored->aside, folder / kAside);
  EXPECT_THAT((*StoreFolder::Open(restored->aside))->open_status().message(),
              HasSubstr("committed writes are missing"));
  EXPECT_EQ(*Load(folder), 10u);
  // The checkpoint was copied, so later writes do not change it.
  Write(folder, 11, 20);
  EXPECT_EQ(*Load(checkpoint), 10u);
}

TEST(RestoreTest, RestoredStoreHasALaterEpochThanAnyBefore) {
  const std::filesystem::path folder = NewFolder();
  Write(folder, 1, 10);
  BeginEpoch(folder, 5);
  const std::filesystem::path checkpoint = NewCheckpoint(folder);
  BeginEpoch(folder, 9);
  ASSERT_THAT(RestoreCheckpoint({.data_dir = folder, .now = kNow}, checkpoint), IsOk());
  const uint64_t restored = EpochIn(folder);
  EXPECT_GT(restored, 9u);
  // The epoch does not decrease when the clock is behind.
  const std::filesystem::path other = NewFolder() / "new";
  ASSERT_THAT(RestoreCheckpoint({.data_dir = other, .now = absl::UnixEpoch()}, folder), IsOk());
  EXPECT_GT(EpochIn(other), restored);
  std::filesystem::resize_file(NewestFile(folder, ".log"), 0);
  ASSERT_THAT(AcceptLoss({.data_dir = folder, .now = kNow + absl::Seconds(1)}), IsOk());
  EXPECT_GT(EpochIn(folder), restored) << "although it was lost";
}

TEST(RestoreTest, FolderWithASimilarNameIsNotAnInterruptedRestore) {
  const std::filesystem::path folder = NewFolder();
  Write(folder, 1, 3);
  std::filesystem::create_directories(folder / "restored-by-hand");
  std::ofstream(folder / "restored-by-hand" / "notes") << "mine";
  EXPECT_EQ(*Load(folder), 3u);
  EXPECT_EQ(FileText(folder / "restored-by-hand" / "notes"), "mine");
}

TEST(RestoreTest, MissingFolderIsCreatedForItsOwnerOnly) {
  const std::filesystem::path source = NewFolder();
  Write(source, 1, 3);
  const std::filesystem::path folder = NewFolder() / "new";
  const auto restored = RestoreCheckpoint({.data_dir = folder, .now = kNow}, source);
  ASSERT_THAT(restored, IsOk());
  EXPECT_EQ(restored->aside, "");
  struct stat status;
  ASSERT_EQ(stat(folder.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0700u);
  EXPECT_EQ(*Load(folder), 3u);
}

TEST(RestoreTest, InterruptedRestoreLeavesTheOldStoreOrTheNewOne) {
  const std::filesystem::path checkpoint = NewFolder();
  Write(checkpoint, 1, 3);
  int step = 1;
  bool is_finished = false;
  std::vector<uint64_t> found;
  for (; !is_finished; ++step) {
    const std::filesystem::path folder = NewFolder();
    Write(folder, 1, 7);
    const auto restored = RestoreCheckpoint(
        {.data_dir = folder, .now = kNow, .before_step = StopBefore(step)}, checkpoint);
    is_finished = restored.ok();
    const absl::StatusOr<uint64_t> loaded = Load(folder);
    ASSERT_THAT(loaded, IsOk()) << "stopped before step " << step;
    found.push_back(*loaded);
    // Loading finished or undid the restore, and another restore succeeds.
    EXPECT_THAT(StoreFolder::Open(folder), IsOk());
    EXPECT_THAT(RestoreCheckpoint({.data_dir = folder, .now = kNow + absl::Seconds(1)}, checkpoint),
                IsOk());
    EXPECT_EQ(*Load(folder), 3u);
  }
  // The first step commits the restore: later interruptions leave the new store.
  EXPECT_THAT(found, ElementsAre(7, 3, 3, 3, 3, 3, 3));
}

TEST(RestoreTest, InterruptedRestoreIsReportedWhenOpeningForReading) {
  const std::filesystem::path checkpoint = NewFolder();
  Write(checkpoint, 1, 3);
  const std::filesystem::path folder = NewFolder();
  Write(folder, 1, 7);
  ASSERT_THAT(RestoreCheckpoint({.data_dir = folder, .now = kNow, .before_step = StopBefore(4)},
                                checkpoint),
              StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(StoreFolder::Open(folder),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("was interrupted")));
}

TEST(RestoreTest, DamagedCheckpointIsRefusedAndNothingChanges) {
  const std::filesystem::path checkpoint = NewFolder();
  Write(checkpoint, 1, 100);
  FlipBit(NewestFile(checkpoint, ".log"), 0.5);
  const std::filesystem::path folder = NewFolder();
  Write(folder, 1, 7);
  EXPECT_THAT(RestoreCheckpoint({.data_dir = folder, .now = kNow}, checkpoint),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr(checkpoint.string())));
  EXPECT_THAT(RestoreCheckpoint({.data_dir = folder, .now = kNow}, NewFolder()),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(RestoreCheckpoint({.data_dir = folder, .now = kNow}, folder),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(*Load(folder), 7u);
}

TEST(RestoreTest, FolderOfARunningDirectorIsNotChanged) {
  const std::filesystem::path checkpoint = NewFolder();
  Write(checkpoint, 1, 3);
  const std::filesystem::path folder = NewFolder();
  Write(folder, 1, 7);
  const std::unique_ptr<RocksDbStoreOpener> director = *RocksDbStoreOpener::Lock({folder});
  EXPECT_THAT(RestoreCheckpoint({.data_dir = folder, .now = kNow}, checkpoint),
              HasReason(std::string(ports::kStoreLocked)));
  EXPECT_THAT(AcceptLoss({.data_dir = folder, .now = kNow}),
              HasReason(std::string(ports::kStoreLocked)));
}

// ---- Accepting a loss ---------------------------------------------------------------------------

TEST(RestoreTest, LossOfTheLogTailIsAcceptedInPlace) {
  const std::filesystem::path folder = NewFolder();
  Write(folder, 1, 100);
  FlipBit(NewestFile(folder, ".log"), 0.5);
  const auto loss = AcceptLoss({.data_dir = folder, .now = kNow});
  ASSERT_THAT(loss, IsOk());
  EXPECT_THAT(loss->findings, ElementsAre(HasSubstr("committed writes are missing")));
  EXPECT_EQ(loss->high_water, 101u);
  EXPECT_EQ(loss->sequence, 1 + loss->tasks);
  EXPECT_EQ(loss->aside, "");
  EXPECT_EQ(*Load(folder), loss->tasks);
}

TEST(RestoreTest, LostHighWaterIsRecreated) {
  const std::filesystem::path folder = NewFolder();
  Write(folder, 1, 5);
  std::filesystem::remove(folder / "HIGHWATER");
  const auto loss = AcceptLoss({.data_dir = folder, .now = kNow});
  ASSERT_THAT(loss, IsOk());
  EXPECT_EQ(loss->high_water, std::nullopt);
  EXPECT_EQ(loss->sequence, 6u);
  EXPECT_EQ(*Load(folder), 5u);
}

TEST(RestoreTest, ReadablePartOfADamagedTableIsCopied) {
  const std::filesystem::path folder = NewFolder();
  Write(folder, 1, 2000);
  // Opening the store moves the content of the log into a table.
  Write(folder, 1, 0);
  FlipBit(NewestFile(folder, ".sst"), 0.4);
  ASSERT_THAT(Load(folder), HasReason(std::string(ports::kStoreRefused)));
  const auto loss = AcceptLoss({.data_dir = folder, .now = kNow});
  ASSERT_THAT(loss, IsOk());
  EXPECT_EQ(loss->aside, folder / kAside);
  EXPECT_GT(loss->tasks, 1800u);
  EXPECT_LT(loss->tasks, 2000u);
  EXPECT_EQ(*Load(folder), loss->tasks);
}

TEST(RestoreTest, RecordsBetweenDamagedBlocksAreCopied) {
  const std::filesystem::path folder = NewFolder();
  Write(folder, 1, 2000);
  Write(folder, 1, 0);
  const std::filesystem::path table = NewestFile(folder, ".sst");
  for (const double place : {0.1, 0.4, 0.7}) FlipBit(table, place);
  const auto loss = AcceptLoss({.data_dir = folder, .now = kNow});
  ASSERT_THAT(loss, IsOk());
  EXPECT_EQ(loss->findings.size(), 3u);
  EXPECT_GT(loss->tasks, 1600u);
  EXPECT_EQ(*Load(folder), loss->tasks);
}

TEST(RestoreTest, TaskContinuesFromItsLastValidRecord) {
  const std::filesystem::path folder = NewFolder();
  Write(folder, 1, 2);
  {
    const std::unique_ptr<RocksDbStoreOpener> opener = *RocksDbStoreOpener::Lock({folder});
    const core::Record impossible = StoredRecord(1, 2, core::StartAccepted());
    ASSERT_THAT((*opener->Open(ports::StoreAccess::kReadWrite))->Commit({&impossible, 1}), IsOk());
  }
  const auto loss = AcceptLoss({.data_dir = folder, .now = kNow});
  ASSERT_THAT(loss, IsOk());
  EXPECT_THAT(loss->findings, ElementsAre(HasSubstr("record 2 was accepted")));
  EXPECT_EQ(*Load(folder), 2u);
}

TEST(RestoreTest, UndamagedStoreIsNotChanged) {
  const std::filesystem::path folder = NewFolder();
  Write(folder, 1, 5);
  const auto loss = AcceptLoss({.data_dir = folder, .now = kNow});
  ASSERT_THAT(loss, IsOk());
  EXPECT_THAT(loss->findings, IsEmpty());
  EXPECT_EQ(*Load(folder), 5u);
}

TEST(RestoreTest, UnreadableStoreIsNotChanged) {
  const std::filesystem::path folder = NewFolder();
  Write(folder, 1, 5);
  std::filesystem::remove(folder / "events" / "CURRENT");
  EXPECT_THAT(AcceptLoss({.data_dir = folder, .now = kNow}),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("can be read")));
  EXPECT_THAT(AcceptLoss({.data_dir = NewFolder(), .now = kNow}),
              StatusIs(absl::StatusCode::kNotFound));
}

}  // namespace
}  // namespace callboard::store
