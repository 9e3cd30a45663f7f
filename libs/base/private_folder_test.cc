#include "libs/base/files.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "libs/testing/files.h"
#include "libs/testing/status_matchers.h"

namespace callboard::base {
namespace {

using std::filesystem::perms;

TEST(PrivateFolderTest, MissingFoldersAreCreatedForTheirOwnerOnly) {
  const std::filesystem::path above = test::NewFolder() / "a";
  ASSERT_THAT(MakePrivateFolder(above / "b"), test::IsOk());
  EXPECT_EQ(std::filesystem::status(above).permissions(), perms::owner_all);
  EXPECT_EQ(std::filesystem::status(above / "b").permissions(), perms::owner_all);
}

TEST(PrivateFolderTest, WorldReadableFolderIsClosedAndItsParentIsNot) {
  const std::filesystem::path above = test::NewFolder();
  const std::filesystem::path folder = above / "data";
  std::filesystem::create_directory(folder);
  const perms open = perms::owner_all | perms::group_read | perms::group_exec | perms::others_read |
                     perms::others_exec;
  std::filesystem::permissions(above, open);
  std::filesystem::permissions(folder, open);
  ASSERT_THAT(MakePrivateFolder(folder), test::IsOk());
  EXPECT_EQ(std::filesystem::status(folder).permissions(),
            perms::owner_all | perms::group_read | perms::group_exec);
  EXPECT_EQ(std::filesystem::status(above).permissions(), open);
}

TEST(PrivateFolderTest, FolderClosedToOthersKeepsItsMode) {
  const std::filesystem::path folder = test::NewFolder();
  std::filesystem::permissions(folder, perms::owner_all | perms::group_read);
  ASSERT_THAT(MakePrivateFolder(folder), test::IsOk());
  EXPECT_EQ(std::filesystem::status(folder).permissions(), perms::owner_all | perms::group_read);
}

TEST(PrivateFolderTest, WorldWritableFolderIsRejectedButMayBeAParent) {
  const std::filesystem::path folder = test::NewFolder();
  std::filesystem::permissions(folder, perms::all);
  const absl::Status status = MakePrivateFolder(folder);
  EXPECT_THAT(status, test::StatusIs(absl::StatusCode::kFailedPrecondition,
                                     "the folder '" + folder.string() +
                                         "' is world-writable; run `chmod o-w` on it, or configure "
                                         "a folder below it"));
  EXPECT_THAT(MakePrivateFolder(folder / "own"), test::IsOk());
}

TEST(PrivateFolderTest, ErrorNamesAFileInThePath) {
  const std::filesystem::path file = test::NewFolder() / "file";
  std::ofstream(file) << "text";
  const absl::Status status = MakePrivateFolder(file / "folder");
  EXPECT_EQ(status.message(), "cannot make the folder '" + file.string() + "': File exists");
}

}  // namespace
}  // namespace callboard::base
