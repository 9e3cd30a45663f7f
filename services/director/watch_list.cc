#include "services/director/watch_list.h"

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/base/status_macros.h"
#include "libs/core/limits.h"
#include "libs/wire/field_checks.h"
#include "libs/wire/field_values.h"
#include "libs/wire/page.h"
#include "libs/wire/task.h"
#include "libs/wire/task_view.h"

namespace callboard {
namespace {

// Before the last of the current tasks there is nothing to go on from but the beginning.
constexpr char kBeginning[] = "begin";

// `<epoch>/<number>`
std::string ResumeToken(const std::optional<director::FeedPlace>& place) {
  if (!place.has_value()) return wire::PageToken(kBeginning);
  return wire::PageToken(absl::StrCat(place->epoch, "/", place->number));
}

std::optional<director::FeedPlace> ReadResumeToken(const std::string& token,
                                                   wire::FieldChecks& checks) {
  const std::string text = wire::PlaceIn(token).value_or("");
  if (text == kBeginning) return std::nullopt;
  const std::vector<std::string> parts = absl::StrSplit(text, '/');
  director::FeedPlace place;
  if (parts.size() == 2 && absl::SimpleAtoi(parts[0], &place.epoch) &&
      absl::SimpleAtoi(parts[1], &place.number)) {
    return place;
  }
  checks.Refuse("resume_token", "is not one that a message had");
  return std::nullopt;
}

}  // namespace

absl::StatusOr<director::WatchQuery> WatchQueryFrom(const v1::WatchTasksRequest& request) {
  wire::FieldChecks checks;
  director::WatchQuery query = {.resumes = !request.resume_token().empty()};
  checks.AtMost("queue_ids", static_cast<uint64_t>(request.queue_ids_size()),
                core::kWatchedTasksMax, "entries");
  for (int i = 0; i < request.queue_ids_size() && checks.status().ok(); ++i) {
    const std::string field = absl::StrCat("queue_ids[", i, "]");
    if (request.queue_ids(i).empty()) checks.Refuse(field, "is empty");
    const auto id = wire::ReadQueueId(field, request.queue_ids(i), checks);
    query.tasks.push_back(id.value_or(core::QueueId()));
  }
  if (query.resumes) query.from = ReadResumeToken(request.resume_token(), checks);
  RETURN_IF_ERROR(checks.status());
  return query;
}

v1::WatchTasksResponse ToProto(const director::Watched& watched) {
  v1::WatchTasksResponse response;
  response.set_resume_token(ResumeToken(watched.place));
  response.set_reset(watched.reset);
  for (const director::Watched::Item& item : watched.items) {
    v1::WatchTasksResponse::Change& change = *response.add_changes();
    *change.mutable_task() = wire::ToProto(*item.task);
    wire::MakeListed(*change.mutable_task());
    if (item.event.has_value()) *change.mutable_event() = wire::ToProto(*item.event);
  }
  return response;
}

}  // namespace callboard
