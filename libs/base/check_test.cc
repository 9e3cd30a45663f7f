#include "libs/base/check.h"

#include <gtest/gtest.h>

namespace callboard::base {
namespace {

TEST(CheckTest, TrueConditionIsEvaluatedOnce) {
  int evaluated = 0;
  CHECK(++evaluated == 1) << "never formatted";
  CHECK_EQ(++evaluated, 2);
  CHECK_OK(absl::OkStatus());
  EXPECT_EQ(evaluated, 2);
}

TEST(CheckTest, FailureNamesFileExpressionAndMessage) {
  EXPECT_DEATH(CHECK(1 > 2) << "because", "check_test.cc:[0-9]+: check failed: 1 > 2 because");
}

TEST(CheckTest, FailedComparisonShowsBothValues) {
  const int size = 51;
  EXPECT_DEATH(CHECK_LE(size, 50) << "tasks", "size <= 50 \\(51 vs. 50\\) tasks");
}

TEST(CheckTest, FailedStatusIsShown) {
  EXPECT_DEATH(CHECK_OK(absl::DataLossError("torn")), "DATA_LOSS: torn");
}

TEST(CheckTest, IsOneStatementInAnUnbracedIf) {
  bool otherwise = false;
  if (otherwise)
    CHECK_EQ(1, 1);
  else
    otherwise = true;
  EXPECT_TRUE(otherwise);
}

}  // namespace
}  // namespace callboard::base
