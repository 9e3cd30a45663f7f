// Reading single fields of a message: the value, and a note in `checks` when it is wrong.
#ifndef CALLBOARD_LIBS_WIRE_FIELD_VALUES_H_
#define CALLBOARD_LIBS_WIRE_FIELD_VALUES_H_

#include <google/protobuf/timestamp.pb.h>

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "libs/base/text.h"
#include "libs/core/ids.h"
#include "libs/core/task.h"
#include "libs/wire/enum_pairs.h"
#include "libs/wire/field_checks.h"
#include "libs/wire/time.h"

namespace callboard::wire {

inline std::string ReadText(absl::string_view field, const std::string& text, size_t bytes_max,
                            FieldChecks& checks) {
  checks.AtMost(field, text.size(), bytes_max, "bytes");
  return text;
}

// Notes a control character in what people choose and read: a name, a label, a lane.
inline void CheckName(absl::string_view field, absl::string_view text, FieldChecks& checks) {
  if (base::HasControl(text)) checks.Refuse(field, "has a control character");
}

// As ReadText(), for a name.
inline std::string ReadName(absl::string_view field, const std::string& text, size_t bytes_max,
                            FieldChecks& checks) {
  CheckName(field, text, checks);
  return ReadText(field, text, bytes_max, checks);
}

// Absent when unspecified.
template <class Core, class Proto, size_t N>
std::optional<Core> ReadEnum(absl::string_view field, const EnumPair<Core, Proto> (&table)[N],
                             Proto value, FieldChecks& checks) {
  const std::optional<Core> core = FromProto(table, value);
  if (!core.has_value() && value != Proto{}) {
    checks.Refuse(field, "has a value that this version does not know");
  }
  return core;
}

inline std::optional<absl::Time> ReadTime(absl::string_view field, bool present,
                                          const google::protobuf::Timestamp& proto,
                                          FieldChecks& checks) {
  if (!present) return std::nullopt;
  const std::optional<absl::Time> time = FromProto(proto);
  if (!time.has_value()) checks.Refuse(field, "is no time of the years 1 to 9999");
  return time;
}

// Absent when empty.
inline std::optional<core::QueueId> ReadQueueId(absl::string_view field, const std::string& text,
                                                FieldChecks& checks) {
  if (text.empty()) return std::nullopt;
  const std::optional<core::QueueId> id = core::ParseQueueId(text);
  if (!id.has_value()) checks.Refuse(field, "is no queue id: `queue-` and 26 characters are");
  return id;
}

inline core::QueueId ReadRequiredQueueId(const std::string& text, FieldChecks& checks) {
  if (text.empty()) checks.Refuse("queue_id", "is required");
  return ReadQueueId("queue_id", text, checks).value_or(core::QueueId());
}

// Absent when empty.
inline std::optional<core::TaskSource> ReadSource(const std::string& text, FieldChecks& checks) {
  for (const core::TaskSource source : core::kTaskSources) {
    if (core::Name(source) == text) return source;
  }
  if (!text.empty()) checks.Refuse("source", "is none of api, web, scheduler, cli");
  return std::nullopt;
}

}  // namespace callboard::wire

#endif  // CALLBOARD_LIBS_WIRE_FIELD_VALUES_H_
