#include "libs/adapters/rocksdb_store/rocksdb_store.h"

#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "libs/base/check.h"
#include "libs/testing/event_store_contract.h"

namespace callboard::test {
namespace {

// A new folder, empty.
std::filesystem::path NewFolder() {
  static int folders = 0;
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / absl::StrCat("store_", ++folders);
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

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

}  // namespace
}  // namespace callboard::test
