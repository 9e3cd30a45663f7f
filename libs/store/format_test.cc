// Reads stores that earlier versions wrote.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/store/fixture_records.h"
#include "libs/store/rocksdb_store.h"
#include "libs/testing/files.h"
#include "libs/testing/status_matchers.h"
#include "libs/testing/stored_records.h"

namespace callboard::store {
namespace {

using test::IsOk;

const std::filesystem::path kTestdata = "libs/store/testdata";

// Returns a copy of that folder, which can be written.
std::filesystem::path CopyOf(const std::string& fixture) {
  const std::filesystem::path folder = test::NewFolder();
  std::filesystem::copy(kTestdata / fixture, folder, std::filesystem::copy_options::recursive);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    std::filesystem::permissions(entry, std::filesystem::perms::owner_write,
                                 std::filesystem::perm_options::add);
  }
  return folder;
}

TEST(FormatTest, StoreOfAnEarlierVersionWithTheSameFormatCanBeRead) {
  const auto opener = RocksDbStoreOpener::Lock({CopyOf("format_3")});
  ASSERT_THAT(opener, IsOk());
  for (const auto access : {ports::StoreAccess::kReadOnly, ports::StoreAccess::kReadWrite}) {
    const auto store = (*opener)->Open(access);
    ASSERT_THAT(store, IsOk());
    const absl::StatusOr<std::vector<core::Record>> records = test::StoredRecords(**store);
    ASSERT_THAT(records, IsOk());
    EXPECT_THAT(*records, testing::UnorderedElementsAreArray(Format3Records()));
  }
}

class OldFormatTest : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(All, OldFormatTest, testing::Values(1, 2));

TEST_P(OldFormatTest, IsRefusedWithASentenceThatSaysSo) {
  const std::filesystem::path folder = CopyOf(absl::StrCat("format_", GetParam()));
  const auto opener = RocksDbStoreOpener::Lock({folder});
  ASSERT_THAT(opener, IsOk());
  for (const auto access : {ports::StoreAccess::kReadOnly, ports::StoreAccess::kReadWrite}) {
    const absl::Status status = (*opener)->Open(access).status();
    EXPECT_THAT(status, test::HasReason(std::string(ports::kStoreRefused)));
    EXPECT_THAT(std::string(status.message()),
                testing::AllOf(testing::HasSubstr(absl::StrCat("(format ", GetParam(),
                                                               ", this version reads format 3)")),
                               testing::HasSubstr("move " + folder.string() + " away")));
  }
}

}  // namespace
}  // namespace callboard::store
