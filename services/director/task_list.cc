#include "services/director/task_list.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/base/status_macros.h"
#include "libs/core/limits.h"
#include "libs/wire/enum_pairs.h"
#include "libs/wire/field_checks.h"
#include "libs/wire/field_values.h"
#include "libs/wire/page.h"
#include "libs/wire/task.h"
#include "libs/wire/task_view.h"

namespace callboard {
namespace {

// `live/<sequence>` or `ended/<unix nanoseconds>/<queue id>`.
std::string PlaceOf(const director::ListCursor& cursor) {
  if (cursor.live.has_value()) return absl::StrCat("live/", *cursor.live);
  return absl::StrCat("ended/", absl::ToUnixNanos(cursor.ended.first), "/",
                      core::ToString(cursor.ended.second));
}

std::optional<director::ListCursor> CursorFrom(const std::string& token) {
  const std::vector<std::string> parts = absl::StrSplit(wire::PlaceIn(token).value_or(""), '/');
  uint64_t sequence = 0;
  if (parts.size() == 2 && parts[0] == "live" && absl::SimpleAtoi(parts[1], &sequence)) {
    return director::ListCursor{.live = sequence};
  }
  int64_t nanos = 0;
  if (parts.size() != 3 || parts[0] != "ended" || !absl::SimpleAtoi(parts[1], &nanos)) {
    return std::nullopt;
  }
  const std::optional<core::QueueId> id = core::ParseQueueId(parts[2]);
  if (!id.has_value()) return std::nullopt;
  return director::ListCursor{.ended = {absl::FromUnixNanos(nanos), *id}};
}

void ReadLabel(const std::string& label, director::ListQuery& query, wire::FieldChecks& checks) {
  if (label.empty()) return;
  const std::pair<std::string, std::string> parts = absl::StrSplit(label, absl::MaxSplits('=', 1));
  query.label = parts.first;
  if (label.find('=') != std::string::npos) query.label_value = parts.second;
  if (query.label.empty()) checks.Refuse("label", "has no key: write key or key=value");
}

}  // namespace

absl::StatusOr<director::ListQuery> ListQueryFrom(const v1::ListTasksRequest& request) {
  wire::FieldChecks checks;
  director::ListQuery query;
  for (const int state : request.states()) {
    const std::optional<core::TaskState> known =
        wire::ReadEnum("states", wire::kTaskStates, static_cast<v1::Task::State>(state), checks);
    if (known.has_value()) query.states.insert(*known);
  }
  query.source = wire::ReadSource(request.source(), checks);
  query.source_job =
      wire::ReadText("source_job", request.source_job(), core::kNameBytesMax, checks);
  query.job_type = wire::ReadText("job_type", request.job_type(), core::kNameBytesMax, checks);
  query.session_id =
      wire::ReadText("session_id", request.session_id(), core::kNameBytesMax, checks);
  ReadLabel(request.label(), query, checks);
  if (request.has_ready()) query.ready = request.ready();
  query.page_size = wire::ReadPageSize(request.page_size(), checks);
  if (!request.page_token().empty()) {
    query.after = CursorFrom(request.page_token());
    if (!query.after.has_value()) wire::RefusePageToken(checks);
  }
  RETURN_IF_ERROR(checks.status());
  return query;
}

v1::ListTasksResponse ListResponse(const director::TaskPage& page) {
  v1::ListTasksResponse response;
  wire::PageBytes bytes;
  std::optional<director::ListCursor> next = page.next;
  for (size_t i = 0; i < page.tasks.size(); ++i) {
    v1::Task task = wire::ToProto(page.tasks[i].task);
    wire::MakeListed(task);
    if (!bytes.Add(task)) {
      next = page.tasks[i - 1].here;
      break;
    }
    *response.add_tasks() = std::move(task);
  }
  if (next.has_value()) response.set_next_page_token(wire::PageToken(PlaceOf(*next)));
  return response;
}

}  // namespace callboard
