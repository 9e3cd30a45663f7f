#include "services/director/session_list.h"

#include <algorithm>
#include <limits>
#include <string>

#include "libs/base/status_macros.h"
#include "libs/wire/field_checks.h"
#include "libs/wire/page.h"
#include "libs/wire/time.h"

namespace callboard {

absl::StatusOr<director::SessionQuery> SessionQueryFrom(const v1::ListSessionsRequest& request) {
  wire::FieldChecks checks;
  director::SessionQuery query = {.page_size = wire::ReadPageSize(request.page_size(), checks)};
  query.after = wire::ReadPageToken(request.page_token(), checks);
  RETURN_IF_ERROR(checks.status());
  return query;
}

v1::ListSessionsResponse ListResponse(const director::SessionPage& page) {
  v1::ListSessionsResponse response;
  for (const director::SessionView& view : page.sessions) {
    v1::TaskSession& session = *response.add_sessions();
    session.set_session_id(view.session_id);
    session.set_agent(view.agent);
    session.set_queued(static_cast<uint32_t>(
        std::min<uint64_t>(view.queued, std::numeric_limits<uint32_t>::max())));
    if (view.running.has_value()) session.set_running_queue_id(core::ToString(*view.running));
    *session.mutable_last_active_at() = wire::ToProto(view.active_at);
  }
  if (page.next.has_value()) response.set_next_page_token(wire::PageToken(*page.next));
  return response;
}

}  // namespace callboard
