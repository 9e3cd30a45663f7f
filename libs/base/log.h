// Structured logging: an event with fields, one line each, to standard error.
//
//   base::LogInfo("server", "listening", {{"grpc", address}, {"pid", pid}});
//
// Thread-safe. A line below the level is not formatted. A line is written before the call returns,
// so that a crash loses none. Nobody is stalled: what standard error has no room for, because
// whoever reads it stalls, is counted as what is over the limit is. The sink behind these functions
// is the one global of the project; StartLogging() replaces it.
//
// Never log prompts, environment values or tokens.
#ifndef CALLBOARD_LIBS_BASE_LOG_H_
#define CALLBOARD_LIBS_BASE_LOG_H_

#include <initializer_list>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "libs/base/log_line.h"

namespace spdlog::sinks {
class sink;
}  // namespace spdlog::sinks

namespace callboard::base {

struct LogOptions {
  LogLevel level = LogLevel::kInfo;
  LogFormat format = LogFormat::kLogfmt;
  // Per event; what is over it is counted, and the event's next line says `suppressed=n`.
  int64_t lines_per_second = 100;
  // Standard error when null.
  std::shared_ptr<spdlog::sinks::sink> sink = nullptr;
};

void StartLogging(const LogOptions& options);

// Makes the log more detailed by one level, or less, as far as there are levels. Either says in a
// line which level it has then, and no level hides that line.
void LogMore();
void LogLess();

void LogDebug(absl::string_view area, absl::string_view event,
              std::initializer_list<LogField> fields = {});
void LogInfo(absl::string_view area, absl::string_view event,
             std::initializer_list<LogField> fields = {});
void LogWarning(absl::string_view area, absl::string_view event,
                std::initializer_list<LogField> fields = {});
void LogError(absl::string_view area, absl::string_view event,
              std::initializer_list<LogField> fields = {});
// For what happens often: `fields` is called only for a line that is written.
void LogAt(LogLevel level, absl::string_view area, absl::string_view event,
           absl::FunctionRef<std::vector<LogField>()> fields);

}  // namespace callboard::base

#endif  // CALLBOARD_LIBS_BASE_LOG_H_
