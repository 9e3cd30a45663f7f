// Reading single fields of requests, and errors for requests that cannot be parsed.

#ifndef CALLBOARD_LIBS_WIRE_FIELDS_H_
#define CALLBOARD_LIBS_WIRE_FIELDS_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/timestamp.pb.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "libs/base/text.h"
#include "libs/core/ids.h"
#include "libs/core/task.h"
#include "libs/wire/enums.h"
#include "libs/wire/time.h"

namespace callboard::wire {

// Collects the violations of all fields of a request, so that one error reports all of them. Not
// thread-safe.
class FieldChecks {
 public:
  // Names in later calls are fields of the submessage `field`, and are reported as `task.prompt`.
  void EnterMessage(absl::string_view field);

  // Records that `field` is invalid. Only the first problem of a field is kept, and a limited
  // number of fields, because an error must fit into a header. `problem` is a predicate such as "is
  // required". It must not contain the value, which may be a prompt or a secret.
  void AddViolation(absl::string_view field, absl::string_view problem);

  // Returns true if `size` is within `limit`. Otherwise adds a violation such as "has 65 entries,
  // at most 64 are allowed".
  bool CheckLimit(absl::string_view field, uint64_t size, uint64_t limit, absl::string_view unit);

  // Returns OK, or INVALID_ARGUMENT with a violation for each field. The message describes the
  // first one.
  absl::Status status() const { return status_; }

 private:
  std::string prefix_;
  std::set<std::string> fields_;
  absl::Status status_;
};

// The functions below read one field each. They return the value, and add a violation to `checks`
// if the value is invalid.

inline std::string ReadText(absl::string_view field, const std::string& text, size_t bytes_max,
                            FieldChecks& checks) {
  checks.CheckLimit(field, text.size(), bytes_max, "bytes");
  return text;
}

// Adds a violation if a name that users choose, such as a label or a lane, has a control character.
inline void CheckName(absl::string_view field, absl::string_view text, FieldChecks& checks) {
  if (base::HasControl(text)) checks.AddViolation(field, "has a control character");
}

// Like ReadText(), but also checks that `text` is a valid name.
inline std::string ReadName(absl::string_view field, const std::string& text, size_t bytes_max,
                            FieldChecks& checks) {
  CheckName(field, text, checks);
  return ReadText(field, text, bytes_max, checks);
}

// Returns null for the unspecified value.
template <class Core, class Proto, size_t N>
std::optional<Core> ReadEnum(absl::string_view field, const EnumPair<Core, Proto> (&table)[N],
                             Proto value, FieldChecks& checks) {
  const std::optional<Core> core = FromProto(table, value);
  if (!core.has_value() && value != Proto{}) {
    checks.AddViolation(field, "has a value that this version does not know");
  }
  return core;
}

inline std::optional<absl::Time> ReadTime(absl::string_view field, bool present,
                                          const google::protobuf::Timestamp& proto,
                                          FieldChecks& checks) {
  if (!present) return std::nullopt;
  const std::optional<absl::Time> time = FromProto(proto);
  if (!time.has_value()) checks.AddViolation(field, "is not a time between the years 1 and 9999");
  return time;
}

// Returns null for an empty text.
inline std::optional<core::QueueId> ReadQueueId(absl::string_view field, const std::string& text,
                                                FieldChecks& checks) {
  if (text.empty()) return std::nullopt;
  const std::optional<core::QueueId> id = core::ParseQueueId(text);
  if (!id.has_value()) checks.AddViolation(field, "is not a queue id (`queue-` and 26 characters)");
  return id;
}

inline core::QueueId ReadRequiredQueueId(const std::string& text, FieldChecks& checks) {
  if (text.empty()) checks.AddViolation("queue_id", "is required");
  return ReadQueueId("queue_id", text, checks).value_or(core::QueueId());
}

// Returns null for an empty text.
inline std::optional<core::TaskSource> ReadSource(const std::string& text, FieldChecks& checks) {
  for (const core::TaskSource source : core::kTaskSources) {
    if (core::Name(source) == text) return source;
  }
  if (!text.empty()) checks.AddViolation("source", "must be one of api, web, scheduler, cli");
  return std::nullopt;
}

// ---- Requests that cannot be parsed ----
//
// gRPC reports only that a message cannot be parsed. Protobuf logs the name of a string field that
// is not UTF-8, on the thread that parses. Our log handler stores that name per thread, so that
// ParseError() can return it.

// Redirects Protobuf's log from standard error to our log, and enables field names in ParseError().
// REQUIRES: no other thread parses messages yet.
void InstallProtobufLogHandler();

// Returns INVALID_ARGUMENT for a `request` that this thread has just failed to parse. Names the
// field if it is a string that is not UTF-8. Clears the stored name, so a second call does not name
// it.
absl::Status ParseError(const google::protobuf::Descriptor& request);

// Parses `bytes` into `message`. Returns ParseError() on failure.
absl::Status Parse(absl::string_view bytes, google::protobuf::Message& message);

}  // namespace callboard::wire

#endif  // CALLBOARD_LIBS_WIRE_FIELDS_H_
