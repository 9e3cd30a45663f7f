#include "libs/runner/launcher.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libs/testing/status_matchers.h"

namespace callboard::runner {
namespace {

// The `main` of this test is that of GoogleTest. The launcher process runs this test again, and
// fails the check that a launcher does not start another launcher.
TEST(LauncherLinkTest, StartFailsWhenMainDoesNotRunTheLauncher) {
  const base::Descriptor lock(open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_THAT(LauncherLink::Start(lock, {}),
              test::StatusIs(absl::StatusCode::kFailedPrecondition,
                             testing::HasSubstr("MaybeRunLauncher()")));
}

}  // namespace
}  // namespace callboard::runner
