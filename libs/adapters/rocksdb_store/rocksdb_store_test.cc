#include "libs/adapters/rocksdb_store/rocksdb_store.h"

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
#include "libs/testing/new_folder.h"
#include "libs/testing/stored_records.h"

namespace callboard::test {

struct RocksDbHarness {
  RocksDbHarness() {
    auto locked = adapters::RocksDbStores::Lock({NewFolder()});
    CHECK_OK(locked.status());
    opener = *std::move(locked);
  }
  ports::EventStoreOpener& stores() { return *opener; }

  std::unique_ptr<adapters::RocksDbStores> opener;
};

INSTANTIATE_TYPED_TEST_SUITE_P(RocksDb, EventStoreContractTest, RocksDbHarness);

}  // namespace callboard::test

namespace callboard::adapters {
namespace {

using ports::StoreAccess;
using test::HasReason;
using test::IsOk;
using test::StatusIs;

std::unique_ptr<RocksDbStores> Lock(const std::filesystem::path& folder) {
  auto stores = RocksDbStores::Lock({folder});
  CHECK_OK(stores.status());
  return *std::move(stores);
}

std::unique_ptr<ports::EventStore> Open(RocksDbStores& stores) {
  auto store = stores.Open(StoreAccess::kReadWrite);
  CHECK_OK(store.status());
  return *std::move(store);
}

// The epoch that the store in a folder is in.
uint64_t EpochIn(const std::filesystem::path& folder) {
  uint64_t epoch = 0;
  const std::unique_ptr<RocksDbStores> stores = Lock(folder);
  const std::vector<core::Record> records = *test::StoredRecords(*Open(*stores));
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
  std::unique_ptr<RocksDbStores> first = Lock(folder);
  EXPECT_THAT(RocksDbStores::Lock({folder}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       testing::HasSubstr("another director uses " + folder.string())));
  EXPECT_THAT(RocksDbStores::Lock({folder}), HasReason(std::string(ports::kStoreLocked)));
  first.reset();
  EXPECT_THAT(RocksDbStores::Lock({folder}), IsOk());
}

TEST(RocksDbStoreTest, LockingCreatesTheLockAlone) {
  const std::filesystem::path folder = test::NewFolder();
  const std::unique_ptr<RocksDbStores> stores = Lock(folder);
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename());
  }
  EXPECT_THAT(names, testing::ElementsAre("LOCK"));
}

