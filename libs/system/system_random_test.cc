#include "libs/system/system.h"

#include <gtest/gtest.h>

#include <set>

namespace callboard::system {
namespace {

TEST(SystemRandomTest, NumbersAreDistinctAndUseEveryBit) {
  SystemRandom random;
  std::set<uint64_t> seen;
  uint64_t set_once = 0;
  uint64_t clear_once = 0;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t number = random.Next();
    seen.insert(number);
    set_once |= number;
    clear_once |= ~number;
  }
  EXPECT_EQ(seen.size(), 1000u);
  EXPECT_EQ(set_once & clear_once, ~uint64_t{0});
}

}  // namespace
}  // namespace callboard::system
