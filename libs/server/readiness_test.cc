#include "libs/server/readiness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace callboard::server {
namespace {

using ::testing::ElementsAre;

TEST(ReadinessTest, WatcherHearsHowItIsAndThenOfChangesOnly) {
  Readiness readiness;
  std::vector<bool> heard;
  readiness.Watch([&heard](bool ready) { heard.push_back(ready); });
  readiness.Set("");
  readiness.Set("the store is away");
  readiness.Set("the store is still away");
  EXPECT_EQ(readiness.why_not(), "the store is still away");
  readiness.Set("");
  EXPECT_THAT(heard, ElementsAre(true, false, true));
  readiness.Watch(nullptr);
  readiness.Set("nobody hears this");
  EXPECT_THAT(heard, ElementsAre(true, false, true));
}

TEST(ReadinessTest, WatcherThatComesLateHearsTheWorst) {
  Readiness readiness;
  readiness.Set("the store is away");
  std::vector<bool> heard;
  readiness.Watch([&heard](bool ready) { heard.push_back(ready); });
  EXPECT_THAT(heard, ElementsAre(false));
}

}  // namespace
}  // namespace callboard::server
