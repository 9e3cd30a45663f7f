// Folders that a director or the command must not or cannot work in: it says why, and leaves them
// as they are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/testing/new_folder.h"
#include "libs/testing/process.h"
#include "libs/testing/running_server.h"

namespace callboard::faults {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Optional;

// Of exit codes: bad settings, and everything that has no code of its own.
constexpr int kBadSettings = 2;
constexpr int kFailed = 1;

class FolderTest : public testing::Test {
 protected:
  // A program to its end, which file modes stop: root without what makes it root.
  static test::Ended RunAsOrdinaryUser(const std::vector<std::string>& program) {
    std::vector<std::string> command;
    if (getuid() == 0) {
      command = {"/usr/bin/setpriv", "--bounding-set=-dac_override,-dac_read_search,-fowner"};
    }
    command.insert(command.end(), program.begin(), program.end());
    return test::RunToEnd(command);
  }
  test::Ended Run() const {
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

TEST_F(FolderTest, FolderThatCannotBeWrittenToIsRefusedByName) {
  ASSERT_EQ(chmod(folder_.c_str(), 0500), 0);
  const test::Ended ended = Run();
  EXPECT_THAT(ended.exit_code, Optional(kFailed));
  EXPECT_THAT(ended.output, AllOf(HasSubstr("data_dir '" + folder_.string() + "'"),
                                  HasSubstr(absl::StrCat("(uid ", geteuid(), ")")),
                                  HasSubstr("Permission denied")));
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(FolderTest, FolderOfSomebodyElseIsRefusedByName) {
  ASSERT_EQ(chmod(folder_.c_str(), 0700), 0);
  // Whoever runs the tests without being root has no right to give a folder away.
  ASSERT_EQ(getuid() == 0 ? chown(folder_.c_str(), 65534, 65534) : chmod(folder_.c_str(), 0), 0);
  const test::Ended ended = Run();
  ASSERT_EQ(getuid() == 0 ? chown(folder_.c_str(), 0, 0) : chmod(folder_.c_str(), 0700), 0);
  EXPECT_THAT(ended.exit_code, Optional(kFailed));
  EXPECT_THAT(ended.output, AllOf(HasSubstr(folder_.string()), HasSubstr("Permission denied")));
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(FolderTest, FolderThatEverybodyMayWriteToIsRefusedWithWhatToDo) {
  ASSERT_EQ(chmod(folder_.c_str(), 0777), 0);
  const test::Ended ended = Run();
  EXPECT_THAT(ended.exit_code, Optional(kBadSettings));
  EXPECT_THAT(ended.output, HasSubstr(absl::StrCat("data_dir: everybody may write to the folder '",
                                                   folder_.string(), "'; `chmod o-w` it")));
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(FolderTest, FolderThatTheCommandCannotReadIsNamedWithItsUser) {
  // Enough to be taken for a store.
  for (const char* file : {"HIGHWATER", "LOCK"}) std::ofstream(folder_ / file) << "";
  // The lock of another user first, then a whole folder of one.
  for (const std::filesystem::path& closed : {folder_ / "LOCK", folder_}) {
    ASSERT_EQ(chmod(closed.c_str(), 0), 0);
    const test::Ended ended = RunAsOrdinaryUser({test::BuiltBinary("services/cli/callboard"), "db",
                                                 "verify", "--data_dir=" + folder_.string()});
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
