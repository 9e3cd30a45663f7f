#include "services/director/director_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "libs/base/check.h"
#include "libs/config/settings.h"
#include "libs/testing/status_matchers.h"

namespace callboard {
namespace {

using test::IsOk;
using test::StatusIs;
using ::testing::HasSubstr;

// The settings that these flags give.
config::v1::DirectorConfig Configured(const std::vector<const char*>& flags) {
  config::v1::DirectorConfig config;
  CHECK_OK(config::LoadSettings({.arguments = flags, .environment = {}}, config).status());
  return config;
}

TEST(DirectorOptionsTest, EveryPolicyHasItsCounterpart) {
  const std::pair<const char*, core::QueuePolicy> policies[] = {
      {"--queue.policy=reject", core::QueuePolicy::kReject},
      {"--queue.policy=block", core::QueuePolicy::kBlock},
      {"--queue.policy=drop-oldest", core::QueuePolicy::kDropOldest},
      {"--queue.policy=drop-latest", core::QueuePolicy::kDropLatest},
  };
  for (const auto& [flag, policy] : policies) {
    const auto options = DriverOptionsFrom(Configured({flag, "--queue.max_size=7"}));
    ASSERT_THAT(options, IsOk());
    EXPECT_EQ(options->queue.policy, policy);
    EXPECT_EQ(options->queue.max_size, 7u);
  }
}

TEST(DirectorOptionsTest, TaskMustBeGoneFromItsAgentBeforeAnotherGetsIt) {
  EXPECT_THAT(DriverOptionsFrom(Configured({"--lease.redispatch_after=65s"})), IsOk());
  EXPECT_THAT(DriverOptionsFrom(Configured({"--lease.redispatch_after=64s"})),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("lease.redispatch_after is 1m4s; a task is gone from its agent "
                                 "only after lease.self_fence + lease.kill_grace + 5s: set it to "
                                 "1m5s or more")));
}

}  // namespace
}  // namespace callboard
