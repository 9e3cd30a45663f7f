#include "libs/store/rocksdb_store.h"

#include <sys/resource.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/base/check.h"
#include "libs/testing/event_store_contract.h"
#include "libs/testing/files.h"
#include "libs/testing/stored_records.h"

namespace callboard::test {

struct RocksDbHarness {
  RocksDbHarness() {
    auto locked = store::RocksDbStoreOpener::Lock({NewFolder()});
    CHECK_OK(locked.status());
    opener = *std::move(locked);
  }
  ports::EventStoreOpener& stores() { return *opener; }

  std::unique_ptr<store::RocksDbStoreOpener> opener;
};

INSTANTIATE_TYPED_TEST_SUITE_P(RocksDb, EventStoreContractTest, RocksDbHarness);

}  // namespace callboard::test

namespace callboard::store {
namespace {

using ports::StoreAccess;
using test::HasReason;
using test::IsOk;
using test::StatusIs;

std::unique_ptr<RocksDbStoreOpener> Lock(const std::filesystem::path& folder) {
  auto opener = RocksDbStoreOpener::Lock({folder});
  CHECK_OK(opener.status());
  return *std::move(opener);
}

std::unique_ptr<ports::EventStore> Open(RocksDbStoreOpener& opener) {
  auto store = opener.Open(StoreAccess::kReadWrite);
  CHECK_OK(store.status());
  return *std::move(store);
}

// Returns the epoch of the store in a folder.
uint64_t EpochIn(const std::filesystem::path& folder) {
  uint64_t epoch = 0;
  const std::unique_ptr<RocksDbStoreOpener> opener = Lock(folder);
  const std::vector<core::Record> records = *test::StoredRecords(*Open(*opener));
  for (const core::Record& record : records) {
    if (const auto* began = std::get_if<core::EpochBegan>(&record)) epoch = began->epoch;
  }
  return epoch;
}

absl::Status Commit(ports::EventStore& store, const core::Record& record) {
  return store.Commit({&record, 1});
}

TEST(RocksDbStoreTest, FolderHasOneOwner) {
  const std::filesystem::path folder = test::NewFolder();
  std::unique_ptr<RocksDbStoreOpener> first = Lock(folder);
  EXPECT_THAT(RocksDbStoreOpener::Lock({folder}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       testing::HasSubstr("another director uses " + folder.string())));
  EXPECT_THAT(RocksDbStoreOpener::Lock({folder}), HasReason(std::string(ports::kStoreLocked)));
  first.reset();
  EXPECT_THAT(RocksDbStoreOpener::Lock({folder}), IsOk());
}

TEST(RocksDbStoreTest, LockCreatesOnlyTheLockFile) {
  const std::filesystem::path folder = test::NewFolder();
  const std::unique_ptr<RocksDbStoreOpener> opener = Lock(folder);
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename());
  }
  EXPECT_THAT(names, testing::ElementsAre("LOCK"));
}

