#include "libs/runner/run_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "libs/core/limits.h"
#include "libs/testing/files.h"
#include "libs/testing/status_matchers.h"

namespace callboard::runner {
namespace {

namespace fs = std::filesystem;

using test::FileText;
using test::IsOk;
using test::StatusIs;

class RunFilesTest : public testing::Test {
 protected:
  static mode_t Mode(const std::string& path) {
    struct stat found = {};
    return stat(path.c_str(), &found) == 0 ? found.st_mode & 0777 : 0;
  }
  static void Write(const fs::path& file, const std::string& text) { std::ofstream(file) << text; }

  const fs::path data_ = test::NewFolder();
  RunPlan plan_ = {.folders = {.run = data_ / "runs" / "t",
                               .work = data_ / "work" / "t",
                               .project = "",
                               .artifacts = data_ / "artifacts" / "t"},
                   .prompt = std::string("a\0b", 3),
                   .payload = "payload"};
};

TEST_F(RunFilesTest, FilesAreAccessibleToTheirOwnerOnly) {
  const auto begin = PrepareFiles(plan_);
  ASSERT_THAT(begin, IsOk());
  EXPECT_EQ(*begin, plan_.folders.work);
  EXPECT_EQ(FileText(plan_.folders.prompt_file()), plan_.prompt);
  EXPECT_EQ(FileText(plan_.folders.payload_file()), "payload");
  EXPECT_EQ(Mode(plan_.folders.prompt_file()), 0600u);
  for (const std::string& folder :
       {plan_.folders.run, plan_.folders.work, plan_.folders.new_artifacts()}) {
    EXPECT_EQ(Mode(folder), 0700u) << folder;
  }
}

TEST_F(RunFilesTest, FilesOfAnEarlierAttemptAreRemoved) {
  ASSERT_THAT(PrepareFiles(plan_), IsOk());
  Write(plan_.folders.result_file(), "old");
  Write(fs::path(plan_.folders.work) / "file", "old");
  ASSERT_THAT(PrepareFiles(plan_), IsOk());
  EXPECT_FALSE(ReadResultFile(plan_.folders).has_value());
  EXPECT_FALSE(fs::exists(fs::path(plan_.folders.work) / "file"));
}

TEST_F(RunFilesTest, SessionFolderIsKept) {
  plan_.folders.keeps_work = true;
  ASSERT_THAT(PrepareFiles(plan_), IsOk());
  Write(fs::path(plan_.folders.work) / "file", "text");
  ASSERT_THAT(RemoveFiles(plan_.folders), IsOk());
  ASSERT_THAT(PrepareFiles(plan_), IsOk());
  EXPECT_EQ(FileText(fs::path(plan_.folders.work) / "file"), "text");
}

TEST_F(RunFilesTest, ProjectFolderIsUsedWhenItExists) {
  plan_.folders.project = data_ / "project";
  EXPECT_EQ(*PrepareFiles(plan_), plan_.folders.work);
  fs::create_directories(plan_.folders.project);
  EXPECT_EQ(*PrepareFiles(plan_), plan_.folders.project);
  ASSERT_THAT(RemoveFiles(plan_.folders), IsOk());
  EXPECT_TRUE(fs::exists(plan_.folders.project));
}

TEST_F(RunFilesTest, LongResultIsCutToItsEnd) {
  ASSERT_THAT(PrepareFiles(plan_), IsOk());
  Write(plan_.folders.result_file(), "{}");
  EXPECT_EQ(ReadResultFile(plan_.folders)->text, "{}");
  EXPECT_FALSE(ReadResultFile(plan_.folders)->truncated);
  Write(plan_.folders.result_file(), std::string(core::kResultBytesMax, 'x') + "end");
  EXPECT_EQ(ReadResultFile(plan_.folders)->text.size(), core::kResultBytesMax);
  EXPECT_TRUE(ReadResultFile(plan_.folders)->text.ends_with("xend"));
  EXPECT_TRUE(ReadResultFile(plan_.folders)->truncated);
}

TEST_F(RunFilesTest, CutResultBeginsWithAWholeCharacter) {
  ASSERT_THAT(PrepareFiles(plan_), IsOk());
  const std::string rest(core::kResultBytesMax - 1, 'x');
  Write(plan_.folders.result_file(), "€" + rest);
  EXPECT_EQ(ReadResultFile(plan_.folders)->text, rest);
  EXPECT_TRUE(ReadResultFile(plan_.folders)->truncated);
  Write(plan_.folders.result_file(), "x€" + rest.substr(2));
  EXPECT_EQ(ReadResultFile(plan_.folders)->text, "€" + rest.substr(2));
}

TEST_F(RunFilesTest, ResultMustBeARegularFile) {
  ASSERT_THAT(PrepareFiles(plan_), IsOk());
  Write(data_ / "secret", "secret");
  fs::create_symlink(data_ / "secret", plan_.folders.result_file());
  EXPECT_FALSE(ReadResultFile(plan_.folders).has_value());
  fs::remove(plan_.folders.result_file());
  ASSERT_EQ(mkfifo(plan_.folders.result_file().c_str(), 0600), 0);
  EXPECT_FALSE(ReadResultFile(plan_.folders).has_value());
}

TEST_F(RunFilesTest, ArtifactsReplaceEarlierOnes) {
  ASSERT_THAT(PrepareFiles(plan_), IsOk());
  Write(fs::path(plan_.folders.new_artifacts()) / "file", "text");
  fs::create_directories(plan_.folders.artifacts);
  Write(fs::path(plan_.folders.artifacts) / "old", "old");
  ASSERT_THAT(KeepArtifacts(plan_.folders), IsOk());
  EXPECT_EQ(FileText(fs::path(plan_.folders.artifacts) / "file"), "text");
  EXPECT_FALSE(fs::exists(fs::path(plan_.folders.artifacts) / "old"));
  ASSERT_THAT(RemoveFiles(plan_.folders), IsOk());
  EXPECT_FALSE(fs::exists(plan_.folders.run));
  EXPECT_FALSE(fs::exists(plan_.folders.work));
}

TEST_F(RunFilesTest, ArtifactsAreRegularFiles) {
  ASSERT_THAT(PrepareFiles(plan_), IsOk());
  Write(data_ / "secret", "secret");
  const fs::path made = plan_.folders.new_artifacts();
  fs::create_directories(made / "folder");
  Write(made / "folder" / "file", "text");
  fs::create_symlink(data_ / "secret", made / "folder" / "link");
  ASSERT_EQ(mkfifo((made / "pipe").c_str(), 0600), 0);
  ASSERT_THAT(KeepArtifacts(plan_.folders), IsOk());
  const fs::path kept = plan_.folders.artifacts;
  EXPECT_EQ(FileText(kept / "folder" / "file"), "text");
  EXPECT_FALSE(fs::is_symlink(kept / "folder" / "link"));
  EXPECT_FALSE(fs::exists(kept / "pipe"));
}

TEST_F(RunFilesTest, EmptyArtifactsFolderIsNotKept) {
  ASSERT_THAT(PrepareFiles(plan_), IsOk());
  ASSERT_THAT(KeepArtifacts(plan_.folders), IsOk());
  EXPECT_FALSE(fs::exists(plan_.folders.artifacts));
}

TEST_F(RunFilesTest, LinkInsteadOfTheArtifactsFolderIsAnError) {
  ASSERT_THAT(PrepareFiles(plan_), IsOk());
  fs::remove(plan_.folders.new_artifacts());
  fs::create_directory_symlink(data_, plan_.folders.new_artifacts());
  EXPECT_THAT(KeepArtifacts(plan_.folders), StatusIs(absl::StatusCode::kFailedPrecondition));
}

}  // namespace
}  // namespace callboard::runner
