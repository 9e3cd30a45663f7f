// Tests of directors that start on a damaged folder.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "libs/base/check.h"
#include "libs/store/rocksdb_store.h"
#include "libs/testing/files.h"
#include "libs/testing/stored_records.h"
#include "tests/crash/director_process.h"
#include "tests/crash/disk_image.h"
#include "tests/crash/history_checker.h"
#include "tests/crash/load.h"
#include "tests/crash/queue_client.h"

namespace callboard::crash {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// The exit code that docs/OPERATIONS.md documents and supervisors use.
constexpr int kRejected = 65;
constexpr int kLocked = 75;

class DamageTest : public testing::Test {
 protected:
  void SetUp() override { RunUnderLoadAndKill("first"); }

  // Runs a director under some load and kills it.
  void RunUnderLoadAndKill(const std::string& name) {
    DirectorProcess director(folder_, kFlags);
    const Load load = {.name = name};
    for (Call& call : RunLoad(load, director.address(), [this] { return ++tick_; })) {
      history_.push_back(std::move(call));
    }
    director.process().Signal(SIGKILL);
    director.WaitForEnd();
  }

  // Returns the output of a director that rejects the folder.
  std::string RejectionOutput() const {
    DirectorProcess director(folder_, kFlags);
    if (director.is_listening()) return "it serves";
    EXPECT_EQ(director.WaitForEnd(), kRejected);
    return director.process().Output();
  }
  // The same; also checks that every file is unchanged.
  std::string RejectionWithUnchangedFiles() const {
    const auto before = ContentsOf(folder_);
    std::string output = RejectionOutput();
    EXPECT_EQ(ContentsOf(folder_), before);
    return output;
  }

  // Matches a text that names the file and the next step.
  auto NamesFile(const std::filesystem::path& file) const {
    return AllOf(HasSubstr(file.string()),
                 HasSubstr("`callboard db verify --data_dir=" + folder_.string() + "`"),
                 HasSubstr("`callboard db restore`"));
  }

  std::filesystem::path Log() const { return test::NewestFile(folder_, ".log"); }

  static const std::vector<std::string> kFlags;

  const std::filesystem::path folder_ = test::NewFolder();
  const std::filesystem::path events_ = folder_ / "events";
  const std::filesystem::path high_water_ = folder_ / "HIGHWATER";
  std::atomic<uint64_t> tick_ = 0;
  History history_;
};

const std::vector<std::string> DamageTest::kFlags = {"--queue.max_size=0"};

TEST_F(DamageTest, OneFlippedBitInTheLogIsRejected) {
  const std::filesystem::path log = Log();
  test::FlipBit(log, 0.5);
  EXPECT_THAT(RejectionWithUnchangedFiles(),
              AllOf(NamesFile(high_water_), HasSubstr(log.filename())));
}

TEST_F(DamageTest, TruncatedLogIsRejected) {
  // More than the last commit, which may have been answered while the high water was being synced.
  std::filesystem::resize_file(Log(), test::RecordsBytes(Log()) / 2);
  EXPECT_THAT(RejectionWithUnchangedFiles(),
              AllOf(NamesFile(events_), HasSubstr("committed writes are missing")));
}

TEST_F(DamageTest, DeletedLogIsRejected) {
  std::filesystem::remove(Log());
  EXPECT_THAT(RejectionWithUnchangedFiles(),
              AllOf(NamesFile(events_), HasSubstr("committed writes are missing")));
}

TEST_F(DamageTest, DeletedHighWaterIsRejected) {
  std::filesystem::remove(high_water_);
  EXPECT_THAT(RejectionWithUnchangedFiles(),
              AllOf(NamesFile(high_water_), HasSubstr("is missing")));
}

TEST_F(DamageTest, DeletedEventsAreRejected) {
  std::filesystem::remove_all(events_);
  EXPECT_THAT(RejectionWithUnchangedFiles(), AllOf(NamesFile(events_), HasSubstr("is missing")));
}

TEST_F(DamageTest, OldCopyOfTheEventsIsRejected) {
  const std::filesystem::path copy = test::NewFolder();
  std::filesystem::copy(events_, copy, std::filesystem::copy_options::recursive);
  RunUnderLoadAndKill("second");
  std::filesystem::remove_all(events_);
  std::filesystem::rename(copy, events_);
  EXPECT_THAT(RejectionWithUnchangedFiles(),
              AllOf(NamesFile(events_), HasSubstr("committed writes are missing")));
}

TEST_F(DamageTest, ImpossibleRecordIsRejected) {
  {
    const auto stores = store::RocksDbStoreOpener::Lock({folder_});
    const auto store = (*stores)->Open(ports::StoreAccess::kReadWrite);
    const core::Record record = test::StoredRecord(/*task=*/1, /*number=*/2, core::EventOnly{});
    CHECK_OK((*store)->Commit({&record, 1}));
  }
  EXPECT_THAT(RejectionOutput(), AllOf(HasSubstr(core::ToString(test::StoredId(1)) +
                                                 ": record 2 cannot follow record 0"),
                                       HasSubstr("`callboard db verify --data_dir=")));
}

TEST_F(DamageTest, UnacknowledgedTailIsDroppedAndLogged) {
  {
    std::fstream log(Log(), std::ios::binary | std::ios::in | std::ios::out);
    log.seekp(static_cast<std::streamoff>(test::RecordsBytes(Log())));
    log << "half a record";
  }
  DirectorProcess director(folder_, kFlags);
  ASSERT_TRUE(director.is_listening()) << director.process().Output();
  EXPECT_THAT(director.process().Output(), HasSubstr("store=tail_dropped"));
  const CheckResult check_result =
      CheckHistory(history_, *QueueClient(director.address()).FindAll());
  EXPECT_TRUE(check_result.ok()) << check_result.ToString();
}

TEST_F(DamageTest, CheckpointCanReplaceTheStore) {
  const std::filesystem::path checkpoint = folder_ / "checkpoints" / "first";
  std::filesystem::remove_all(events_);
  std::filesystem::rename(checkpoint / "events", events_);
  std::filesystem::rename(checkpoint / "HIGHWATER", high_water_);
  DirectorProcess director(folder_, kFlags);
  ASSERT_TRUE(director.is_listening()) << director.process().Output();
  const CheckResult check_result =
      CheckHistory(history_, *QueueClient(director.address()).FindAll());
  // Later tasks are lost; nothing else is wrong.
  EXPECT_EQ(check_result.unexpected.size() + check_result.duplicated.size() +
                check_result.reordered.size(),
            0u)
      << check_result.ToString();
  EXPECT_LT(check_result.lost.size(), check_result.acknowledged);
}

TEST_F(DamageTest, SecondDirectorOnAFolderExits) {
  DirectorProcess first(folder_, kFlags);
  ASSERT_TRUE(first.is_listening());
  DirectorProcess second(folder_, kFlags);
  EXPECT_EQ(second.WaitForEnd(), kLocked);
  EXPECT_THAT(second.process().Output(), HasSubstr("another director uses " + folder_.string()));
  EXPECT_TRUE(QueueClient(first.address()).Submit("one more", "text").ok());
}

}  // namespace
}  // namespace callboard::crash
