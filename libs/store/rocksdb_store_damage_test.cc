// Opening a store whose files were damaged.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rocksdb/db.h>
#include <spdlog/sinks/ostream_sink.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "libs/base/check.h"
#include "libs/base/log.h"
#include "libs/store/database.h"
#include "libs/store/rocksdb_store.h"
#include "libs/store/store_files.h"
#include "libs/testing/files.h"
#include "libs/testing/status_matchers.h"
#include "libs/testing/stored_records.h"

namespace callboard::store {
namespace {

using ports::StoreAccess;
using test::FileText;
using test::FlipBit;
using test::HasReason;
using test::IsOk;
using test::StatusIs;
using testing::HasSubstr;
using Records = std::vector<core::Record>;

void SetFileText(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

class StoreDamageTest : public testing::Test {
 protected:
  // Opens the store, makes `commits` commits, and closes it. Adds the records to `expected_`.
  void Write(int commits) {
    const std::unique_ptr<RocksDbStoreOpener> opener = *RocksDbStoreOpener::Lock({folder_});
    const auto store = opener->Open(StoreAccess::kReadWrite);
    ASSERT_THAT(store, IsOk());
    for (int i = 0; i < commits; ++i) {
      core::TaskRecord record = {.queue_id = core::QueueId(core::Ulid(1, 1)),
                                 .change = core::EventOnly()};
      record.number = expected_.size() + 1;
      record.event.number = record.number + 1;
      record.event.why = std::string(50, 'y');
      expected_.push_back(record);
      ASSERT_THAT((*store)->Commit({&expected_.back(), 1}), IsOk());
    }
  }

  // Opens and loads the store, like a director.
  absl::StatusOr<Records> Load(StoreAccess access = StoreAccess::kReadWrite) const {
    const std::unique_ptr<RocksDbStoreOpener> opener = *RocksDbStoreOpener::Lock({folder_});
    auto store = opener->Open(access);
    if (!store.ok()) return store.status();
    return test::StoredRecords(**store);
  }

  // Returns the error of opening the store. Checks that it is the same for reading and for writing,
  // and that no file changes.
  absl::Status OpenError() const {
    const auto before = Contents();
    const absl::Status status = Load(StoreAccess::kReadOnly).status();
    EXPECT_EQ(Load(StoreAccess::kReadWrite).status(), status);
    EXPECT_EQ(Contents(), before);
    return status;
  }

  // Matches an error for damage whose message contains `what` and the next step.
  auto IsDamage(const std::string& what) const {
    const std::string advice = "`callboard db verify --data_dir=" + folder_.string() + "`";
    return testing::AllOf(
        StatusIs(absl::StatusCode::kDataLoss, testing::AllOf(HasSubstr(what), HasSubstr(advice))),
        HasReason(std::string(ports::kStoreRefused)));
  }

  std::map<std::string, std::string> Contents() const {
    std::map<std::string, std::string> contents;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_)) {
      if (entry.is_regular_file()) contents[entry.path()] = FileText(entry.path());
    }
    return contents;
  }

  void Restore(const std::map<std::string, std::string>& contents) const {
    std::filesystem::remove_all(events_);
    std::filesystem::create_directories(events_);
    for (const auto& [path, text] : contents) SetFileText(path, text);
  }

  std::filesystem::path Newest(const std::string& extension) const {
    return test::NewestFile(folder_, extension);
  }

