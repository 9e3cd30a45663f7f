#include "services/agent/status_page.h"

#include "libs/server/view_page.h"
#include "libs/wire/json.h"
#include "services/agent/agent_service.h"

namespace callboard {

std::string StatusPage(const agent::AgentView& view) {
  return server::ViewPage({"statusable", "observable", "taskable"},
                          {{"agent", wire::ToJson(ToProto(view))}});
}

}  // namespace callboard