TEST(RocksDbStoreTest, FolderThatIsMissingIsNotCreated) {
  const std::filesystem::path folder = test::NewFolder() / "missing";
  EXPECT_THAT(RocksDbStores::Lock({folder}), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST(RocksDbStoreTest, OpeningForReadingCreatesNothing) {
  const std::filesystem::path folder = test::NewFolder();
  const std::unique_ptr<RocksDbStores> stores = Lock(folder);
  EXPECT_THAT(stores->Open(StoreAccess::kReadOnly), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_FALSE(std::filesystem::exists(folder / "events"));
  EXPECT_FALSE(std::filesystem::exists(folder / "HIGHWATER"));
}

// Makes every write beyond the first bytes of a file fail, while it lives.
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

TEST(RocksDbStoreTest, StoreTakesNothingAfterAFailedCommit) {
  const std::filesystem::path folder = test::NewFolder();
  const std::unique_ptr<RocksDbStores> stores = Lock(folder);
  std::unique_ptr<ports::EventStore> store = Open(*stores);
  ASSERT_THAT(Commit(*store, core::EpochBegan{1}), IsOk());
  {
    const SmallFiles small(100'000);
    const core::AgentMarked large = {"agent", false, std::string(1'000'000, 'x')};
    EXPECT_THAT(Commit(*store, large), StatusIs(absl::StatusCode::kUnavailable));
  }
  EXPECT_THAT(Commit(*store, core::EpochBegan{2}), StatusIs(absl::StatusCode::kUnavailable));
  store.reset();
  store = Open(*stores);
  EXPECT_THAT(Commit(*store, core::EpochBegan{3}), IsOk());
}

TEST(RocksDbStoreTest, CommitWithoutItsHighWaterHasFailed) {
  const std::filesystem::path folder = test::NewFolder();
  const std::unique_ptr<RocksDbStores> stores = Lock(folder);
  std::unique_ptr<ports::EventStore> store;
  absl::Status status;
  // Every opening goes on in the other slot.
  for (uint64_t epoch = 1; status.ok() && epoch <= 10; ++epoch) {
    store.reset();
    store = Open(*stores);
    // Enough for the log; too little for the second slot of the high water.
    const SmallFiles small(4'000);
    status = Commit(*store, core::EpochBegan{epoch});
  }
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable, testing::HasSubstr("HIGHWATER")));
  EXPECT_THAT(Commit(*store, core::EpochBegan{9}), StatusIs(absl::StatusCode::kUnavailable));
  store.reset();
  EXPECT_THAT(stores->Open(StoreAccess::kReadWrite), IsOk());
}

TEST(RocksDbStoreTest, FirstRecordThatBeginsNoTaskIsRefused) {
  const std::unique_ptr<RocksDbStores> stores = Lock(test::NewFolder());
  const std::unique_ptr<ports::EventStore> store = Open(*stores);
  core::TaskRecord record = {.queue_id = core::QueueId(core::Ulid(1, 2)), .change = core::Noted()};
  record.number = 1;
  record.event.number = 2;
  ASSERT_THAT(Commit(*store, record), IsOk());
  EXPECT_THAT(store->TaskSpec(record.queue_id), HasReason(std::string(ports::kStoreRefused)));
}

// ---- A data folder that vanishes ----------------------------------------------------------------

TEST(RocksDbStoreTest, CommitFailsWhenTheDataFolderIsGone) {
  const std::filesystem::path folder = test::NewFolder();
  const std::unique_ptr<RocksDbStores> stores = Lock(folder);
  const std::unique_ptr<ports::EventStore> store = Open(*stores);
  ASSERT_THAT(Commit(*store, core::EpochBegan{1}), IsOk());
  std::filesystem::remove_all(folder);
  EXPECT_THAT(Commit(*store, core::EpochBegan{2}),
              StatusIs(absl::StatusCode::kUnavailable,
                       testing::HasSubstr("HIGHWATER was removed or replaced")));
}

TEST(RocksDbStoreTest, CommitFailsWhenAnotherStoreTookThePlace) {
  const std::filesystem::path folder = test::NewFolder();
  const std::unique_ptr<RocksDbStores> stores = Lock(folder);
  const std::unique_ptr<ports::EventStore> store = Open(*stores);
  const std::filesystem::path aside = folder.string() + ".aside";
  std::filesystem::rename(folder, aside);
  std::filesystem::copy(aside, folder, std::filesystem::copy_options::recursive);
  EXPECT_THAT(Commit(*store, core::EpochBegan{1}), StatusIs(absl::StatusCode::kUnavailable));
}

TEST(RocksDbStoreTest, VanishedStoreIsNotCreatedAnewByTheSameProcess) {
  const std::filesystem::path folder = test::NewFolder();
  const std::unique_ptr<RocksDbStores> stores = Lock(folder);
  Open(*stores);
  std::filesystem::remove_all(folder);
  std::filesystem::create_directory(folder);
  EXPECT_THAT(stores->Open(StoreAccess::kReadWrite),
              StatusIs(absl::StatusCode::kUnavailable, testing::HasSubstr("LOCK was removed")));
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

TEST(RocksDbStoreTest, StoreWhoseFilesAloneVanishedIsNotCreatedAnewEither) {
  const std::filesystem::path folder = test::NewFolder();
  const std::unique_ptr<RocksDbStores> stores = Lock(folder);
  Open(*stores);
  std::filesystem::remove_all(folder / "events");
  std::filesystem::remove(folder / "HIGHWATER");
  EXPECT_THAT(stores->Open(StoreAccess::kReadWrite), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_FALSE(std::filesystem::exists(folder / "events"));
}

TEST(RocksDbStoreTest, FolderThatIsPutBackIsServedAgain) {
  const std::filesystem::path folder = test::NewFolder();
  const std::unique_ptr<RocksDbStores> stores = Lock(folder);
  std::unique_ptr<ports::EventStore> store = Open(*stores);
  const std::filesystem::path aside = folder.string() + ".aside";
  std::filesystem::rename(folder, aside);
  EXPECT_THAT(Commit(*store, core::EpochBegan{1}), StatusIs(absl::StatusCode::kUnavailable));
  store.reset();
  std::filesystem::rename(aside, folder);
  store = Open(*stores);
  EXPECT_THAT(Commit(*store, core::EpochBegan{2}), IsOk());
}

// ---- Checkpoints --------------------------------------------------------------------------------

TEST(RocksDbStoreTest, CheckpointIsADataFolderOfItsOwn) {
  const std::unique_ptr<RocksDbStores> stores = Lock(test::NewFolder());
  const std::unique_ptr<ports::EventStore> store = Open(*stores);
  ASSERT_THAT(Commit(*store, core::EpochBegan{1}), IsOk());
  const auto checkpoint = store->CreateCheckpoint("monday");
  ASSERT_THAT(checkpoint, IsOk());
  ASSERT_THAT(Commit(*store, core::EpochBegan{2}), IsOk());

  EXPECT_EQ(EpochIn(checkpoint->path), 1u);
  // The format and the epoch.
  EXPECT_EQ(checkpoint->sequence, 2u);
  EXPECT_GT(checkpoint->size_bytes, 4096u);
}

TEST(RocksDbStoreTest, CheckpointHasNoNameThatLeadsElsewhere) {
  const std::unique_ptr<RocksDbStores> stores = Lock(test::NewFolder());
  const std::unique_ptr<ports::EventStore> store = Open(*stores);
  for (const std::string& name :
       {std::string(), std::string("."), std::string(".."), std::string("a/b"),
        std::string(".building"), std::string("a\0b", 3), std::string(129, 'a')}) {
    const auto refused = store->CreateCheckpoint(name);
    EXPECT_THAT(refused, StatusIs(absl::StatusCode::kInvalidArgument));
    EXPECT_THAT(refused, test::HasReason("INVALID_FIELD"));
  }
  EXPECT_THAT(store->CreateCheckpoint(std::string(128, 'a')), IsOk());
}

TEST(RocksDbStoreTest, SecondCheckpointOfANameSaysThatThereIsOne) {
  const std::unique_ptr<RocksDbStores> stores = Lock(test::NewFolder());
  const std::unique_ptr<ports::EventStore> store = Open(*stores);
  ASSERT_THAT(store->CreateCheckpoint("monday"), IsOk());
  EXPECT_THAT(store->CreateCheckpoint("monday"), test::HasReason("CHECKPOINT_EXISTS"));
}

TEST(RocksDbStoreTest, LeftoversOfACheckpointAreRemovedByTheNext) {
  const std::filesystem::path folder = test::NewFolder();
  const std::unique_ptr<RocksDbStores> stores = Lock(folder);
  const std::unique_ptr<ports::EventStore> store = Open(*stores);
  std::filesystem::create_directories(folder / "checkpoints/.building/events");
  EXPECT_THAT(store->CreateCheckpoint("one"), IsOk());
  EXPECT_FALSE(std::filesystem::exists(folder / "checkpoints/.building"));
}

TEST(RocksDbStoreTest, FailedCheckpointLeavesNothingAndHarmsNoCommit) {
  const std::filesystem::path folder = test::NewFolder();
  const std::unique_ptr<RocksDbStores> stores = Lock(folder);
  const std::unique_ptr<ports::EventStore> store = Open(*stores);
  ASSERT_THAT(Commit(*store, core::AgentMarked{"agent", false, std::string(100'000, 'x')}), IsOk());
  {
    const SmallFiles small(50'000);
    EXPECT_THAT(store->CreateCheckpoint("one"), StatusIs(absl::StatusCode::kUnavailable));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder / "checkpoints"));
  EXPECT_THAT(Commit(*store, core::EpochBegan{1}), IsOk());
  EXPECT_THAT(store->CreateCheckpoint("one"), IsOk());
}

TEST(RocksDbStoreTest, CheckpointTakenBetweenCommitsIsWhole) {
  const std::unique_ptr<RocksDbStores> stores = Lock(test::NewFolder());
  const std::unique_ptr<ports::EventStore> store = Open(*stores);
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
    // The format, and then two for each epoch.
    EXPECT_GE(EpochIn(checkpoint.path), (checkpoint.sequence - 1) / 2);
  }
}

TEST(RocksDbStoreTest, StoreOpenForReadingMakesNoCheckpoint) {
  const std::unique_ptr<RocksDbStores> stores = Lock(test::NewFolder());
  Open(*stores);
  const auto store = stores->Open(StoreAccess::kReadOnly);
  ASSERT_THAT(store, IsOk());
  EXPECT_THAT((*store)->CreateCheckpoint("one"), StatusIs(absl::StatusCode::kFailedPrecondition));
}

}  // namespace
}  // namespace callboard::adapters
