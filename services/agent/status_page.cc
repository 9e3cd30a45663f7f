#include "services/agent/status_page.h"

#include <map>

#include "callboard/v1/agent.pb.h"
#include "libs/base/version.h"
#include "libs/server/view_page.h"
#include "libs/wire/json.h"

namespace callboard {

std::string StatusPage(const config::v1::AgentConfig& config) {
  v1::AgentStatus status;
  status.set_name(config.agent().name());
  status.set_version(std::string(base::kVersion));
  *status.mutable_labels() = config.agent().labels();
  // A map has no order; a page has.
  for (const auto& [name, slots] :
       std::map<std::string, uint32_t>(config.lanes().begin(), config.lanes().end())) {
    v1::Lane& lane = *status.add_lanes();
    lane.set_name(name);
    lane.set_slots(slots);
  }
  return server::ViewPage({"statusable", "observable", "taskable"}, "agent", wire::ToJson(status));
}

}  // namespace callboard
