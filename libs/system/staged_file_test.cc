#include "libs/system/staged_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <stop_token>

#include "libs/flow/abort.h"
#include "libs/testing/files.h"
#include "libs/testing/status_matchers.h"

namespace callboard::system {
namespace {

using test::FileText;
using test::IsOk;
using test::StatusIs;
using testing::HasSubstr;

class StagedFileTest : public testing::Test {
 protected:
  StagedFile Create(StagedFile::Readers readers = StagedFile::Readers::kOwner) {
    return *StagedFile::Create(path_, readers);
  }
  bool StagedFileExists() const { return std::filesystem::exists(path_ + ".new"); }

  const std::filesystem::path folder_ = test::NewFolder();
  const std::string path_ = folder_ / "result.json";
};

TEST_F(StagedFileTest, FileAppearsOnlyWhenComplete) {
  StagedFile file = Create();
  ASSERT_THAT(file.Append("one "), IsOk());
  ASSERT_THAT(file.Append("two"), IsOk());
  EXPECT_FALSE(std::filesystem::exists(path_));
  ASSERT_THAT(std::move(file).Promote({}), IsOk());
  EXPECT_EQ(FileText(path_), "one two");
  EXPECT_FALSE(StagedFileExists());
}

TEST_F(StagedFileTest, FileReplacesTheOldOne) {
  std::ofstream(path_) << "old";
  StagedFile file = Create();
  ASSERT_THAT(file.Append("new"), IsOk());
  EXPECT_EQ(FileText(path_), "old");
  ASSERT_THAT(std::move(file).Promote({}), IsOk());
  EXPECT_EQ(FileText(path_), "new");
}

TEST_F(StagedFileTest, AbortedFileIsNotPromotedAndIsRemoved) {
  std::ofstream(path_) << "old";
  std::stop_source stop;
  {
    StagedFile file = Create();
    ASSERT_THAT(file.Append("new"), IsOk());
    stop.request_stop();
    EXPECT_TRUE(flow::IsAbortError(std::move(file).Promote(stop.get_token())));
  }
  EXPECT_EQ(FileText(path_), "old");
  EXPECT_FALSE(StagedFileExists());
}

TEST_F(StagedFileTest, AbandonedFileIsRemoved) {
  { StagedFile file = Create(); }
  EXPECT_FALSE(std::filesystem::exists(path_));
  EXPECT_FALSE(StagedFileExists());
}

TEST_F(StagedFileTest, LeftoverIsReplacedIncludingItsMode) {
  std::ofstream(path_ + ".new") << "torn, and readable for all";
  StagedFile file = Create();
  ASSERT_THAT(std::move(file).Promote({}), IsOk());
  EXPECT_EQ(FileText(path_), "");
  struct stat found = {};
  ASSERT_EQ(stat(path_.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600u);
}

TEST_F(StagedFileTest, SecondWriterIsRejectedAndTheFirstContinues) {
  StagedFile first = Create();
  ASSERT_THAT(first.Append("first"), IsOk());
  EXPECT_THAT(StagedFile::Create(path_, StagedFile::Readers::kOwner),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("another process writes")));
  ASSERT_THAT(std::move(first).Promote({}), IsOk());
  EXPECT_EQ(FileText(path_), "first");
  StagedFile next = Create();
  EXPECT_THAT(std::move(next).Promote({}), IsOk()) << "allowed after the first has finished";
}

TEST_F(StagedFileTest, UnwritablePathIsNamedInTheError) {
  EXPECT_THAT(StagedFile::Create(folder_ / "missing/file", StagedFile::Readers::kOwner),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("missing/file.new")));
}

}  // namespace
}  // namespace callboard::system
