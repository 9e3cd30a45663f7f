#include "services/director/explanation.h"

#include "libs/wire/enum_pairs.h"
#include "libs/wire/time.h"

namespace callboard {

v1::ExplainTaskResponse ToProto(core::QueueId id, const director::Explanation& explanation) {
  v1::ExplainTaskResponse proto;
  proto.set_queue_id(core::ToString(id));
  proto.set_state(wire::ToProto(wire::kTaskStates, explanation.state));
  proto.set_position(explanation.position);
  proto.set_ready_ahead(explanation.ready_ahead);
  proto.set_summary(explanation.summary);
  if (explanation.not_before.has_value()) {
    *proto.mutable_not_before() = wire::ToProto(*explanation.not_before);
  }
  for (const director::Explanation::Verdict& verdict : explanation.agents) {
    auto& agent = *proto.add_agents();
    agent.set_agent(verdict.agent);
    agent.set_fits(verdict.fits);
    agent.set_why_not(verdict.why_not);
  }
  if (explanation.estimated_start_at.has_value()) {
    *proto.mutable_estimated_start_at() = wire::ToProto(*explanation.estimated_start_at);
  }
  return proto;
}

}  // namespace callboard
