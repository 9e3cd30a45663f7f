#include "libs/base/log.h"

#include <poll.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libs/base/log_limiter.h"
#include "libs/base/mutex.h"

namespace callboard::base {
namespace {

// Whether standard error takes a line at once. A pipe that does has room for a page.
bool HasRoom() {
  pollfd error = {.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
  return poll(&error, 1, /*timeout=*/0) != 0;
}

class Log {
 public:
  explicit Log(const LogOptions& options) { Start(options); }

  void Start(const LogOptions& options) {
    MutexLock lock(mutex_);
    level_ = options.level;
    format_ = options.format;
    limiter_ = std::make_unique<LogLimiter>(options.lines_per_second);
    auto sink = options.sink;
    is_standard_error_ = sink == nullptr;
    if (is_standard_error_) sink = std::make_shared<spdlog::sinks::stderr_sink_st>();
    logger_ = std::make_unique<spdlog::logger>("callboard", std::move(sink));
    logger_->set_pattern("%v");
    logger_->set_level(spdlog::level::trace);
    logger_->flush_on(spdlog::level::trace);
  }

  void Write(LogLevel level, absl::string_view area, absl::string_view event,
             absl::FunctionRef<std::vector<LogField>()> fields) {
    if (level < level_.load(std::memory_order_relaxed)) return;
    const absl::Time now = absl::Now();
    MutexLock lock(mutex_);
    WriteLine(now, level, area, event, fields);
  }

  // By so many levels, towards kError.
  void ShiftLevel(int levels) {
    const absl::Time now = absl::Now();
    MutexLock lock(mutex_);
    level_ = static_cast<LogLevel>(std::clamp(static_cast<int>(level_.load()) + levels,
                                              static_cast<int>(LogLevel::kDebug),
                                              static_cast<int>(LogLevel::kError)));
    WriteLine(now, LogLevel::kInfo, "log", "level", [this] {
      return std::vector<LogField>{{"level", SettingOf(level_)}};
    });
  }

 private:
  // As --log.level has it.
  static absl::string_view SettingOf(LogLevel level) {
    switch (level) {
      case LogLevel::kDebug:
        return "debug";
      case LogLevel::kInfo:
        return "info";
      case LogLevel::kWarning:
        return "warning";
      case LogLevel::kError:
        break;
    }
    return "error";
  }

  void WriteLine(absl::Time now, LogLevel level, absl::string_view area, absl::string_view event,
                 absl::FunctionRef<std::vector<LogField>()> fields)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const std::string name = absl::StrCat(area, "=", event);
    const std::optional<int64_t> suppressed = limiter_->Admit(name, now);
    if (!suppressed.has_value()) return;
    if (is_standard_error_ && !HasRoom()) return limiter_->Drop(name, *suppressed + 1);
    const auto format = [&](std::vector<LogField> all) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      if (*suppressed > 0) all.emplace_back("suppressed", *suppressed);
      return FormatLogLine(format_, now, level, area, event, all);
    };
    std::string line = format(fields());
    // There may be no room for more than a page, its end included.
    if (line.size() >= PIPE_BUF) line = format({{"cut_bytes", line.size()}});
    logger_->log(spdlog::level::info, spdlog::string_view_t(line));
  }

  std::atomic<LogLevel> level_;
  Mutex mutex_;
  bool is_standard_error_ ABSL_GUARDED_BY(mutex_) = true;
  LogFormat format_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<LogLimiter> limiter_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<spdlog::logger> logger_ ABSL_GUARDED_BY(mutex_);
};

// Never destroyed: threads may log until the process is gone.
Log& TheLog() {
  static Log& log = *new Log(LogOptions());
  return log;
}

}  // namespace

void StartLogging(const LogOptions& options) { TheLog().Start(options); }

void LogMore() { TheLog().ShiftLevel(-1); }
void LogLess() { TheLog().ShiftLevel(1); }

void LogAt(LogLevel level, absl::string_view area, absl::string_view event,
           absl::FunctionRef<std::vector<LogField>()> fields) {
  TheLog().Write(level, area, event, fields);
}

void LogDebug(absl::string_view area, absl::string_view event,
              std::initializer_list<LogField> fields) {
  LogAt(LogLevel::kDebug, area, event, [fields] { return std::vector<LogField>(fields); });
}
void LogInfo(absl::string_view area, absl::string_view event,
             std::initializer_list<LogField> fields) {
  LogAt(LogLevel::kInfo, area, event, [fields] { return std::vector<LogField>(fields); });
}
void LogWarning(absl::string_view area, absl::string_view event,
                std::initializer_list<LogField> fields) {
  LogAt(LogLevel::kWarning, area, event, [fields] { return std::vector<LogField>(fields); });
}
void LogError(absl::string_view area, absl::string_view event,
              std::initializer_list<LogField> fields) {
  LogAt(LogLevel::kError, area, event, [fields] { return std::vector<LogField>(fields); });
}

}  // namespace callboard::base
