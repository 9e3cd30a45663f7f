#include "libs/wire/queue_status.h"

#include <map>
#include <string>

#include "absl/time/time.h"
#include "libs/wire/enum_pairs.h"
#include "libs/wire/time.h"

namespace callboard::wire {
namespace {

void AddLiveCounts(const std::map<std::string, core::LiveCount>& counts,
                   google::protobuf::RepeatedPtrField<v1::LiveCount>& proto) {
  for (const auto& [key, count] : counts) {
    v1::LiveCount& entry = *proto.Add();
    entry.set_key(key);
    entry.set_queued(count.queued);
    entry.set_running(count.running);
  }
}

v1::QueueSwitch SwitchFrom(const core::SwitchCause& cause) {
  v1::QueueSwitch proto;
  proto.set_who(cause.who);
  proto.set_why(cause.why);
  *proto.mutable_at() = ToProto(cause.at);
  return proto;
}

}  // namespace

v1::QueueStatus ToProto(const core::QueueStatus& status) {
  v1::QueueStatus proto;
  proto.set_depth(static_cast<uint32_t>(status.counts.pending));
  proto.set_max_size(status.options.max_size);
  proto.set_policy(ToProto(kQueuePolicies, status.options.policy));
  proto.set_ready(status.ready);
  proto.set_delayed(status.delayed);
  proto.set_waiting(status.waiting);
  proto.set_tickets(status.tickets);
  proto.set_in_flight(static_cast<uint32_t>(status.in_flight()));
  proto.set_max_in_flight(status.max_in_flight);
  proto.set_dispatched_count(status.in_flight());
  proto.set_dispatches_total(status.dispatches_total);
  proto.set_idle(status.is_idle());
  proto.set_oldest_age_seconds(absl::ToDoubleSeconds(status.oldest_age));
  proto.set_paused(status.paused);
  proto.set_draining(status.draining);
  if (status.pause.has_value()) *proto.mutable_pause() = SwitchFrom(*status.pause);
  if (status.drain.has_value()) *proto.mutable_drain() = SwitchFrom(*status.drain);
  proto.set_drain_rate_per_second(status.drain_rate_per_second);
  v1::StateCounts& counts = *proto.mutable_counts();
  counts.set_pending(status.counts.pending);
  counts.set_dispatching(status.counts.dispatching);
  counts.set_working(status.counts.working);
  counts.set_completed(status.counts.completed);
  counts.set_failed(status.counts.failed);
  counts.set_cancelled(status.counts.cancelled);
  AddLiveCounts(status.sources, *proto.mutable_sources());
  AddLiveCounts(status.fairness_keys, *proto.mutable_fairness_keys());
  return proto;
}

}  // namespace callboard::wire
