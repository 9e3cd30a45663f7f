#include "libs/config/jobs_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "libs/base/mutex.h"
#include "libs/testing/fake_environment.h"
#include "libs/testing/files.h"
#include "libs/testing/status_matchers.h"

namespace callboard::config {
namespace {

using test::IsOk;
using test::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kInvalidFile[] = "jobs: {}\n";

std::string FileWith(const std::string& name) {
  return "jobs:\n- {name: " + name + ", schedule: '@daily', prompt: p}\n";
}

class JobsFileTest : public testing::Test {
 protected:
  void Write(const std::string& text) { std::ofstream(path_) << text; }
  void Open() {
    const auto take = [this](const std::vector<core::Job>& jobs) {
      base::MutexLock lock(mutex_);
      names_.clear();
      for (const core::Job& job : jobs) names_.push_back(job.name);
      ++times_;
      changed_.NotifyAll();
    };
    auto file = JobsFile::Open(path_, clock_, take, absl::Milliseconds(10));
    ASSERT_THAT(file, IsOk());
    file_ = *std::move(file);
  }
  std::vector<std::string> names() {
    base::MutexLock lock(mutex_);
    return names_;
  }
  // Waits until jobs were received `times` times.
  void WaitForTimes(int times) {
    base::MutexLock lock(mutex_);
    while (times_ < times) changed_.Wait(mutex_);
  }
  std::string WaitForError() {
    while (file_->state().error.empty()) std::this_thread::yield();
    return file_->state().error;
  }

  const std::string path_ = (test::NewFolder() / "jobs.yaml").string();
  test::FakeClock clock_;
  base::Mutex mutex_;
  base::CondVar changed_;
  std::vector<std::string> names_ ABSL_GUARDED_BY(mutex_);
  int times_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<JobsFile> file_;
};

TEST_F(JobsFileTest, IsReadBeforeOpenReturns) {
  Write(FileWith("a"));
  Open();
  EXPECT_THAT(names(), ElementsAre("a"));
  EXPECT_EQ(file_->state().read_at, clock_.WallNow());
  EXPECT_THAT(file_->state().error, IsEmpty());
}

TEST_F(JobsFileTest, InvalidOrMissingFileAtStartIsAnError) {
  const auto open = [this] { return JobsFile::Open(path_, clock_, nullptr).status(); };
  EXPECT_THAT(open(), StatusIs(absl::StatusCode::kInvalidArgument,
                               "jobs_file: cannot read " + path_ + ": No such file or directory"));
  Write(kInvalidFile);
  EXPECT_THAT(open(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("jobs.yaml:1:")));
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);
  EXPECT_THAT(open(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("Is a directory")));
}

TEST_F(JobsFileTest, IsReadAgainWhenWritten) {
  Write(FileWith("a"));
  Open();
  Write(FileWith("b"));
  WaitForTimes(2);
  EXPECT_THAT(names(), ElementsAre("b"));
}

TEST_F(JobsFileTest, IsReadAgainWhenReplaced) {
  Write(FileWith("a"));
  Open();
  std::ofstream(path_ + ".new") << FileWith("c");
  std::filesystem::rename(path_ + ".new", path_);
  WaitForTimes(2);
  EXPECT_THAT(names(), ElementsAre("c"));
}

TEST_F(JobsFileTest, IsReadAgainWhenALinkInItsPathChanges) {
  const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
  for (const char* version : {"1", "2"}) {
    std::filesystem::create_directory(folder / version);
    std::ofstream(folder / version / "jobs.yaml") << FileWith(version);
  }
  std::filesystem::create_symlink("1", folder / "data");
  std::filesystem::create_symlink("data/jobs.yaml", path_);
  Open();
  std::filesystem::create_symlink("2", folder / "new");
  std::filesystem::rename(folder / "new", folder / "data");
  WaitForTimes(2);
  EXPECT_THAT(names(), ElementsAre("2"));
}

TEST_F(JobsFileTest, InvalidVersionLeavesThePreviousOneInUse) {
  Write(FileWith("a"));
  Open();
  Write(kInvalidFile);
  EXPECT_THAT(WaitForError(), HasSubstr("jobs.yaml:1: jobs: wanted a list"));
  EXPECT_THAT(names(), ElementsAre("a"));
  Write(FileWith("b"));
  WaitForTimes(2);
  EXPECT_THAT(file_->state().error, IsEmpty());
}

TEST_F(JobsFileTest, MissingFileLeavesThePreviousVersionInUse) {
  Write(FileWith("a"));
  Open();
  std::filesystem::remove(path_);
  EXPECT_THAT(WaitForError(), HasSubstr("No such file or directory"));
  EXPECT_THAT(names(), ElementsAre("a"));
}

TEST_F(JobsFileTest, UnchangedFileThatReturnsIsInUseAgain) {
  Write(FileWith("a"));
  Open();
  std::filesystem::rename(path_, path_ + ".gone");
  WaitForError();
  std::filesystem::rename(path_ + ".gone", path_);
  WaitForTimes(2);
  EXPECT_THAT(file_->state().error, IsEmpty());
}

TEST_F(JobsFileTest, EmptiedFileDoesNotRemoveTheJobs) {
  Write(FileWith("a"));
  Open();
  Write("");
  EXPECT_THAT(WaitForError(), HasSubstr("it has no jobs; write `jobs: []`"));
  Write("jobs: []\n");
  WaitForTimes(2);
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(JobsFileTest, ReloadReadsAnUnchangedFile) {
  Write(FileWith("a"));
  Open();
  file_->Reload();
  WaitForTimes(2);
  EXPECT_THAT(names(), ElementsAre("a"));
}

FileStamp Grown(off_t size) { return {.inode = 1, .size = size}; }

TEST(StabilityCheckTest, FileIsReadAfterTwoEqualChecks) {
  StabilityCheck check;
  EXPECT_FALSE(check.ShouldRead(Grown(1)));
  EXPECT_FALSE(check.ShouldRead(Grown(2)));
  EXPECT_TRUE(check.ShouldRead(Grown(2)));
  EXPECT_FALSE(check.ShouldRead(Grown(2)));
  EXPECT_FALSE(check.ShouldRead(Grown(3)));
  EXPECT_TRUE(check.ShouldRead(Grown(3)));
}

TEST(StabilityCheckTest, ReloadWaitsForTwoEqualChecks) {
  StabilityCheck check;
  EXPECT_FALSE(check.ShouldRead(Grown(1)));
  // Shortly after the previous check, which found the same stamp.
  check.Restart(Grown(1));
  EXPECT_FALSE(check.ShouldRead(Grown(2)));
  check.Restart(Grown(2));
  EXPECT_TRUE(check.ShouldRead(Grown(2)));
}

TEST(StabilityCheckTest, ReloadReadsTheSameFileAgain) {
  StabilityCheck check;
  EXPECT_FALSE(check.ShouldRead(Grown(1)));
  EXPECT_TRUE(check.ShouldRead(Grown(1)));
  check.Restart(Grown(1));
  EXPECT_TRUE(check.ShouldRead(Grown(1)));
  EXPECT_FALSE(check.ShouldRead(Grown(1)));
}

}  // namespace
}  // namespace callboard::config
