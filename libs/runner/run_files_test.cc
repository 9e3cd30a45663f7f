#include "libs/runner/run_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "libs/core/limits.h"
#include "libs/testing/files.h"
#include "libs/testing/status_matchers.h"

namespace callboard::runner {
namespace {

using test::IsOk;
using test::StatusIs;

void Write(const std::filesystem::path& file) { std::ofstream(file) << "text"; }

class RemoveTreeTest : public testing::Test {
 protected:
  const std::filesystem::path above_ = test::NewFolder();
  const std::filesystem::path tree_ = above_ / "tree";
};

TEST_F(RemoveTreeTest, EverythingIsRemoved) {
  std::filesystem::create_directories(tree_ / "a" / "b" / "c");
  std::filesystem::create_directories(tree_ / "a" / "d");
  std::filesystem::create_directories(tree_ / "removed-1");
  for (const char* file : {"file", "a/file", "a/b/file", "a/b/c/file", ".hidden"})
    Write(tree_ / file);
  EXPECT_THAT(RemoveTree(tree_), IsOk());
  EXPECT_FALSE(std::filesystem::exists(tree_));
  EXPECT_THAT(RemoveTree(tree_), IsOk());
}

TEST_F(RemoveTreeTest, LinksAreRemovedAndNotFollowed) {
  std::filesystem::create_directories(above_ / "victim");
  Write(above_ / "victim" / "file");
  std::filesystem::create_directories(tree_ / "deep");
  std::filesystem::create_directory_symlink(above_ / "victim", tree_ / "link");
  std::filesystem::create_directory_symlink(above_ / "victim", tree_ / "deep" / "link");
  EXPECT_THAT(RemoveTree(tree_), IsOk());
  EXPECT_EQ(test::FileText(above_ / "victim" / "file"), "text");
  std::filesystem::create_directory_symlink(above_ / "victim", tree_);
  EXPECT_THAT(RemoveTree(tree_), IsOk());
  EXPECT_FALSE(std::filesystem::is_symlink(tree_));
  EXPECT_EQ(test::FileText(above_ / "victim" / "file"), "text");
}

TEST_F(RemoveTreeTest, FoldersWithoutPermissionsAreRemoved) {
  std::filesystem::create_directories(tree_ / "a" / "closed" / "b");
  Write(tree_ / "a" / "closed" / "b" / "file");
  ASSERT_EQ(chmod((tree_ / "a" / "closed" / "b").c_str(), 0), 0);
  ASSERT_EQ(chmod((tree_ / "a" / "closed").c_str(), 0), 0);
  EXPECT_THAT(RemoveTree(tree_), IsOk());
  EXPECT_FALSE(std::filesystem::exists(tree_));
}

TEST_F(RemoveTreeTest, VeryDeepTreesAreRemoved) {
  std::filesystem::create_directories(tree_);
  const std::filesystem::path here = std::filesystem::current_path();
  ASSERT_EQ(chdir(tree_.c_str()), 0);
  const std::string name(200, 'd');
  for (int depth = 0; depth < 3000; ++depth) {
    ASSERT_EQ(mkdir(name.c_str(), 0700), 0);
    ASSERT_EQ(chdir(name.c_str()), 0);
  }
  ASSERT_EQ(chdir(here.c_str()), 0);
  EXPECT_THAT(RemoveTree(tree_), IsOk());
  EXPECT_FALSE(std::filesystem::exists(tree_));
}

// Calls `check` in a child process in which `source` is mounted on `target`.
template <class Check>
void WithMount(const std::filesystem::path& source, const std::filesystem::path& target,
               Check check) {
  const pid_t child = fork();
  if (child == 0) {
    // A user without the permission to mount has it in a new user namespace.
    const bool mounted = (unshare(CLONE_NEWNS) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0) &&
                         mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                         mount(source.c_str(), target.c_str(), nullptr, MS_BIND, nullptr) == 0;
    if (!mounted) perror("mount");
    if (mounted) check();
    _exit(mounted && !testing::Test::HasFailure() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(RemoveTreeTest, MountsAreNotCrossed) {
  std::filesystem::create_directories(above_ / "victim");
  Write(above_ / "victim" / "file");
  std::filesystem::create_directories(tree_ / "deep" / "mount");
  Write(tree_ / "deep" / "file");
  Write(tree_ / "file");
  WithMount(above_ / "victim", tree_ / "deep" / "mount", [this] {
    EXPECT_THAT(RemoveTree(tree_), StatusIs(absl::StatusCode::kFailedPrecondition));
    EXPECT_FALSE(std::filesystem::exists(tree_ / "file"));
    EXPECT_FALSE(std::filesystem::exists(tree_ / "deep" / "file"));
    EXPECT_THAT(RemoveSpecialFiles(tree_), StatusIs(absl::StatusCode::kFailedPrecondition));
  });
  WithMount(above_ / "victim", tree_, [this] {
    EXPECT_THAT(RemoveTree(tree_), StatusIs(absl::StatusCode::kFailedPrecondition));
  });
  EXPECT_EQ(test::FileText(above_ / "victim" / "file"), "text");
}

TEST_F(RemoveTreeTest, OnlyFilesAndFoldersAreKept) {
  std::filesystem::create_directories(tree_ / "a" / "b");
  Write(tree_ / "a" / "b" / "file");
  std::filesystem::create_symlink(above_, tree_ / "a" / "link");
  ASSERT_EQ(mkfifo((tree_ / "a" / "b" / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(RemoveSpecialFiles(tree_), IsOk());
  EXPECT_EQ(test::FileText(tree_ / "a" / "b" / "file"), "text");
  EXPECT_FALSE(std::filesystem::is_symlink(tree_ / "a" / "link"));
  EXPECT_FALSE(std::filesystem::exists(tree_ / "a" / "b" / "pipe"));
}

TEST_F(RemoveTreeTest, TooManyFolderLevelsAreAnError) {
  std::filesystem::path deep = tree_;
  for (int level = 0; level < kFolderLevelsMax; ++level) deep /= "d";
  std::filesystem::create_directories(deep);
  EXPECT_THAT(RemoveSpecialFiles(tree_), StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST_F(RemoveTreeTest, StopsAtTheEntryLimit) {
  std::filesystem::create_directories(tree_ / "a");
  for (int i = 0; i < 20; ++i) Write(tree_ / "a" / std::to_string(i));
  EXPECT_THAT(RemoveTree(tree_, 10), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_TRUE(std::filesystem::exists(tree_));
  EXPECT_THAT(RemoveTree(tree_), IsOk());
}

using ports::OutputChunk;
using ports::OutputStream;

constexpr absl::Time kNoon = absl::FromUnixSeconds(1'700'000'000);

class OutputLogTest : public testing::Test {
 protected:
  void Append(const std::string& text, OutputStream stream = OutputStream::kStdout) {
    log_.Append(stream, text, kNoon + now_, now_);
    TakeAll();
  }
  void TakeAll() {
    while (std::optional<OutputChunk> chunk = log_.TakeChunk()) taken_.push_back(*std::move(chunk));
  }
  void Advance(absl::Duration time) {
    now_ += time;
    log_.CutChunks(now_);
    TakeAll();
  }
  void Finish() {
    log_.Finish();
    TakeAll();
  }
  uint64_t TakenBytes() const {
    uint64_t bytes = 0;
    for (const OutputChunk& chunk : taken_) bytes += chunk.data.size();
    return bytes;
  }
  uint64_t DroppedBytes() const {
    uint64_t bytes = 0;
    for (const OutputChunk& chunk : taken_) bytes += chunk.dropped_bytes;
    return bytes;
  }

  absl::Duration now_;
  OutputLog log_;
  std::vector<OutputChunk> taken_;
};

TEST_F(OutputLogTest, SmallWritesAreJoinedForAWhile) {
  Append("one ");
  Advance(OutputLog::kJoinFor / 2);
  Append("two ");
  EXPECT_EQ(log_.due_at(), OutputLog::kJoinFor);
  EXPECT_TRUE(taken_.empty());
  Advance(OutputLog::kJoinFor / 2);
  EXPECT_EQ(log_.due_at(), absl::InfiniteDuration());
  Append("three");
  Finish();
  EXPECT_EQ(taken_, (std::vector<OutputChunk>{
                        {.number = 1, .data = "one two ", .at = kNoon},
                        {.number = 2, .data = "three", .at = kNoon + OutputLog::kJoinFor}}));
}

TEST_F(OutputLogTest, FullChunkIsAvailableImmediately) {
  Append(std::string(OutputLog::kChunkBytesMax + 1, 'x'));
  ASSERT_EQ(taken_.size(), 1u);
  EXPECT_EQ(taken_.front().data.size(), OutputLog::kChunkBytesMax);
}

TEST_F(OutputLogTest, StreamsAreSeparateButShareNumbers) {
  Append("error", OutputStream::kStderr);
  Advance(absl::Milliseconds(1));
  Append("text");
  Finish();
  ASSERT_EQ(taken_.size(), 2u);
  EXPECT_EQ(taken_[0].stream, OutputStream::kStderr);
  EXPECT_EQ(taken_[1],
            (OutputChunk{.number = 2, .data = "text", .at = kNoon + absl::Milliseconds(1)}));
}

TEST_F(OutputLogTest, FloodKeepsItsBeginningAndEnd) {
  const uint64_t written = 64 * 1024 * 1024;
  for (uint64_t bytes = 0; bytes < written; bytes += 64 * 1024) {
    Append(std::string(64 * 1024, bytes == 0 ? 'a' : 'x'));
  }
  Append("end");
  EXPECT_LE(TakenBytes(), OutputLog::kHandedOutBytesMax);
  Finish();
  EXPECT_LE(TakenBytes(), OutputLog::kUndeliveredBytesMax);
  EXPECT_EQ(taken_.front().data.front(), 'a');
  EXPECT_TRUE(taken_.back().data.ends_with("end"));
  EXPECT_EQ(TakenBytes() + DroppedBytes(), written + 3);
}

TEST_F(OutputLogTest, NumbersOfDroppedChunksAreMissing) {
  for (int i = 0; i < 100; ++i) Append(std::string(OutputLog::kChunkBytesMax, 'x'));
  Finish();
  const size_t handed_out = OutputLog::kHandedOutBytesMax / OutputLog::kChunkBytesMax;
  ASSERT_EQ(taken_.size(), handed_out + 2);
  EXPECT_EQ(taken_[handed_out - 1].number, handed_out);
  EXPECT_EQ(taken_[handed_out].number, 99u);
  EXPECT_EQ(taken_[handed_out].dropped_bytes, (98 - handed_out) * OutputLog::kChunkBytesMax);
  EXPECT_EQ(taken_[handed_out + 1].dropped_bytes, 0u);
}

TEST_F(OutputLogTest, DeliveryMakesRoom) {
  while (TakenBytes() < OutputLog::kHandedOutBytesMax) {
    Append(std::string(OutputLog::kChunkBytesMax, 'x'));
  }
  Append(std::string(OutputLog::kChunkBytesMax, 'y'));
  EXPECT_EQ(TakenBytes(), OutputLog::kHandedOutBytesMax);
  log_.Acknowledge(OutputLog::kChunkBytesMax);
  TakeAll();
  EXPECT_EQ(taken_.back().data.front(), 'y');
  EXPECT_EQ(DroppedBytes(), 0u);
  // Acknowledging more than was handed out does not raise the limit.
  log_.Acknowledge(1'000'000'000);
  for (int i = 0; i < 100; ++i) Append(std::string(OutputLog::kChunkBytesMax, 'x'));
  EXPECT_LE(TakenBytes(), 2 * OutputLog::kHandedOutBytesMax + OutputLog::kChunkBytesMax);
}

TEST_F(OutputLogTest, TailIsTheEndOfStandardOutput) {
  Append("beginning");
  Append("noise", OutputStream::kStderr);
  EXPECT_EQ(log_.stdout_tail(), "beginning");
  for (int i = 0; i < 100; ++i) Append(std::string(5000, 'x'));
  Append("end");
  EXPECT_EQ(log_.stdout_tail().size(), core::kResultBytesMax);
  EXPECT_TRUE(absl::string_view(log_.stdout_tail()).substr(core::kResultBytesMax - 3) == "end");
  EXPECT_EQ(log_.stdout_bytes(), 9u + 500'000u + 3u);
  Append(std::string(1'000'000, 'y') + "z");
  EXPECT_EQ(log_.stdout_tail().size(), core::kResultBytesMax);
  EXPECT_EQ(log_.stdout_tail().back(), 'z');
}

TEST_F(OutputLogTest, CutTailBeginsWithAWholeCharacter) {
  const std::string rest(core::kResultBytesMax - 1, 'x');
  Append("€" + rest);
  EXPECT_EQ(log_.stdout_tail(), rest);
  for (int i = 0; i < 5; ++i) Append(rest);
  Append("€");
  Append(rest);
  EXPECT_EQ(log_.stdout_tail(), rest);
  Append("x€" + rest.substr(2));
  EXPECT_EQ(log_.stdout_tail(), "€" + rest.substr(2));
}

namespace fs = std::filesystem;

using test::FileText;

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
