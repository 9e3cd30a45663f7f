#include "libs/base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "libs/base/log_limiter.h"
#include "libs/base/mutex.h"

namespace callboard::base {
namespace {

class Log {
 public:
  explicit Log(const LogOptions& options) { Start(options); }

  void Start(const LogOptions& options) {
    MutexLock lock(mutex_);
    level_ = options.level;
    format_ = options.format;
    limiter_ = std::make_unique<LogLimiter>(options.lines_per_second);
    auto sink = options.sink;
    if (sink == nullptr) sink = std::make_shared<spdlog::sinks::stderr_sink_st>();
    logger_ = std::make_unique<spdlog::logger>("callboard", std::move(sink));
    logger_->set_pattern("%v");
    logger_->set_level(spdlog::level::trace);
    logger_->flush_on(spdlog::level::trace);
  }

  void Write(LogLevel level, absl::string_view area, absl::string_view event,
             std::initializer_list<LogField> fields) {
    if (level < level_.load(std::memory_order_relaxed)) return;
    const absl::Time now = absl::Now();
    MutexLock lock(mutex_);
    const std::optional<int64_t> suppressed = limiter_->Admit(absl::StrCat(area, "=", event), now);
    if (!suppressed.has_value()) return;
    std::vector<LogField> all(fields);
    if (*suppressed > 0) all.emplace_back("suppressed", *suppressed);
    const std::string line = FormatLogLine(format_, now, level, area, event, all);
    logger_->log(spdlog::level::info, spdlog::string_view_t(line));
  }

 private:
  std::atomic<LogLevel> level_;
  Mutex mutex_;
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

void LogDebug(absl::string_view area, absl::string_view event,
              std::initializer_list<LogField> fields) {
  TheLog().Write(LogLevel::kDebug, area, event, fields);
}
void LogInfo(absl::string_view area, absl::string_view event,
             std::initializer_list<LogField> fields) {
  TheLog().Write(LogLevel::kInfo, area, event, fields);
}
void LogWarning(absl::string_view area, absl::string_view event,
                std::initializer_list<LogField> fields) {
  TheLog().Write(LogLevel::kWarning, area, event, fields);
}
void LogError(absl::string_view area, absl::string_view event,
              std::initializer_list<LogField> fields) {
  TheLog().Write(LogLevel::kError, area, event, fields);
}

}  // namespace callboard::base
