#include "libs/core/hash.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace callboard::core {
namespace {

TEST(StableHashTest, StoredValueNeverChanges) {
  EXPECT_EQ(StableHash().Add("callboard").Add(7).value(), 989025602097101725u);
}

TEST(StableHashTest, DependsOnOrderAndTextBoundaries) {
  EXPECT_NE(StableHash().Add("a").value(), StableHash().Add("a").second_value());
  EXPECT_NE(StableHash().Add("a").Add("b").value(), StableHash().Add("b").Add("a").value());
  EXPECT_NE(StableHash().Add("ab").Add("c").value(), StableHash().Add("a").Add("bc").value());
}

TEST(FramedTest, FramesAreReadInOrder) {
  std::string text;
  for (const char* piece : {"one", "", "three"}) AppendFrame(piece, text);
  absl::string_view rest = text;
  EXPECT_EQ(ConsumeFrame(rest), "one");
  EXPECT_EQ(ConsumeFrame(rest), "");
  EXPECT_EQ(ConsumeFrame(rest), "three");
  EXPECT_EQ(ConsumeFrame(rest), std::nullopt);
  EXPECT_TRUE(rest.empty());
}

TEST(FramedTest, IncompleteFrameIsNotConsumed) {
  std::string text;
  AppendFrame("a piece", text);
  for (size_t bytes = 0; bytes < text.size(); ++bytes) {
    absl::string_view rest = absl::string_view(text).substr(0, bytes);
    EXPECT_EQ(ConsumeFrame(rest), std::nullopt) << bytes;
    EXPECT_EQ(rest.size(), bytes);
  }
}

TEST(FramedTest, DamagedFrameIsNotConsumed) {
  std::string text;
  AppendFrame("a piece", text);
  for (size_t i = 0; i < text.size(); ++i) {
    // The padding of the header is not checked.
    if (i >= 4 && i < 8) continue;
    std::string damaged = text;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    absl::string_view rest = damaged;
    EXPECT_EQ(ConsumeFrame(rest), std::nullopt) << i;
  }
}

}  // namespace
}  // namespace callboard::core
