#include "services/director/event_list.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libs/base/status_macros.h"
#include "libs/wire/field_checks.h"
#include "libs/wire/field_values.h"
#include "libs/wire/page.h"
#include "libs/wire/task.h"

namespace callboard {

absl::StatusOr<director::EventQuery> EventQueryFrom(const v1::ListTaskEventsRequest& request) {
  wire::FieldChecks checks;
  director::EventQuery query;
  query.queue_id = wire::ReadRequiredQueueId(request.queue_id(), checks);
  query.page_size = wire::ReadPageSize(request.page_size(), checks);
  if (!request.page_token().empty() &&
      !absl::SimpleAtoi(wire::PlaceIn(request.page_token()).value_or(""), &query.first)) {
    wire::RefusePageToken(checks);
  }
  RETURN_IF_ERROR(checks.status());
  return query;
}

v1::ListTaskEventsResponse ListResponse(const director::EventPage& page) {
  v1::ListTaskEventsResponse response;
  wire::PageBytes bytes;
  bool has_more = page.has_more;
  for (const core::TaskEvent& event : page.events) {
    v1::TaskEvent proto = wire::ToProto(event);
    if (!bytes.Add(proto)) {
      has_more = true;
      break;
    }
    *response.add_events() = std::move(proto);
  }
  if (has_more) {
    response.set_next_page_token(
        wire::PageToken(absl::StrCat(page.first + static_cast<size_t>(response.events_size()))));
  }
  return response;
}

}  // namespace callboard
