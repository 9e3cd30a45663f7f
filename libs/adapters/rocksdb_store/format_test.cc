// Every format that was ever written can be read.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "libs/adapters/rocksdb_store/fixture_records.h"
#include "libs/adapters/rocksdb_store/rocksdb_store.h"
#include "libs/testing/new_folder.h"
#include "libs/testing/status_matchers.h"
#include "libs/testing/stored_records.h"

namespace callboard::adapters {
namespace {

using test::IsOk;

const std::filesystem::path kTestdata = "libs/adapters/rocksdb_store/testdata";

// What the data folder of each format holds.
const std::map<std::string, std::vector<core::Record>> kFixtures = {{"format_1", Format1Records()},
                                                                    {"format_2", Format2Records()}};

TEST(FormatTest, EveryFixtureIsKnown) {
  std::set<std::string> folders;
  for (const auto& entry : std::filesystem::directory_iterator(kTestdata)) {
    folders.insert(entry.path().filename());
  }
  std::set<std::string> known;
  for (const auto& [name, records] : kFixtures) known.insert(name);
  EXPECT_EQ(folders, known);
}

TEST(FormatTest, EveryFormatIsReadInFull) {
  for (const auto& [name, expected] : kFixtures) {
    const std::filesystem::path folder = test::NewFolder();
    std::filesystem::copy(kTestdata / name, folder, std::filesystem::copy_options::recursive);
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      std::filesystem::permissions(entry, std::filesystem::perms::owner_write,
                                   std::filesystem::perm_options::add);
    }
    const auto stores = RocksDbStores::Lock({folder});
    ASSERT_THAT(stores, IsOk());
    for (const auto access : {ports::StoreAccess::kReadOnly, ports::StoreAccess::kReadWrite}) {
      const auto store = (*stores)->Open(access);
      ASSERT_THAT(store, IsOk()) << name;
      const absl::StatusOr<std::vector<core::Record>> records = test::StoredRecords(**store);
      ASSERT_THAT(records, IsOk()) << name;
      EXPECT_THAT(*records, testing::UnorderedElementsAreArray(expected)) << name;
    }
  }
}

}  // namespace
}  // namespace callboard::adapters
