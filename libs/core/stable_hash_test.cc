#include "libs/core/hash.h"

#include <gtest/gtest.h>

namespace callboard::core {
namespace {

TEST(StableHashTest, StaysWhatItWasWhenItWasStored) {
  EXPECT_EQ(StableHash().Add("callboard").Add(7).value(), 989025602097101725u);
}

TEST(StableHashTest, DependsOnOrderAndTextBoundaries) {
  EXPECT_NE(StableHash().Add("a").value(), StableHash().Add("a").second_value());
  EXPECT_NE(StableHash().Add("a").Add("b").value(), StableHash().Add("b").Add("a").value());
  EXPECT_NE(StableHash().Add("ab").Add("c").value(), StableHash().Add("a").Add("bc").value());
}

}  // namespace
}  // namespace callboard::core
