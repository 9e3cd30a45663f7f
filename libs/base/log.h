// Structured logging to standard error: one line per event, with fields.
//
//   base::LogInfo("server", "listening", {{"grpc", address}, {"pid", pid}});
//
// Never log prompts, environment values or tokens.

#ifndef CALLBOARD_LIBS_BASE_LOG_H_
#define CALLBOARD_LIBS_BASE_LOG_H_

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/base/bounded.h"

namespace callboard::base {

enum class LogLevel { kDebug, kInfo, kWarning, kError };
enum class LogFormat { kLogfmt, kJson };

// A key and its value. In JSON, numbers and booleans keep their type.
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

// Formats one line, without the newline. `area` and `event` name the event and are the first field:
//   2026-11-16T06:30:00.123456Z INFO queue=task_added queue_id=queue-01… depth=5
//   {"time":"2026-11-16T06:30:00.123456Z","level":"INFO","queue":"task_added","depth":5}
// Both formats escape control characters, and quotes that would end a value.
std::string FormatLogLine(LogFormat format, absl::Time time, LogLevel level, absl::string_view area,
                          absl::string_view event, std::span<const LogField> fields);

absl::string_view Name(LogLevel level);

}  // namespace callboard::base

namespace spdlog::sinks {
class sink;
}  // namespace spdlog::sinks

namespace callboard::base {

struct LogOptions {
  LogLevel level = LogLevel::kInfo;
  LogFormat format = LogFormat::kLogfmt;
  // Rate limit per event. Lines over the limit are dropped and counted, and the next line of the
  // event has the field `suppressed`.
  int64_t lines_per_second = 100;
  // Null for standard error.
  std::shared_ptr<spdlog::sinks::sink> sink = nullptr;
};

// Replaces the sink and its options. The sink is the only global of the project.
void StartLogging(const LogOptions& options);

// Change the level by one step, within the range of levels, and write a line with the new level.
// That line is written at every level.
void IncreaseLogDetail();
void DecreaseLogDetail();

// Write a line. Thread-safe. A line below the level is not formatted. A line is written before the
// call returns, so that a crash loses no lines. The calls never block: if the reader of standard
// error is slow and there is no room for a line, the line is dropped and counted like a line over
// the rate limit.
void LogDebug(absl::string_view area, absl::string_view event,
              std::initializer_list<LogField> fields = {});
void LogInfo(absl::string_view area, absl::string_view event,
             std::initializer_list<LogField> fields = {});
void LogWarning(absl::string_view area, absl::string_view event,
                std::initializer_list<LogField> fields = {});
void LogError(absl::string_view area, absl::string_view event,
              std::initializer_list<LogField> fields = {});
// For frequent events: `fields` is called only if the line is written.
void LogAt(LogLevel level, absl::string_view area, absl::string_view event,
           absl::FunctionRef<std::vector<LogField>()> fields);

// Admits at most `lines_per_second` lines of each event per second, and counts the dropped lines.
//
// Not thread-safe. Tracks a fixed number of events; all further events share one limit.
class LogLimiter {
 public:
  // REQUIRES: lines_per_second > 0.
  explicit LogLimiter(int64_t lines_per_second);

  // Returns null if the line must be dropped. Otherwise returns the number of lines of `event` that
  // were dropped since the last admitted one.
  std::optional<int64_t> Admit(const std::string& event, absl::Time now);
  // Counts `lines` admitted lines of `event` as dropped.
  void AddDropped(const std::string& event, int64_t lines);

 private:
  struct Window {
    absl::Time start = absl::InfinitePast();
    int64_t admitted = 0;
    int64_t dropped = 0;
  };

  Window& FindWindow(const std::string& event);

  const int64_t lines_per_second_;
  BoundedMap<std::string, Window> windows_;
  Window overflow_;
};

}  // namespace callboard::base

#endif  // CALLBOARD_LIBS_BASE_LOG_H_
