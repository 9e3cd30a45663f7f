#include "libs/runner/run_files.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

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

}  // namespace
}  // namespace callboard::runner
