#include "libs/core/cron.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "libs/testing/status_matchers.h"

namespace callboard::core {
namespace {

using ::callboard::test::StatusIs;

auto IsWrong(const std::string& message) {
  return StatusIs(absl::StatusCode::kInvalidArgument, message);
}

TEST(CronTest, ErrorPointsAtTheField) {
  EXPECT_THAT(Cron::Parse("*/5,75 * * * *", {}),
              IsWrong("minute: 75 is not in 0-59 (field 1, column 5 of \"*/5,75 * * * *\")"));
}

}  // namespace
}  // namespace callboard::core
