#include "libs/server/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace callboard::server {
namespace {

using ::testing::ElementsAre;

TEST(ReadinessTest, ListenerGetsTheCurrentStateAndThenChanges) {
  Readiness readiness;
  std::vector<bool> states;
  readiness.SetListener([&states](bool ready) { states.push_back(ready); });
  readiness.Set("");
  readiness.Set("the store is away");
  readiness.Set("the store is still away");
  EXPECT_EQ(readiness.unready_reason(), "the store is still away");
  readiness.Set("");
  EXPECT_THAT(states, ElementsAre(true, false, true));
  readiness.SetListener(nullptr);
  readiness.Set("the store is away");
  EXPECT_THAT(states, ElementsAre(true, false, true));
}

TEST(ReadinessTest, LateListenerGetsTheCurrentState) {
  Readiness readiness;
  readiness.Set("the store is away");
  std::vector<bool> states;
  readiness.SetListener([&states](bool ready) { states.push_back(ready); });
  EXPECT_THAT(states, ElementsAre(false));
}

}  // namespace
}  // namespace callboard::server
