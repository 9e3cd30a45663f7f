#include "services/director/status_page.h"

#include "libs/server/view_page.h"
#include "libs/wire/json.h"
#include "libs/wire/queue_status.h"

namespace callboard {

std::string StatusPage(const core::QueueStatus& queue) {
  return server::ViewPage({"statusable", "observable", "taskable"},
                          {{"queue", wire::ToJson(wire::ToProto(queue))}});
}

}  // namespace callboard
