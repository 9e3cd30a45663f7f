#include "libs/base/utf8_cut.h"

#include <gtest/gtest.h>

namespace callboard::base {
namespace {

TEST(Utf8CutTest, ShortTextStaysWhole) {
  EXPECT_EQ(Utf8Cut("", 3), "");
  EXPECT_EQ(Utf8Cut("aé", 3), "aé");
}

TEST(Utf8CutTest, NoCharacterIsCut) {
  EXPECT_EQ(Utf8Cut("aéb", 3), "aé");
  EXPECT_EQ(Utf8Cut("aéb", 2), "a");
  EXPECT_EQ(Utf8Cut("é", 1), "");
}

}  // namespace
}  // namespace callboard::base
