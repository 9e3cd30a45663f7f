// Folders that a director or the command line tool cannot use: the program reports why and leaves
// them unchanged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/testing/files.h"
#include "libs/testing/process.h"
#include "libs/testing/running_server.h"

namespace callboard::faults {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Optional;

// Exit codes: bad settings, and all errors without another code.
constexpr int kBadSettings = 2;
constexpr int kFailed = 1;

class FolderTest : public testing::Test {
 protected:
  // Runs a program to its end with file modes enforced: if the user is root, without the
  // capabilities of root.
  static test::ProcessResult RunAsOrdinaryUser(const std::vector<std::string>& program) {
    std::vector<std::string> command;
    if (getuid() == 0) {
      command = {"/usr/bin/setpriv", "--bounding-set=-dac_override,-dac_read_search,-fowner"};
    }
    command.insert(command.end(), program.begin(), program.end());
    return test::RunToEnd(command);
  }
  test::ProcessResult Run() const {
    return RunAsOrdinaryUser(test::ServerCommand("services/director/callboard-director",
                                                 {"--data_dir=" + folder_.string()}));
  }
  std::vector<std::string> Files() const {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_)) {
      files.push_back(entry.path());
    }
    return files;
  }

  const std::filesystem::path folder_ = test::NewFolder();
};

TEST_F(FolderTest, ReadOnlyFolderIsRejectedByName) {
  ASSERT_EQ(chmod(folder_.c_str(), 0500), 0);
  const test::ProcessResult ended = Run();
  EXPECT_THAT(ended.exit_code, Optional(kFailed));
  EXPECT_THAT(ended.output, AllOf(HasSubstr("data_dir '" + folder_.string() + "'"),
                                  HasSubstr(absl::StrCat("(uid ", geteuid(), ")")),
                                  HasSubstr("Permission denied")));
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(FolderTest, FolderOfAnotherUserIsRejectedByName) {
  ASSERT_EQ(chmod(folder_.c_str(), 0700), 0);
  // Users other than root cannot change the owner of a folder.
  ASSERT_EQ(getuid() == 0 ? chown(folder_.c_str(), 65534, 65534) : chmod(folder_.c_str(), 0), 0);
  const test::ProcessResult ended = Run();
  ASSERT_EQ(getuid() == 0 ? chown(folder_.c_str(), 0, 0) : chmod(folder_.c_str(), 0700), 0);
  EXPECT_THAT(ended.exit_code, Optional(kFailed));
  EXPECT_THAT(ended.output, AllOf(HasSubstr(folder_.string()), HasSubstr("Permission denied")));
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(FolderTest, WorldWritableFolderIsRejectedWithTheNextStep) {
  ASSERT_EQ(chmod(folder_.c_str(), 0777), 0);
  const test::ProcessResult ended = Run();
  EXPECT_THAT(ended.exit_code, Optional(kBadSettings));
  EXPECT_THAT(ended.output, HasSubstr(absl::StrCat("data_dir: the folder '", folder_.string(),
                                                   "' is world-writable; run `chmod o-w` on it")));
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(FolderTest, UnreadableFolderIsReportedWithItsOwner) {
  // The minimal files of a store.
  for (const char* file : {"HIGHWATER", "LOCK"}) std::ofstream(folder_ / file) << "";
  // First the lock of another user, then the whole folder.
  for (const std::filesystem::path& closed : {folder_ / "LOCK", folder_}) {
    ASSERT_EQ(chmod(closed.c_str(), 0), 0);
    const test::ProcessResult ended =
        RunAsOrdinaryUser({test::BuiltBinary("services/cli/callboard"), "db", "verify",
                           "--data_dir=" + folder_.string()});
    ASSERT_EQ(chmod(closed.c_str(), 0700), 0);
    EXPECT_THAT(ended.exit_code, Optional(kFailed));
    EXPECT_THAT(ended.output, AllOf(HasSubstr("data_dir '" + folder_.string() + "'"),
                                    HasSubstr(absl::StrCat("(uid ", geteuid(), ")")),
                                    HasSubstr(closed.string() + ": Permission denied"),
                                    HasSubstr("run the command as the folder's owner")));
  }
}

}  // namespace
}  // namespace callboard::faults
