#include "libs/adapters/subprocess_runner/launcher_link.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libs/testing/status_matchers.h"

namespace callboard::adapters {
namespace {

// The main of this test is GoogleTest's: the launcher runs this test instead of what it should, and
// ends in the check that keeps it from starting another one.
TEST(LauncherLinkTest, MainThatDoesNotKnowLaunchersIsNoticed) {
  const base::Descriptor lock(open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_THAT(LauncherLink::Start(lock, {}),
              test::StatusIs(absl::StatusCode::kFailedPrecondition,
                             testing::HasSubstr("MaybeRunSupervisor()")));
}

}  // namespace
}  // namespace callboard::adapters
