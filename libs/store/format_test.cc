// Reads a store of every format that was ever written.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "libs/store/fixture_records.h"
#include "libs/store/rocksdb_store.h"
#include "libs/testing/files.h"
#include "libs/testing/status_matchers.h"
#include "libs/testing/stored_records.h"

namespace callboard::store {
namespace {

using test::IsOk;

const std::filesystem::path kTestdata = "libs/store/testdata";

// The records in the data folder of each format.
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

TEST(FormatTest, EveryFormatCanBeRead) {
  for (const auto& [name, expected] : kFixtures) {
    const std::filesystem::path folder = test::NewFolder();
    std::filesystem::copy(kTestdata / name, folder, std::filesystem::copy_options::recursive);
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      std::filesystem::permissions(entry, std::filesystem::perms::owner_write,
                                   std::filesystem::perm_options::add);
    }
    const auto opener = RocksDbStoreOpener::Lock({folder});
    ASSERT_THAT(opener, IsOk());
    for (const auto access : {ports::StoreAccess::kReadOnly, ports::StoreAccess::kReadWrite}) {
      const auto store = (*opener)->Open(access);
      ASSERT_THAT(store, IsOk()) << name;
      const absl::StatusOr<std::vector<core::Record>> records = test::StoredRecords(**store);
      ASSERT_THAT(records, IsOk()) << name;
      EXPECT_THAT(*records, testing::UnorderedElementsAreArray(expected)) << name;
    }
  }
}

}  // namespace
}  // namespace callboard::store
