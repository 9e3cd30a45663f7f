#include "services/director/start_director.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "libs/base/check.h"
#include "libs/config/settings.h"
#include "libs/testing/status_matchers.h"

namespace callboard {
namespace {

// Returns the concurrency limit of the lane.
uint32_t ConcurrencyOf(const flow::FlowOptions& flow, const std::string& lane) {
  const auto found = std::find_if(flow.lanes.begin(), flow.lanes.end(),
                                  [&lane](const auto& known) { return known.name == lane; });
  return found == flow.lanes.end() ? 0 : found->limit.concurrency;
}

TEST(DirectorFlowTest, ReadsGetTheIoConcurrency) {
  const flow::Machine large = {
      .processors = 2, .memory_bytes = uint64_t{64} << 30, .pool_threads = 8};
  flow::Machine small = large;
  small.memory_bytes = uint64_t{8} << 30;
  config::v1::FlowConfig config;
  config.set_threads(40);
  const auto reads = [&](const flow::Machine& machine) {
    const auto flow = DirectorFlow(config, machine, {});
    EXPECT_THAT(flow, test::IsOk());
    return ConcurrencyOf(*flow, "reads");
  };
  EXPECT_EQ(reads(large), 32u) << "four times the threads of its pool";
  EXPECT_EQ(reads(small), 16u) << "limited by its memory";
}

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

using ::testing::StartsWith;

TEST(StatusPageTest, HasTypeVersionAndQueue) {
  core::QueueStatus queue;
  queue.counts.pending = 3;
  EXPECT_THAT(StatusPage(queue),
              StartsWith(R"({"type":"view","interfaces":["statusable","observable","taskable"],)"
                         R"("version":"0.1.0","queue":{"depth":3,"max_size":50,)"));
}

}  // namespace
}  // namespace callboard