  const std::filesystem::path folder_ = test::NewFolder();
  const std::filesystem::path events_ = folder_ / "events";
  const std::filesystem::path high_water_ = folder_ / "HIGHWATER";
  Records expected_;
};

TEST_F(StoreDamageTest, FlippedBitInTheLogIsRefusedWithTheFileName) {
  Write(200);
  const std::filesystem::path log = Newest(".log");
  FlipBit(log, 0.5);
  EXPECT_THAT(OpenError(), IsDamage(log.filename()));
  EXPECT_THAT(OpenError(), IsDamage("committed writes are missing"));
}

TEST_F(StoreDamageTest, TruncatedLogIsRefused) {
  Write(200);
  const std::filesystem::path log = Newest(".log");
  std::filesystem::resize_file(log, std::filesystem::file_size(log) - 10);
  EXPECT_THAT(OpenError(), IsDamage("ends at sequence 200, but " + high_water_.string() +
                                    " knows of 201: 1 committed writes are missing"));
}

TEST_F(StoreDamageTest, DeletedLogIsRefused) {
  Write(200);
  std::filesystem::remove(Newest(".log"));
  EXPECT_THAT(OpenError(), IsDamage("200 committed writes are missing"));
}

TEST_F(StoreDamageTest, OldDatabaseWithANewerHighWaterIsRefused) {
  Write(10);
  const std::filesystem::path copy = test::NewFolder();
  std::filesystem::copy(events_, copy, std::filesystem::copy_options::recursive);
  Write(5);
  std::filesystem::remove_all(events_);
  std::filesystem::rename(copy, events_);
  EXPECT_THAT(OpenError(), IsDamage("5 committed writes are missing"));
}

TEST_F(StoreDamageTest, MissingHighWaterIsRefused) {
  Write(1);
  std::filesystem::remove(high_water_);
  EXPECT_THAT(OpenError(), IsDamage(high_water_.string() + " is missing"));
}

TEST_F(StoreDamageTest, DamagedHighWaterIsRefused) {
  Write(1);
  test::FlipBitAt(high_water_, 20);
  test::FlipBitAt(high_water_, 4096 + 20);
  EXPECT_THAT(OpenError(), IsDamage(high_water_.string() + " is damaged"));
}

TEST_F(StoreDamageTest, MissingDatabaseIsRefused) {
  Write(1);
  std::filesystem::remove_all(events_);
  EXPECT_THAT(OpenError(), IsDamage(events_.string() + " is missing"));
}

TEST_F(StoreDamageTest, FlippedBitInATableIsRefusedWithTheFileName) {
  Write(200);
  // Opening the store moves the content of the log into a table.
  Write(0);
  const std::filesystem::path table = Newest(".sst");
  test::FlipBitAt(table, std::filesystem::file_size(table) / 3);
  EXPECT_THAT(Load().status(), IsDamage(table.filename()));
}

TEST_F(StoreDamageTest, DamageAnywhereIsRefusedOrHarmless) {
  Write(20);
  Write(20);
  const auto undamaged = Contents();
  int refused = 0;
  for (const auto& [path, text] : undamaged) {
    for (const double place : {0.02, 0.3, 0.5, 0.7, 0.98}) {
      if (text.empty()) continue;
      FlipBit(path, place);
      const absl::StatusOr<Records> loaded = Load();
      if (loaded.ok()) {
        EXPECT_EQ(*loaded, expected_) << path << " at " << place;
      } else {
        ++refused;
        EXPECT_THAT(loaded, HasReason(std::string(ports::kStoreRefused)))
            << path << " at " << place;
      }
      Restore(undamaged);
    }
  }
  EXPECT_GT(refused, 5);
}

TEST_F(StoreDamageTest, MissingFileIsRefusedOrHarmless) {
  Write(20);
  Write(20);
  const auto undamaged = Contents();
  int refused = 0;
  for (const auto& [path, text] : undamaged) {
    std::filesystem::remove(path);
    const absl::StatusOr<Records> loaded = Load();
    if (loaded.ok()) {
      EXPECT_EQ(*loaded, expected_) << path;
    } else {
      ++refused;
      EXPECT_THAT(loaded, HasReason(std::string(ports::kStoreRefused))) << path;
    }
    Restore(undamaged);
  }
  // The high water, the log, tables, the manifest, and CURRENT.
  EXPECT_GE(refused, 5);
}

// ---- Damage without loss ------------------------------------------------------------------------

// Captures the log while the object lives.
class LoggedText {
 public:
  LoggedText() {
    base::StartLogging({.sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(text_)});
  }
  ~LoggedText() { base::StartLogging({}); }

