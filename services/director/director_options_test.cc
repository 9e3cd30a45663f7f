#include "services/director/director_options.h"

#include <gtest/gtest.h>

namespace callboard {
namespace {

using config::v1::QueueConfig;

TEST(DirectorOptionsTest, EveryPolicyHasItsCounterpart) {
  const std::pair<QueueConfig::Policy, core::QueuePolicy> policies[] = {
      {QueueConfig::POLICY_REJECT, core::QueuePolicy::kReject},
      {QueueConfig::POLICY_BLOCK, core::QueuePolicy::kBlock},
      {QueueConfig::POLICY_DROP_OLDEST, core::QueuePolicy::kDropOldest},
      {QueueConfig::POLICY_DROP_LATEST, core::QueuePolicy::kDropLatest},
  };
  for (const auto& [setting, policy] : policies) {
    config::v1::DirectorConfig config;
    config.mutable_queue()->set_max_size(7);
    config.mutable_queue()->set_policy(setting);
    EXPECT_EQ(DriverOptionsFrom(config).queue.policy, policy);
    EXPECT_EQ(DriverOptionsFrom(config).queue.max_size, 7u);
  }
}

}  // namespace
}  // namespace callboard
