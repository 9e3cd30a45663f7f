#include "libs/ports/environment.h"

#include <gtest/gtest.h>

namespace callboard::ports {
namespace {

class CountingRandom final : public Random {
 public:
  uint64_t Next() override { return ++last_; }

 private:
  uint64_t last_ = 9;
};

TEST(RandomTest, NamesHaveSixteenDigitsInLowerCase) {
  CountingRandom random;
  EXPECT_EQ(NewName(random), "000000000000000a");
  EXPECT_EQ(NewName(random), "000000000000000b");
}

}  // namespace
}  // namespace callboard::ports
