#include "services/cli/dev.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libs/testing/status_matchers.h"

namespace callboard::cli {
namespace {

using test::StatusIs;
using ::testing::HasSubstr;

TEST(DevTest, DefaultDataDirIsInTheUsersStateFolder) {
  EXPECT_EQ(*DefaultDataDir({{"HOME", "/u"}}), "/u/.local/state/callboard");
  EXPECT_EQ(*DefaultDataDir({{"HOME", "/u"}, {"XDG_STATE_HOME", "/state"}}), "/state/callboard");
}

TEST(DevTest, MissingHomeIsAnErrorThatAsksForDataDir) {
  EXPECT_THAT(DefaultDataDir({{"HOME", ""}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("give --data_dir")));
}

}  // namespace
}  // namespace callboard::cli
