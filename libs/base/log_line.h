// What a log line looks like: pure formatting, no output.
#ifndef CALLBOARD_LIBS_BASE_LOG_LINE_H_
#define CALLBOARD_LIBS_BASE_LOG_LINE_H_

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <variant>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace callboard::base {

enum class LogLevel { kDebug, kInfo, kWarning, kError };
enum class LogFormat { kLogfmt, kJson };

// A key and its value; numbers and booleans stay such in JSON.
struct LogField {
  using Value = std::variant<std::string, int64_t, double, bool>;

  LogField(absl::string_view field_key, bool value) : key(field_key), value(value) {}
  LogField(absl::string_view field_key, std::integral auto value)
      : key(field_key), value(static_cast<int64_t>(value)) {}
  LogField(absl::string_view field_key, double value) : key(field_key), value(value) {}
  LogField(absl::string_view field_key, absl::string_view value)
      : key(field_key), value(std::string(value)) {}
  LogField(absl::string_view field_key, const std::string& value) : key(field_key), value(value) {}
  LogField(absl::string_view field_key, const char* value)
      : key(field_key), value(std::string(value)) {}
  LogField(absl::string_view field_key, absl::Duration value)
      : key(field_key), value(absl::FormatDuration(value)) {}

  absl::string_view key;
  Value value;
};

// One line without its newline. `area` and `event` say what happened and are the first field:
//   2026-11-16T06:30:00.123456Z INFO queue=task_added queue_id=queue-01… depth=5
//   {"time":"2026-11-16T06:30:00.123456Z","level":"INFO","queue":"task_added","depth":5}
// Control characters, and quotes where they would end a value, are escaped in both.
std::string FormatLogLine(LogFormat format, absl::Time time, LogLevel level, absl::string_view area,
                          absl::string_view event, std::span<const LogField> fields);

absl::string_view Name(LogLevel level);

}  // namespace callboard::base

#endif  // CALLBOARD_LIBS_BASE_LOG_LINE_H_
