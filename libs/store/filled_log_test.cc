#include "libs/store/database.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rocksdb/db.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <memory>
#include <string>

#include "libs/store/store_files.h"
#include "libs/testing/files.h"
#include "libs/testing/status_matchers.h"

namespace callboard::store {
namespace {

using test::IsOk;
using ::testing::EndsWith;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr size_t kFilledBytes = 1 << 20;
const std::string kZero(1, '\0');

class FilledLogTest : public testing::Test {
 protected:
  std::unique_ptr<rocksdb::DB> Create() {
    auto db = CreateDatabase(folder_);
    EXPECT_THAT(db, IsOk());
    return *std::move(db);
  }
  // Returns the content of the newest log.
  std::string LogText() const {
    std::string newest;
    for (const auto& file : std::filesystem::directory_iterator(folder_)) {
      if (file.path().extension() == ".log") newest = std::max(newest, file.path().string());
    }
    return test::FileText(newest);
  }
  static rocksdb::Status Put(rocksdb::DB& db, const std::string& key, const std::string& value) {
    rocksdb::WriteOptions synced;
    synced.sync = true;
    return db.Put(synced, key, value);
  }

  const std::filesystem::path parent_ = test::NewFolder();
  const std::filesystem::path folder_ = parent_ / "db";
};

TEST_F(FilledLogTest, AppendingARecordDoesNotGrowTheLog) {
  const auto db = Create();
  ASSERT_TRUE(Put(*db, "key 1", "first").ok());
  const std::string before = LogText();
  ASSERT_TRUE(Put(*db, "key 2", "second").ok());
  const std::string after = LogText();
  EXPECT_GT(before.size(), kFilledBytes);
  EXPECT_EQ(after.size(), before.size());
  EXPECT_THAT(after, EndsWith(kZero));
  EXPECT_NE(after, before);
}

TEST_F(FilledLogTest, LogGrowsWhenItsZerosAreUsedUp) {
  const auto db = Create();
  ASSERT_TRUE(Put(*db, "key 1", std::string(3 * kFilledBytes, 'x')).ok());
  EXPECT_GT(LogText().size(), 3 * kFilledBytes);
  EXPECT_THAT(LogText(), EndsWith(kZero));
}

TEST_F(FilledLogTest, ClosedLogEndsWithItsLastRecord) {
  auto db = Create();
  ASSERT_TRUE(Put(*db, "key", "value").ok());
  ASSERT_TRUE(db->Close().ok());
  db.reset();
  EXPECT_THAT(LogText(), EndsWith("value"));
}

TEST_F(FilledLogTest, ZerosAfterACrashAreReadWithoutWarnings) {
  const auto db = Create();
  // Records across several blocks of the log, and one at the end of a block.
  for (const size_t size : {size_t{10}, size_t{100'000}, size_t{32'000}}) {
    ASSERT_TRUE(Put(*db, "key " + std::to_string(size), std::string(size, 'x')).ok());
  }
  ASSERT_THAT(LogText(), EndsWith(kZero));
  const std::filesystem::path crashed = parent_ / "crashed";
  ASSERT_THAT(CopyAll(folder_, crashed), IsOk());
  const auto read = OpenReadOnly(crashed);
  ASSERT_THAT(read, IsOk());
  EXPECT_THAT(read->warnings, IsEmpty());
  EXPECT_EQ(read->db->GetLatestSequenceNumber(), db->GetLatestSequenceNumber());
  EXPECT_THAT(OpenReadWrite(crashed), IsOk());
}

// Limits the size of files, like a disk with little free space.
class SmallFilesTest : public FilledLogTest {
 protected:
  SmallFilesTest() {
    std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit small = {.rlim_cur = kFilledBytes / 2, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
  }
  ~SmallFilesTest() override { setrlimit(RLIMIT_FSIZE, &before_); }

  rlimit before_;
};

TEST_F(SmallFilesTest, RecordsAreWrittenWhenThereIsNoRoomForZeros) {
  const auto db = Create();
  const std::string value(kFilledBytes / 16, 'x');
  for (int i = 0; i < 7; ++i) EXPECT_TRUE(Put(*db, std::to_string(i), value).ok()) << i;
  EXPECT_THAT(LogText(), Not(IsEmpty()));
  EXPECT_TRUE(Put(*db, "8", value + value).IsIOError());
}

}  // namespace
}  // namespace callboard::store
