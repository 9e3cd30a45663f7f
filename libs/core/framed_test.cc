#include "libs/core/framed.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace callboard::core {
namespace {

TEST(FramedTest, PiecesComeBackInTheirOrder) {
  std::string text;
  for (const char* piece : {"one", "", "three"}) AppendFramed(piece, text);
  absl::string_view rest = text;
  EXPECT_EQ(TakeFramed(rest), "one");
  EXPECT_EQ(TakeFramed(rest), "");
  EXPECT_EQ(TakeFramed(rest), "three");
  EXPECT_EQ(TakeFramed(rest), std::nullopt);
  EXPECT_TRUE(rest.empty());
}

TEST(FramedTest, PieceThatIsNotWholeIsLeft) {
  std::string text;
  AppendFramed("a piece", text);
  for (size_t bytes = 0; bytes < text.size(); ++bytes) {
    absl::string_view rest = absl::string_view(text).substr(0, bytes);
    EXPECT_EQ(TakeFramed(rest), std::nullopt) << bytes;
    EXPECT_EQ(rest.size(), bytes);
  }
}

TEST(FramedTest, PieceWithAnyByteChangedIsLeft) {
  std::string text;
  AppendFramed("a piece", text);
  for (size_t i = 0; i < text.size(); ++i) {
    // Nobody looks at what fills the frame up.
    if (i >= 4 && i < 8) continue;
    std::string damaged = text;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    absl::string_view rest = damaged;
    EXPECT_EQ(TakeFramed(rest), std::nullopt) << i;
  }
}

}  // namespace
}  // namespace callboard::core
