#include "services/director/start_director.h"

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

// Returns the settings with these flags.
config::v1::DirectorConfig ConfigWithFlags(const std::vector<const char*>& flags) {
  config::v1::DirectorConfig config;
  CHECK_OK(config::LoadSettings({.arguments = flags, .environment = {}}, config).status());
  return config;
}

TEST(DirectorOptionsTest, EveryPolicyIsConverted) {
  const std::pair<const char*, core::QueuePolicy> policies[] = {
      {"--queue.policy=reject", core::QueuePolicy::kReject},
      {"--queue.policy=block", core::QueuePolicy::kBlock},
      {"--queue.policy=drop-oldest", core::QueuePolicy::kDropOldest},
      {"--queue.policy=drop-latest", core::QueuePolicy::kDropLatest},
  };
  for (const auto& [flag, policy] : policies) {
    const auto options = DriverOptionsFrom(ConfigWithFlags({flag, "--queue.max_size=7"}));
    ASSERT_THAT(options, IsOk());
    EXPECT_EQ(options->engine.queue.policy, policy);
    EXPECT_EQ(options->engine.queue.max_size, 7u);
  }
}

TEST(DirectorOptionsTest, EngineGetsEverySetting) {
  const auto options = DriverOptionsFrom(ConfigWithFlags(
      {"--queue.max_attempts=4", "--queue.dispatch_timeout=5s", "--queue.max_waiters=6",
       "--queue.max_waiting_bytes=7", "--queue.scheduler_share=0.5", "--queue.allow_evict",
       "--lease.heartbeat=8s", "--lease.self_fence=20s", "--lease.kill_grace=9s",
       "--lease.redispatch_after=40s", "--retention.age=10h", "--retention.count=11"}));
  ASSERT_THAT(options, IsOk());
  const director::EngineOptions& engine = options->engine;
  EXPECT_EQ(engine.queue.max_attempts, 4u);
  EXPECT_EQ(engine.queue.dispatch_timeout, absl::Seconds(5));
  EXPECT_EQ(engine.queue.max_waiters, 6u);
  EXPECT_EQ(engine.queue.max_waiting_bytes, 7u);
  EXPECT_EQ(engine.queue.scheduler_share, 0.5);
  EXPECT_TRUE(engine.queue.allow_evict);
  EXPECT_EQ(engine.lease.heartbeat, absl::Seconds(8));
  EXPECT_EQ(engine.lease.self_fence, absl::Seconds(20));
  EXPECT_EQ(engine.lease.kill_grace, absl::Seconds(9));
  EXPECT_EQ(engine.lease.redispatch_after, absl::Seconds(40));
  EXPECT_EQ(engine.retention.age, absl::Hours(10));
  EXPECT_EQ(engine.retention.count, 11u);
}

// Both the settings and the engine define the defaults; they must be equal.
TEST(DirectorOptionsTest, DefaultsEqualThoseOfTheEngine) {
  const auto options = DriverOptionsFrom(ConfigWithFlags({}));
  ASSERT_THAT(options, IsOk());
  EXPECT_EQ(options->engine, director::EngineOptions());
}

TEST(DirectorOptionsTest, RedispatchMustWaitForTheSelfFence) {
  EXPECT_THAT(DriverOptionsFrom(ConfigWithFlags({"--lease.redispatch_after=65s"})), IsOk());
  EXPECT_THAT(DriverOptionsFrom(ConfigWithFlags({"--lease.redispatch_after=64s"})),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("lease.redispatch_after is 1m4s; a task is gone from its agent "
                                 "only after lease.self_fence + lease.kill_grace + 5s: set it to "
                                 "1m5s or more")));
}

}  // namespace
}  // namespace callboard
