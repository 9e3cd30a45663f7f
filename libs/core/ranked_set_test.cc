#include "libs/core/ranked_set.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>

namespace callboard::core {
namespace {

TEST(RankedSetTest, CountsBelowNumbersBeyondTheTree) {
  RankedSet set;
  EXPECT_EQ(set.CountBelow(0), 0u);
  for (const uint64_t number : {5, 63, 64, 4095, 4096, 1'000'000}) set.Insert(number);
  EXPECT_EQ(set.CountBelow(5), 0u);
  EXPECT_EQ(set.CountBelow(6), 1u);
  EXPECT_EQ(set.CountBelow(64), 2u);
  EXPECT_EQ(set.CountBelow(4097), 5u);
  EXPECT_EQ(set.CountBelow(500'000), 5u);
  EXPECT_EQ(set.CountBelow(std::numeric_limits<uint64_t>::max()), 6u);
}

TEST(RankedSetTest, HoldsTheLargestNumbers) {
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  RankedSet set;
  set.Insert(0);
  set.Insert(kMax);
  set.Insert(kMax - 1);
  EXPECT_EQ(set.CountBelow(kMax), 2u);
  set.Erase(kMax - 1);
  EXPECT_EQ(set.CountBelow(kMax), 1u);
  EXPECT_EQ(set.size(), 2u);
}

TEST(RankedSetTest, MatchesAReferenceSetThroughInsertsAndErasures) {
  RankedSet set;
  std::set<uint64_t> model;
  // Pseudo-random steps over numbers of all sizes, the same in every run.
  uint64_t number = 1;
  for (int step = 0; step < 20'000; ++step) {
    number = number * 6364136223846793005 + 1442695040888963407;
    const uint64_t candidate = (number >> 33) % (step % 3 == 0 ? 100 : 300'000);
    if (model.insert(candidate).second) {
      set.Insert(candidate);
    } else {
      model.erase(candidate);
      set.Erase(candidate);
    }
    if (step % 50 == 0) {
      const auto below = std::distance(model.begin(), model.lower_bound(candidate));
      ASSERT_EQ(set.CountBelow(candidate), static_cast<uint64_t>(below)) << step;
    }
  }
  EXPECT_EQ(set.size(), model.size());
}

TEST(RankedSetDeathTest, DoubleInsertAndAbsentEraseAreBugs) {
  RankedSet set;
  set.Insert(7);
  EXPECT_DEATH(set.Insert(7), "check failed");
  EXPECT_DEATH(set.Erase(8), "check failed");
  EXPECT_DEATH(set.Erase(1'000'000), "check failed");
}

}  // namespace
}  // namespace callboard::core
