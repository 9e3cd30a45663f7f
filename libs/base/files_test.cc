#include "libs/base/files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "libs/testing/files.h"
#include "libs/testing/status_matchers.h"

namespace callboard::base {
namespace {

bool IsOpen(int descriptor) { return fcntl(descriptor, F_GETFD) >= 0; }

TEST(DescriptorTest, ClosesWhatItOwns) {
  Descriptor first(open("/dev/null", O_RDONLY | O_CLOEXEC));
  Descriptor second(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int first_number = first.get();
  const int second_number = second.get();
  second = std::move(first);
  EXPECT_TRUE(IsOpen(first_number));
  EXPECT_FALSE(IsOpen(second_number));
  { const Descriptor third = std::move(second); }
  EXPECT_FALSE(IsOpen(first_number));
  EXPECT_FALSE(second.is_open());
}

TEST(DescriptorTest, WriteAllWritesEverythingOrFails) {
  const std::string path = test::NewFolder() / "file";
  const std::string text(3'000'000, 'x');
  EXPECT_TRUE(WriteAll(Descriptor(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)), text));
  EXPECT_FALSE(WriteAll(Descriptor(open("/dev/full", O_WRONLY | O_CLOEXEC)), "x"));
  EXPECT_EQ(errno, ENOSPC);
  EXPECT_EQ(SystemError("write").message(), "cannot write: No space left on device");
}

TEST(DescriptorTest, NullTerminatedPointersEndWithNull) {
  const std::vector<std::string> texts = {"a", "b"};
  const std::vector<char*> pointers = NullTerminatedPointers(texts);
  ASSERT_EQ(pointers.size(), 3u);
  EXPECT_STREQ(pointers[1], "b");
  EXPECT_EQ(pointers[2], nullptr);
}

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