TEST(RocksDbStoreTest, LockDoesNotCreateAMissingFolder) {
  const std::filesystem::path folder = test::NewFolder() / "missing";
  EXPECT_THAT(RocksDbStoreOpener::Lock({folder}), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST(RocksDbStoreTest, OpeningForReadingCreatesNothing) {
  const std::filesystem::path folder = test::NewFolder();
  const std::unique_ptr<RocksDbStoreOpener> opener = Lock(folder);
  EXPECT_THAT(opener->Open(StoreAccess::kReadOnly), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_FALSE(std::filesystem::exists(folder / "events"));
  EXPECT_FALSE(std::filesystem::exists(folder / "HIGHWATER"));
}

// While the object lives, writes beyond the first `bytes` bytes of a file fail.
class SmallFiles {
 public:
  explicit SmallFiles(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit small = {bytes, before_.rlim_max};
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  }
  ~SmallFiles() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_ = {};
};

TEST(RocksDbStoreTest, CommitsFailAfterAFailedCommit) {
  const std::filesystem::path folder = test::NewFolder();
  const std::unique_ptr<RocksDbStoreOpener> opener = Lock(folder);
  std::unique_ptr<ports::EventStore> store = Open(*opener);
  ASSERT_THAT(Commit(*store, core::EpochBegan{1}), IsOk());
  {
    const SmallFiles small(100'000);
    const core::AgentMarked large = {"agent", false, std::string(1'000'000, 'x')};
    EXPECT_THAT(Commit(*store, large), StatusIs(absl::StatusCode::kUnavailable));
  }
  EXPECT_THAT(Commit(*store, core::EpochBegan{2}), StatusIs(absl::StatusCode::kUnavailable));
  store.reset();
  store = Open(*opener);
  EXPECT_THAT(Commit(*store, core::EpochBegan{3}), IsOk());
}

TEST(RocksDbStoreTest, CommitFailsWhenTheHighWaterCannotBeWritten) {
  const std::filesystem::path folder = test::NewFolder();
  const std::unique_ptr<RocksDbStoreOpener> opener = Lock(folder);
  std::unique_ptr<ports::EventStore> store;
  absl::Status status;
  // Every opening continues with the other slot.
  for (uint64_t epoch = 1; status.ok() && epoch <= 10; ++epoch) {
    store.reset();
    store = Open(*opener);
    // Enough for the log, but too little for the second slot of the high water.
    const SmallFiles small(4'000);
    status = Commit(*store, core::EpochBegan{epoch});
  }
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable, testing::HasSubstr("HIGHWATER")));
  EXPECT_THAT(Commit(*store, core::EpochBegan{9}), StatusIs(absl::StatusCode::kUnavailable));
  store.reset();
  EXPECT_THAT(opener->Open(StoreAccess::kReadWrite), IsOk());
}

TEST(RocksDbStoreTest, FirstRecordMustBeginATask) {
  const std::unique_ptr<RocksDbStoreOpener> opener = Lock(test::NewFolder());
  const std::unique_ptr<ports::EventStore> store = Open(*opener);
  core::TaskRecord record = {.queue_id = core::QueueId(core::Ulid(1, 2)),
                             .change = core::EventOnly()};
  record.number = 1;
  record.event.number = 2;
  ASSERT_THAT(Commit(*store, record), IsOk());
  EXPECT_THAT(store->Spec(record.queue_id), HasReason(std::string(ports::kStoreRefused)));
}

// ---- A data folder that disappears --------------------------------------------------------------

TEST(RocksDbStoreTest, CommitFailsWhenTheDataFolderIsGone) {
  const std::filesystem::path folder = test::NewFolder();
  const std::unique_ptr<RocksDbStoreOpener> opener = Lock(folder);
  const std::unique_ptr<ports::EventStore> store = Open(*opener);
  ASSERT_THAT(Commit(*store, core::EpochBegan{1}), IsOk());
  std::filesystem::remove_all(folder);
  EXPECT_THAT(Commit(*store, core::EpochBegan{2}),
              StatusIs(absl::StatusCode::kUnavailable,
                       testing::HasSubstr("HIGHWATER was removed or replaced")));
}

TEST(RocksDbStoreTest, CommitFailsWhenTheDataFolderWasReplaced) {
  const std::filesystem::path folder = test::NewFolder();
  const std::unique_ptr<RocksDbStoreOpener> opener = Lock(folder);
  const std::unique_ptr<ports::EventStore> store = Open(*opener);
  const std::filesystem::path aside = folder.string() + ".aside";
  std::filesystem::rename(folder, aside);
  std::filesystem::copy(aside, folder, std::filesystem::copy_options::recursive);
  EXPECT_THAT(Commit(*store, core::EpochBegan{1}), StatusIs(absl::StatusCode::kUnavailable));
}

TEST(RocksDbStoreTest, MissingStoreIsNotRecreatedByTheSameProcess) {
  const std::filesystem::path folder = test::NewFolder();
  const std::unique_ptr<RocksDbStoreOpener> opener = Lock(folder);
  Open(*opener);
  std::filesystem::remove_all(folder);
  std::filesystem::create_directory(folder);
  EXPECT_THAT(opener->Open(StoreAccess::kReadWrite),
              StatusIs(absl::StatusCode::kUnavailable, testing::HasSubstr("LOCK was removed")));
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

TEST(RocksDbStoreTest, MissingStoreFilesAreNotRecreatedByTheSameProcess) {
  const std::filesystem::path folder = test::NewFolder();
  const std::unique_ptr<RocksDbStoreOpener> opener = Lock(folder);
  Open(*opener);
  std::filesystem::remove_all(folder / "events");
  std::filesystem::remove(folder / "HIGHWATER");
  EXPECT_THAT(opener->Open(StoreAccess::kReadWrite), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_FALSE(std::filesystem::exists(folder / "events"));
}

TEST(RocksDbStoreTest, FolderThatWasMovedBackCanBeOpenedAgain) {
  const std::filesystem::path folder = test::NewFolder();
  const std::unique_ptr<RocksDbStoreOpener> opener = Lock(folder);
  std::unique_ptr<ports::EventStore> store = Open(*opener);
  const std::filesystem::path aside = folder.string() + ".aside";
  std::filesystem::rename(folder, aside);
  EXPECT_THAT(Commit(*store, core::EpochBegan{1}), StatusIs(absl::StatusCode::kUnavailable));
  store.reset();
  std::filesystem::rename(aside, folder);
  store = Open(*opener);
  EXPECT_THAT(Commit(*store, core::EpochBegan{2}), IsOk());
}

// ---- Checkpoints --------------------------------------------------------------------------------

TEST(RocksDbStoreTest, CheckpointIsACompleteDataFolder) {
  const std::unique_ptr<RocksDbStoreOpener> opener = Lock(test::NewFolder());
  const std::unique_ptr<ports::EventStore> store = Open(*opener);
  ASSERT_THAT(Commit(*store, core::EpochBegan{1}), IsOk());
  const auto checkpoint = store->CreateCheckpoint("monday");
  ASSERT_THAT(checkpoint, IsOk());
  ASSERT_THAT(Commit(*store, core::EpochBegan{2}), IsOk());

  EXPECT_EQ(EpochIn(checkpoint->path), 1u);
  // Two writes: the format and the epoch.
  EXPECT_EQ(checkpoint->sequence, 2u);
  EXPECT_GT(checkpoint->size_bytes, 4096u);
}

TEST(RocksDbStoreTest, InvalidCheckpointNamesAreRejected) {
  const std::unique_ptr<RocksDbStoreOpener> opener = Lock(test::NewFolder());
  const std::unique_ptr<ports::EventStore> store = Open(*opener);
  for (const std::string& name :
       {std::string(), std::string("."), std::string(".."), std::string("a/b"),
        std::string(".building"), std::string("a\0b", 3), std::string(129, 'a')}) {
    const auto checkpoint = store->CreateCheckpoint(name);
    EXPECT_THAT(checkpoint, StatusIs(absl::StatusCode::kInvalidArgument));
    EXPECT_THAT(checkpoint, test::HasReason("INVALID_FIELD"));
  }
  EXPECT_THAT(store->CreateCheckpoint(std::string(128, 'a')), IsOk());
}

TEST(RocksDbStoreTest, CheckpointNameCanBeUsedOnce) {
  const std::unique_ptr<RocksDbStoreOpener> opener = Lock(test::NewFolder());
  const std::unique_ptr<ports::EventStore> store = Open(*opener);
  ASSERT_THAT(store->CreateCheckpoint("monday"), IsOk());
  EXPECT_THAT(store->CreateCheckpoint("monday"), test::HasReason("CHECKPOINT_EXISTS"));
}

TEST(RocksDbStoreTest, LeftoversOfACheckpointAreRemovedByTheNext) {
  const std::filesystem::path folder = test::NewFolder();
  const std::unique_ptr<RocksDbStoreOpener> opener = Lock(folder);
  const std::unique_ptr<ports::EventStore> store = Open(*opener);
  std::filesystem::create_directories(folder / "checkpoints/.building/events");
  EXPECT_THAT(store->CreateCheckpoint("one"), IsOk());
  EXPECT_FALSE(std::filesystem::exists(folder / "checkpoints/.building"));
}

TEST(RocksDbStoreTest, FailedCheckpointLeavesNoFilesAndCommitsContinue) {
  const std::filesystem::path folder = test::NewFolder();
  const std::unique_ptr<RocksDbStoreOpener> opener = Lock(folder);
  const std::unique_ptr<ports::EventStore> store = Open(*opener);
  ASSERT_THAT(Commit(*store, core::AgentMarked{"agent", false, std::string(100'000, 'x')}), IsOk());
  {
    const SmallFiles small(50'000);
    EXPECT_THAT(store->CreateCheckpoint("one"), StatusIs(absl::StatusCode::kUnavailable));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder / "checkpoints"));
  EXPECT_THAT(Commit(*store, core::EpochBegan{1}), IsOk());
  EXPECT_THAT(store->CreateCheckpoint("one"), IsOk());
}

TEST(RocksDbStoreTest, CheckpointDuringCommitsIsComplete) {
  const std::unique_ptr<RocksDbStoreOpener> opener = Lock(test::NewFolder());
  const std::unique_ptr<ports::EventStore> store = Open(*opener);
  std::atomic<bool> done = false;
  std::thread committer([&] {
    const core::AgentMarked large = {"agent", false, std::string(100'000, 'x')};
    for (uint64_t epoch = 1; !done; ++epoch) {
      const core::Record batch[] = {core::EpochBegan{epoch}, large};
      CHECK_OK(store->Commit(batch));
    }
  });
  std::vector<ports::Checkpoint> checkpoints;
  for (int i = 0; i < 5; ++i) {
    const auto checkpoint = store->CreateCheckpoint(absl::StrCat("checkpoint-", i));
    ASSERT_THAT(checkpoint, IsOk());
    checkpoints.push_back(*checkpoint);
  }
  done = true;
  committer.join();
  for (const ports::Checkpoint& checkpoint : checkpoints) {
    // One write for the format, then two for each epoch.
    EXPECT_GE(EpochIn(checkpoint.path), (checkpoint.sequence - 1) / 2);
  }
}

TEST(RocksDbStoreTest, ReadOnlyStoreCannotCreateCheckpoints) {
  const std::unique_ptr<RocksDbStoreOpener> opener = Lock(test::NewFolder());
  Open(*opener);
  const auto store = opener->Open(StoreAccess::kReadOnly);
  ASSERT_THAT(store, IsOk());
  EXPECT_THAT((*store)->CreateCheckpoint("one"), StatusIs(absl::StatusCode::kFailedPrecondition));
}

}  // namespace
}  // namespace callboard::store
