#include "services/director/director_options.h"

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/base/check.h"
#include "libs/base/status_macros.h"
#include "libs/wire/time.h"

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

// Clocks of two machines may drift apart by this much within a lease.
constexpr absl::Duration kClockDriftMax = absl::Seconds(5);

absl::Duration FromProto(const google::protobuf::Duration& proto) {
  return wire::FromProto(proto).value();
}

// A task may go to another agent only when the first one has killed it, by its own clock.
absl::Status CheckLease(const config::v1::LeaseConfig& lease) {
  const absl::Duration gone =
      FromProto(lease.self_fence()) + FromProto(lease.kill_grace()) + kClockDriftMax;
  if (FromProto(lease.redispatch_after()) >= gone) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "lease.redispatch_after is ", absl::FormatDuration(FromProto(lease.redispatch_after())),
      "; a task is gone from its agent only after lease.self_fence + lease.kill_grace + ",
      absl::FormatDuration(kClockDriftMax), ": set it to ", absl::FormatDuration(gone),
      " or more"));
}

}  // namespace

absl::StatusOr<director::DriverOptions> DriverOptionsFrom(
    const config::v1::DirectorConfig& config) {
  RETURN_IF_ERROR(CheckLease(config.lease()));
  const config::v1::QueueConfig& queue = config.queue();
  const config::v1::LeaseConfig& lease = config.lease();
  return director::DriverOptions{
      .engine = {.queue = {.max_size = queue.max_size(),
                           .policy = PolicyFrom(queue.policy()),
                           .max_attempts = queue.max_attempts(),
                           .dispatch_timeout = FromProto(queue.dispatch_timeout()),
                           .max_waiters = queue.max_waiters(),
                           .max_waiting_bytes = queue.max_waiting_bytes(),
                           .scheduler_share = queue.scheduler_share(),
                           .allow_evict = queue.allow_evict()},
                 .lease = {.heartbeat = FromProto(lease.heartbeat()),
                           .self_fence = FromProto(lease.self_fence()),
                           .redispatch_after = FromProto(lease.redispatch_after()),
                           .kill_grace = FromProto(lease.kill_grace())},
                 .retention = {.age = FromProto(config.retention().age()),
                               .count = config.retention().count()}}};
}

}  // namespace callboard
