#include "tests/crash/disk_image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "libs/testing/files.h"

namespace callboard::crash {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

using Contents = std::map<std::string, std::string>;

class DiskImageTest : public testing::Test {
 protected:
  void Creates(const std::string& path) { Add({.action = DiskAction::kCreate, .path = path}); }
  void Writes(const std::string& path, const std::string& data, uint64_t offset = 0) {
    Add({.action = DiskAction::kWrite, .path = path, .data = data, .offset = offset});
  }
  void Syncs(const std::string& path) {
    const uint64_t begun = ++tick_;
    Add({.begun = begun, .action = DiskAction::kSync, .path = path});
  }
  void Renames(const std::string& path, const std::string& other) {
    Add({.action = DiskAction::kRename, .path = path, .other = other});
  }
  void Add(DiskCall call) {
    call.tick = ++tick_;
    calls_.push_back(std::move(call));
  }

  Contents After(Unsynced unsynced, uint64_t seed = 0) const {
    const std::filesystem::path target = test::NewFolder();
    WriteImage(base_, calls_, {.tick = tick_, .unsynced = unsynced, .seed = seed}, target);
    return ContentsOf(target);
  }

  uint64_t tick_ = 0;
  std::filesystem::path base_ = "none";
  std::vector<DiskCall> calls_;
};

TEST_F(DiskImageTest, SyncedFileInASyncedFolderIsDurable) {
  Creates("a");
  Writes("a", "text");
  Syncs("a");
  EXPECT_THAT(After(Unsynced::kLost), IsEmpty());
  Syncs("");
  EXPECT_THAT(After(Unsynced::kLost), ElementsAre(Pair("a", "text")));
}

TEST_F(DiskImageTest, WritesAfterTheBeginningOfASyncAreNotSynced) {
  Creates("a");
  Syncs("");
  const uint64_t begun = ++tick_;
  Writes("a", "late");
  Add({.begun = begun, .action = DiskAction::kSync, .path = "a"});
  EXPECT_THAT(After(Unsynced::kLost), ElementsAre(Pair("a", "")));
}

TEST_F(DiskImageTest, UnsyncedOverwriteLeavesTheOldBytes) {
  Creates("a");
  Syncs("");
  Writes("a", "old bytes");
  Syncs("a");
  Writes("a", "new");
  EXPECT_THAT(After(Unsynced::kLost), ElementsAre(Pair("a", "old bytes")));
  EXPECT_THAT(After(Unsynced::kKept), ElementsAre(Pair("a", "new bytes")));
}

TEST_F(DiskImageTest, UnsyncedRenameIsLostAndContentStaysWithTheFile) {
  Creates("a.new");
  Writes("a.new", "1");
  Syncs("a.new");
  Syncs("");
  Renames("a.new", "a");
  EXPECT_THAT(After(Unsynced::kLost), ElementsAre(Pair("a.new", "1")));
  Writes("a", "2", 1);
  Syncs("a");
  EXPECT_THAT(After(Unsynced::kLost), ElementsAre(Pair("a.new", "12")));
  Syncs("");
  EXPECT_THAT(After(Unsynced::kLost), ElementsAre(Pair("a", "12")));
}

TEST_F(DiskImageTest, FolderIsRenamedWithItsContent) {
  Add({.action = DiskAction::kMakeFolder, .path = "f.new"});
  Creates("f.new/a");
  Add({.action = DiskAction::kLink, .path = "f.new/a", .other = "f.new/b"});
  Writes("f.new/b", "both");
  Renames("f.new", "f");
  Creates("f/c");
  Add({.action = DiskAction::kRemove, .path = "f/c"});
  EXPECT_THAT(After(Unsynced::kKept),
              ElementsAre(Pair("f/", ""), Pair("f/a", "both"), Pair("f/b", "both")));
}

TEST_F(DiskImageTest, CutShortChangesAreAPrefix) {
  Creates("a");
  Syncs("");
  Writes("a", "synced,");
  Syncs("a");
  Writes("a", "one,", 7);
  Writes("a", "two", 11);
  std::map<std::string, int> seen;
  for (uint64_t seed = 0; seed < 200; ++seed) ++seen[After(Unsynced::kCutShort, seed).at("a")];
  for (const auto& [text, times] : seen)
    EXPECT_TRUE(std::string("synced,one,two").starts_with(text)) << text;
  EXPECT_EQ(seen.size(), 8u);
  EXPECT_TRUE(seen.contains("synced,"));
  EXPECT_TRUE(seen.contains("synced,one,two"));
}

TEST_F(DiskImageTest, HolesAreZeros) {
  Creates("a");
  Syncs("");
  Writes("a", "1");
  Writes("a", "2", 1);
  std::map<std::string, int> seen;
  for (uint64_t seed = 0; seed < 100; ++seed) ++seen[After(Unsynced::kHoles, seed).at("a")];
  EXPECT_TRUE(
      seen.contains(std::string("\0"
                                "2",
                                2)));
  EXPECT_EQ(seen.size(), 4u);
}

TEST_F(DiskImageTest, BaseContentIsDurable) {
  Creates("a");
  Writes("a", "12");
  const std::filesystem::path base = test::NewFolder();
  WriteImage("none", calls_, {.tick = tick_, .unsynced = Unsynced::kKept}, base);
  base_ = base;
  calls_.clear();
  Add({.action = DiskAction::kTruncate, .path = "a", .offset = 1});
  EXPECT_THAT(After(Unsynced::kLost), ElementsAre(Pair("a", "12")));
  EXPECT_THAT(After(Unsynced::kKept), ElementsAre(Pair("a", "1")));
}

TEST_F(DiskImageTest, CallsAfterTheCutAreIgnored) {
  Creates("a");
  Syncs("");
  const std::filesystem::path target = test::NewFolder();
  WriteImage(base_, calls_, {.tick = 0, .unsynced = Unsynced::kKept}, target);
  EXPECT_THAT(ContentsOf(target), IsEmpty());
}

}  // namespace
}  // namespace callboard::crash
