#include "libs/base/text.h"

#include <gtest/gtest.h>

namespace callboard::base {
namespace {

TEST(NearestTest, FindsNamesWithOneOrTwoTypos) {
  const std::vector<std::string> names = {"max_size", "max_waiters", "policy"};
  EXPECT_EQ(Nearest("max_sise", names), "max_size");
  EXPECT_EQ(Nearest("maxsize", names), "max_size");
  EXPECT_EQ(Nearest("polciy", names), "policy");
}

TEST(NearestTest, FirstOfEquallyNearNamesWins) { EXPECT_EQ(Nearest("ab", {"ax", "ay"}), "ax"); }

TEST(NearestTest, ReturnsNothingIfNoNameIsNear) {
  EXPECT_EQ(Nearest("colour", {"max_size", "policy"}), "");
  EXPECT_EQ(Nearest("x", {}), "");
}

TEST(NearestTest, VeryLongNameIsNotComparedWithShortOnes) {
  // Compared character by character, this would take minutes.
  const std::string endless(10'000'000, 'x');
  EXPECT_EQ(Nearest(endless, std::vector<std::string>(1000, "max_size")), "");
}

}  // namespace
}  // namespace callboard::base