  std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
};

TEST_F(StoreDamageTest, GarbageAfterTheLastCommitIsDroppedWithAWarning) {
  Write(20);
  const std::filesystem::path log = Newest(".log");
  SetFileText(log, FileText(log) + std::string(30, 'g'));
  const LoggedText logged;
  const absl::StatusOr<Records> loaded = Load();
  ASSERT_THAT(loaded, IsOk());
  EXPECT_EQ(*loaded, expected_);
  EXPECT_THAT(logged.text(), testing::AllOf(HasSubstr("tail_dropped"), HasSubstr("dropping"),
                                            HasSubstr(log.filename())));
}

TEST_F(StoreDamageTest, PartialUnacknowledgedCommitIsDropped) {
  Write(20);
  const std::string high_water = FileText(high_water_);
  const Records acknowledged = expected_;
  Write(1);
  const std::filesystem::path log = Newest(".log");
  const std::string undamaged = FileText(log);
  SetFileText(high_water_, high_water);
  for (size_t size = 0; size < undamaged.size(); ++size) {
    SetFileText(log, undamaged.substr(0, size));
    const absl::StatusOr<Records> loaded = Load(StoreAccess::kReadOnly);
    ASSERT_THAT(loaded, IsOk()) << size;
    EXPECT_EQ(*loaded, acknowledged) << size;
  }
  SetFileText(log, undamaged);
  EXPECT_EQ(*Load(), expected_);
}

TEST_F(StoreDamageTest, CommitMissingOnlyFromTheHighWaterIsKept) {
  Write(5);
  const std::string high_water = FileText(high_water_);
  Write(5);
  SetFileText(high_water_, high_water);
  EXPECT_EQ(*Load(), expected_);
  // Opening the store raises the high water.
  EXPECT_EQ(**HighWater::Read(high_water_), 1 + expected_.size());
}

// ---- Versions and creation ----------------------------------------------------------------------

TEST_F(StoreDamageTest, NewerFormatIsRefused) {
  Write(1);
  CHECK((*OpenReadWrite(events_))->Put(rocksdb::WriteOptions(), "format", "4").ok());
  const auto before = Contents();
  EXPECT_THAT(
      Load(),
      StatusIs(
          absl::StatusCode::kFailedPrecondition,
          HasSubstr("newer version; use that version (format 4, this version reads format 3)")));
  EXPECT_THAT(Load(), HasReason(std::string(ports::kStoreRefused)));
  EXPECT_EQ(Contents(), before);
}

TEST_F(StoreDamageTest, DatabaseWithoutAFormatIsRefused) {
  Write(1);
  CHECK((*OpenReadWrite(events_))->Delete(rocksdb::WriteOptions(), "format").ok());
  EXPECT_THAT(OpenError(), IsDamage("has no format number"));
}

TEST_F(StoreDamageTest, InterruptedCreationIsRestarted) {
  SetFileText(high_water_.string() + ".new", "half");
  EXPECT_THAT(Load(), IsOk()) << "cut short in the high water";

  std::filesystem::remove_all(events_);
  CHECK_OK(HighWater::Create(high_water_, 0));
  EXPECT_THAT(Load(), IsOk()) << "cut short after the high water";

  std::filesystem::remove_all(events_);
  CHECK_OK(HighWater::Create(high_water_, 0));
  std::filesystem::create_directories(events_.string() + ".new");
  SetFileText(events_.string() + ".new/CURRENT", "half");
  EXPECT_THAT(Load(), IsOk()) << "cut short in the database";

  CHECK_OK(HighWater::Create(high_water_, 0));
  Write(3);
  EXPECT_EQ(*Load(), expected_) << "cut short before the first commit";
}

}  // namespace
}  // namespace callboard::store
