// Folders that were damaged while no director ran, and the director that finds them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "libs/adapters/rocksdb_store/rocksdb_store.h"
#include "libs/base/check.h"
#include "libs/testing/damage.h"
#include "libs/testing/new_folder.h"
#include "libs/testing/stored_tasks.h"
#include "tests/crash/director_process.h"
#include "tests/crash/disk_image.h"
#include "tests/crash/history_checker.h"
#include "tests/crash/load.h"
#include "tests/crash/queue_client.h"

namespace callboard::crash {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// What docs/OPERATIONS.md and supervisors know.
constexpr int kRefused = 65;
constexpr int kLocked = 75;

class DamageTest : public testing::Test {
 protected:
  void SetUp() override { LiveUnderLoad("first"); }

  // A director that takes some load and is killed.
  void LiveUnderLoad(const std::string& name) {
    DirectorProcess director(folder_, kFlags);
    const Load load = {.name = name};
    for (Call& call : RunLoad(load, director.address(), [this] { return ++tick_; })) {
      history_.push_back(std::move(call));
    }
    director.process().Signal(SIGKILL);
    director.WaitForEnd();
  }

  // The last words of a director that refuses the folder.
  std::string LastWords() const {
    DirectorProcess director(folder_, kFlags);
    if (director.is_listening()) return "it serves";
    EXPECT_EQ(director.WaitForEnd(), kRefused);
    return director.process().Output();
  }
  // The same, when it leaves every file as it is.
  std::string Refusal() const {
    const auto before = ContentsOf(folder_);
    std::string words = LastWords();
    EXPECT_EQ(ContentsOf(folder_), before);
    return words;
  }

  // Names the file, and what to do.
  auto Names(const std::filesystem::path& file) const {
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

TEST_F(DamageTest, OneFlippedBitInTheLogIsRefused) {
  const std::filesystem::path log = Log();
  test::FlipBit(log, 0.5);
  EXPECT_THAT(Refusal(), AllOf(Names(high_water_), HasSubstr(log.filename())));
}

TEST_F(DamageTest, TruncatedLogIsRefused) {
  // Not only the last commit, which may have been answered while the high water was being synced.
  std::filesystem::resize_file(Log(), test::RecordsBytes(Log()) / 2);
  EXPECT_THAT(Refusal(), AllOf(Names(events_), HasSubstr("committed writes are missing")));
}

TEST_F(DamageTest, DeletedLogIsRefused) {
  std::filesystem::remove(Log());
  EXPECT_THAT(Refusal(), AllOf(Names(events_), HasSubstr("committed writes are missing")));
}

TEST_F(DamageTest, DeletedHighWaterIsRefused) {
  std::filesystem::remove(high_water_);
  EXPECT_THAT(Refusal(), AllOf(Names(high_water_), HasSubstr("is missing")));
}

TEST_F(DamageTest, DeletedEventsAreRefused) {
  std::filesystem::remove_all(events_);
  EXPECT_THAT(Refusal(), AllOf(Names(events_), HasSubstr("is missing")));
}

TEST_F(DamageTest, OldCopyOfTheEventsIsRefused) {
  const std::filesystem::path copy = test::NewFolder();
  std::filesystem::copy(events_, copy, std::filesystem::copy_options::recursive);
  LiveUnderLoad("second");
  std::filesystem::remove_all(events_);
  std::filesystem::rename(copy, events_);
  EXPECT_THAT(Refusal(), AllOf(Names(events_), HasSubstr("committed writes are missing")));
}

TEST_F(DamageTest, RecordThatNoDirectorCanHaveWrittenIsRefused) {
  {
    const auto stores = adapters::RocksDbStores::Lock({folder_});
    const auto store = (*stores)->Open(ports::StoreAccess::kReadWrite);
    const core::Record record = test::StoredRecord(/*task=*/1, /*number=*/2, core::Noted{});
    CHECK_OK((*store)->Commit({&record, 1}));
  }
  EXPECT_THAT(LastWords(), AllOf(HasSubstr(core::ToString(test::StoredId(1)) +
                                           ": record 2 comes after record 0"),
                                 HasSubstr("`callboard db verify --data_dir=")));
}

TEST_F(DamageTest, TailThatWasNeverAcknowledgedIsDroppedAloud) {
  {
    std::fstream log(Log(), std::ios::binary | std::ios::in | std::ios::out);
    log.seekp(static_cast<std::streamoff>(test::RecordsBytes(Log())));
    log << "half a record";
  }
  DirectorProcess director(folder_, kFlags);
  ASSERT_TRUE(director.is_listening()) << director.process().Output();
  EXPECT_THAT(director.process().Output(), HasSubstr("store=tail_dropped"));
  const Verdict verdict = CheckHistory(history_, *QueueClient(director.address()).FindAll());
  EXPECT_TRUE(verdict.ok()) << verdict.ToString();
}

TEST_F(DamageTest, CheckpointInThePlaceOfTheStoreServesWhatItHas) {
  const std::filesystem::path checkpoint = folder_ / "checkpoints" / "first";
  std::filesystem::remove_all(events_);
  std::filesystem::rename(checkpoint / "events", events_);
  std::filesystem::rename(checkpoint / "HIGHWATER", high_water_);
  DirectorProcess director(folder_, kFlags);
  ASSERT_TRUE(director.is_listening()) << director.process().Output();
  const Verdict verdict = CheckHistory(history_, *QueueClient(director.address()).FindAll());
  // What came after it is gone, and nothing else is wrong.
  EXPECT_EQ(verdict.unexpected.size() + verdict.duplicated.size() + verdict.reordered.size(), 0u)
      << verdict.ToString();
  EXPECT_LT(verdict.lost.size(), verdict.acknowledged);
}

TEST_F(DamageTest, SecondDirectorOnAFolderEndsAndTheFirstGoesOn) {
  DirectorProcess first(folder_, kFlags);
  ASSERT_TRUE(first.is_listening());
  DirectorProcess second(folder_, kFlags);
  EXPECT_EQ(second.WaitForEnd(), kLocked);
  EXPECT_THAT(second.process().Output(), HasSubstr("another director uses " + folder_.string()));
  EXPECT_TRUE(QueueClient(first.address()).Submit("one more", "text").ok());
}

}  // namespace
}  // namespace callboard::crash
