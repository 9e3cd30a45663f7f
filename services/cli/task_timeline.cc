#include "services/cli/task_timeline.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "libs/wire/enum_text.h"
#include "libs/wire/json.h"
#include "libs/wire/time.h"
#include "services/cli/answer_text.h"

namespace callboard::cli {
namespace {

using v1::TaskEvent;

// Characters of a reason that are shown; -o json has all.
constexpr size_t kWhyMax = 160;

absl::Time TimeOf(const google::protobuf::Timestamp& proto) {
  return wire::FromProto(proto).value_or(absl::UnixEpoch());
}

// Below zero where the wall clock was set back.
std::string AfterText(absl::Duration after) {
  return absl::StrCat(after < absl::ZeroDuration() ? "" : "+",
                      absl::FormatDuration(absl::Trunc(after, absl::Milliseconds(1))));
}

std::string PlaceText(const TaskEvent& event) {
  const auto place = [](uint64_t position) {
    return position == 0 ? std::string("-") : absl::StrCat(position);
  };
  if (event.place_before() == event.place_after()) return place(event.place_after());
  return absl::StrCat(place(event.place_before()), " -> ", place(event.place_after()));
}

std::string FaultText(const TaskEvent& event) {
  return event.fault() == TaskEvent::FAULT_UNSPECIFIED
             ? "-"
             : wire::EnumText(*TaskEvent::Fault_descriptor(), event.fault());
}

std::string OrDash(const std::string& text) { return text.empty() ? "-" : text; }

}  // namespace

std::string TimelineTable(const v1::Task& task, const std::vector<TaskEvent>& events) {
  std::vector<std::vector<std::string>> rows = {
      {"TIME", "AFTER", "EVENT", "WHO", "FAULT", "PLACE", "RUN", "AGENT", "WHY"}};
  for (const TaskEvent& event : events) {
    rows.push_back({TimeText(event.at()),
                    AfterText(TimeOf(event.at()) - TimeOf(task.submitted_at())),
                    wire::EnumText(*TaskEvent::Kind_descriptor(), event.kind()),
                    OrDash(event.who()), FaultText(event), PlaceText(event),
                    event.dispatch() == 0 ? "-" : absl::StrCat(event.dispatch()),
                    OrDash(event.agent()), Cut(event.why(), kWhyMax)});
  }
  return Columns(rows);
}

std::string TimelineJson(const v1::Task& task, const std::vector<TaskEvent>* events) {
  std::string json = wire::ToJson(task);
  // Its last brace comes after the events.
  json.pop_back();
  if (events == nullptr) return absl::StrCat(json, ",\"events\":null}\n");
  const auto append = [](std::string* out, const TaskEvent& event) {
    absl::StrAppend(out, wire::ToJson(event));
  };
  return absl::StrCat(json, ",\"events\":[", absl::StrJoin(*events, ",", append), "]}\n");
}

}  // namespace callboard::cli
