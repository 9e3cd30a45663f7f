#include "libs/adapters/subprocess_runner/remove_tree.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "libs/testing/file_text.h"
#include "libs/testing/new_folder.h"
#include "libs/testing/status_matchers.h"

namespace callboard::adapters {
namespace {

using test::IsOk;
using test::StatusIs;

void Write(const std::filesystem::path& file) { std::ofstream(file) << "text"; }

class RemoveTreeTest : public testing::Test {
 protected:
  const std::filesystem::path above_ = test::NewFolder();
  const std::filesystem::path tree_ = above_ / "tree";
};

TEST_F(RemoveTreeTest, NothingIsLeft) {
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

TEST_F(RemoveTreeTest, ClosedFoldersAreOpened) {
  std::filesystem::create_directories(tree_ / "a" / "closed" / "b");
  Write(tree_ / "a" / "closed" / "b" / "file");
  ASSERT_EQ(chmod((tree_ / "a" / "closed" / "b").c_str(), 0), 0);
  ASSERT_EQ(chmod((tree_ / "a" / "closed").c_str(), 0), 0);
  EXPECT_THAT(RemoveTree(tree_), IsOk());
  EXPECT_FALSE(std::filesystem::exists(tree_));
}

TEST_F(RemoveTreeTest, DepthDoesNotMatter) {
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

TEST_F(RemoveTreeTest, StopsAfterSoManyEntries) {
  std::filesystem::create_directories(tree_ / "a");
  for (int i = 0; i < 20; ++i) Write(tree_ / "a" / std::to_string(i));
  EXPECT_THAT(RemoveTree(tree_, 10), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_TRUE(std::filesystem::exists(tree_));
  EXPECT_THAT(RemoveTree(tree_), IsOk());
}

}  // namespace
}  // namespace callboard::adapters
