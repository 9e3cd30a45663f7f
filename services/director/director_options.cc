#include "services/director/director_options.h"

#include "libs/base/check.h"

namespace callboard {
namespace {

using config::v1::QueueConfig;

core::QueuePolicy PolicyFrom(QueueConfig::Policy policy) {
  switch (policy) {
    case QueueConfig::POLICY_REJECT:
      return core::QueuePolicy::kReject;
    case QueueConfig::POLICY_BLOCK:
      return core::QueuePolicy::kBlock;
    case QueueConfig::POLICY_DROP_OLDEST:
      return core::QueuePolicy::kDropOldest;
    case QueueConfig::POLICY_DROP_LATEST:
      return core::QueuePolicy::kDropLatest;
    default:
      CHECK(false) << "queue.policy has a default and is parsed by name: " << policy;
      return core::QueuePolicy::kReject;
  }
}

}  // namespace

director::DriverOptions DriverOptionsFrom(const config::v1::DirectorConfig& config) {
  return {.queue = {.max_size = config.queue().max_size(),
                    .policy = PolicyFrom(config.queue().policy())}};
}

}  // namespace callboard
