#include "libs/store/rocksdb_ledger.h"

#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "libs/base/check.h"
#include "libs/store/open_database.h"
#include "libs/store/store_files.h"
#include "libs/testing/files.h"
#include "libs/testing/ledger_contract.h"
#include "libs/testing/status_matchers.h"

namespace callboard::test {

struct RocksDbLedgerHarness {
  RocksDbLedgerHarness() {
    auto locked = store::RocksDbLedgerOpener::Lock(NewFolder());
    CHECK_OK(locked.status());
    opener = *std::move(locked);
  }
  scheduler::LedgerOpener& ledgers() { return *opener; }

  std::unique_ptr<store::RocksDbLedgerOpener> opener;
};

INSTANTIATE_TYPED_TEST_SUITE_P(RocksDb, LedgerContractTest, RocksDbLedgerHarness);

}  // namespace callboard::test

namespace callboard::store {
namespace {

using scheduler::JobState;
using test::HasReason;
using test::IsOk;
using test::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

class RocksDbLedgerTest : public testing::Test {
 protected:
  std::unique_ptr<RocksDbLedgerOpener> Lock() {
    auto locked = RocksDbLedgerOpener::Lock(folder_);
    CHECK_OK(locked.status());
    return *std::move(locked);
  }
  // Creates a ledger with one job.
  void Fill() {
    const auto opener = Lock();
    const auto ledger = opener->Open();
    CHECK_OK(ledger.status());
    const std::vector<scheduler::LedgerChange> batch = {
        JobState{.job = "job", .cursor = absl::FromUnixSeconds(1)}};
    CHECK_OK((*ledger)->Commit(batch));
  }

  const std::filesystem::path folder_ = test::NewFolder();
};

TEST_F(RocksDbLedgerTest, SecondSchedulerCannotLockTheFolder) {
  const auto first = Lock();
  const auto second = RocksDbLedgerOpener::Lock(folder_);
  EXPECT_THAT(second, HasReason("STORE_LOCKED"));
  EXPECT_EQ(second.status().message(), "another scheduler uses " + folder_.string());
}

TEST_F(RocksDbLedgerTest, LedgerWithLostCommitsIsRefusedWithAdvice) {
  Fill();
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "ledger")) {
    if (entry.path().extension() == ".log") std::ofstream(entry.path(), std::ios::trunc);
  }
  const auto ledger = Lock()->Open();
  EXPECT_THAT(ledger, HasReason("STORE_REFUSED"));
  EXPECT_THAT(ledger,
              StatusIs(absl::StatusCode::kDataLoss, AllOf(HasSubstr((folder_ / "ledger").string()),
                                                          HasSubstr("away together"))));
}

TEST_F(RocksDbLedgerTest, LedgerWithoutItsHighWaterIsRefused) {
  Fill();
  std::filesystem::remove(folder_ / "HIGHWATER");
  EXPECT_THAT(Lock()->Open(), HasReason("STORE_REFUSED"));
}

TEST_F(RocksDbLedgerTest, LedgerOfFormat1IsRefused) {
  const StoreFiles files = {.folder = folder_, .database = "ledger", .owner = "scheduler"};
  ASSERT_THAT(OpenDatabase(files, ports::StoreAccess::kReadWrite, /*format=*/1), IsOk());
  const absl::Status status = Lock()->Open().status();
  EXPECT_THAT(status, HasReason("STORE_REFUSED"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("(format 1, this version reads format 2)"));
}

TEST_F(RocksDbLedgerTest, CommitsFailAfterAFailedCommit) {
  Fill();
  const auto opener = Lock();
  auto ledger = *opener->Open();
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before = {};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small = {100'000, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::vector<scheduler::LedgerChange> large = {
      core::Firing{.job = "job", .detail = std::string(1'000'000, 'x')}};
  EXPECT_THAT(ledger->Commit(large), StatusIs(absl::StatusCode::kUnavailable));
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_THAT(ledger->Commit({}), StatusIs(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace callboard::store
