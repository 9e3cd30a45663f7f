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
#include "libs/base/mutex.h"
#include "libs/base/text.h"

namespace callboard::base {
namespace {

// Returns true if a logfmt reader would misread the value without quotes.
bool NeedsQuotes(absl::string_view text) {
  return text.empty() || NeedsEscape(text) ||
         std::any_of(text.begin(), text.end(),
                     [](unsigned char c) { return c == ' ' || c == '"' || c == '=' || c == '\\'; });
}

std::string ValueText(const LogField::Value& value, LogFormat format) {
  struct Text {
    std::string operator()(const std::string& text) const {
      return format == LogFormat::kJson || NeedsQuotes(text) ? JsonQuoted(text) : text;
    }
    std::string operator()(int64_t number) const { return absl::StrCat(number); }
    std::string operator()(double number) const { return absl::StrCat(number); }
    std::string operator()(bool truth) const { return truth ? "true" : "false"; }
    LogFormat format;
  };
  return std::visit(Text{format}, value);
}

// Returns true if standard error accepts a line without blocking. A pipe that is writable has room
// for a page.
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

  // Changes the level by `levels` steps toward kError.
  void ShiftLevel(int levels) {
    const absl::Time now = absl::Now();
    MutexLock lock(mutex_);
    level_ = static_cast<LogLevel>(std::clamp(static_cast<int>(level_.load()) + levels,
                                              static_cast<int>(LogLevel::kDebug),
                                              static_cast<int>(LogLevel::kError)));
    WriteLine(now, LogLevel::kInfo, "log", "level", [this] {
      return std::vector<LogField>{{"level", SettingText(level_)}};
    });
  }

 private:
  // Returns the value of the setting log.level.
  static absl::string_view SettingText(LogLevel level) {
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
    if (is_standard_error_ && !HasRoom()) {
      limiter_->AddDropped(name, *suppressed + 1);
      return;
    }
    const auto format = [&](std::vector<LogField> all) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      if (*suppressed > 0) all.emplace_back("suppressed", *suppressed);
      return FormatLogLine(format_, now, level, area, event, all);
    };
    std::string line = format(fields());
    // There may be no room for more than a page, including the line end.
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

// Never destroyed, because threads may log until the process exits.
Log& GlobalLog() {
  static Log& log = *new Log(LogOptions());
  return log;
}

constexpr size_t kEventsMax = 1024;

}  // namespace

absl::string_view Name(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "DEBUG";
    case LogLevel::kInfo:
      return "INFO";
    case LogLevel::kWarning:
      return "WARN";
    case LogLevel::kError:
      return "ERROR";
  }
  // Do not crash while logging, even if the value is outside of the enum.
  return "?";
}

std::string FormatLogLine(LogFormat format, absl::Time time, LogLevel level, absl::string_view area,
                          absl::string_view event, std::span<const LogField> fields) {
  const std::string stamp = absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", time, absl::UTCTimeZone());
  const bool json = format == LogFormat::kJson;
  std::string line = json
                         ? absl::StrCat("{\"time\":\"", stamp, "\",\"level\":\"", Name(level), "\"")
                         : absl::StrCat(stamp, " ", Name(level));
  const auto append = [&](absl::string_view key, const LogField::Value& value) {
    if (json) {
      absl::StrAppend(&line, ",", JsonQuoted(key), ":", ValueText(value, format));
    } else {
      absl::StrAppend(&line, " ", key, "=", ValueText(value, format));
    }
  };
  append(area, std::string(event));
  for (const LogField& field : fields) append(field.key, field.value);
  if (json) line += '}';
  return line;
}

void StartLogging(const LogOptions& options) { GlobalLog().Start(options); }

void IncreaseLogDetail() { GlobalLog().ShiftLevel(-1); }
void DecreaseLogDetail() { GlobalLog().ShiftLevel(1); }

void LogAt(LogLevel level, absl::string_view area, absl::string_view event,
           absl::FunctionRef<std::vector<LogField>()> fields) {
  GlobalLog().Write(level, area, event, fields);
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

LogLimiter::LogLimiter(int64_t lines_per_second)
    : lines_per_second_(lines_per_second), windows_(kEventsMax) {
  CHECK_GT(lines_per_second, 0);
}

LogLimiter::Window& LogLimiter::FindWindow(const std::string& event) {
  Window* window = windows_.FindOrInsert(event);
  return window == nullptr ? overflow_ : *window;
}

std::optional<int64_t> LogLimiter::Admit(const std::string& event, absl::Time now) {
  Window& window = FindWindow(event);
  // A clock that was set back starts a new window too. Otherwise the event would be suppressed
  // until the clock has caught up.
  if (now - window.start >= absl::Seconds(1) || now < window.start) {
    window.start = now;
    window.admitted = 0;
  }
  if (window.admitted == lines_per_second_) {
    ++window.dropped;
    return std::nullopt;
  }
  ++window.admitted;
  return std::exchange(window.dropped, 0);
}

void LogLimiter::AddDropped(const std::string& event, int64_t lines) {
  FindWindow(event).dropped += lines;
}

}  // namespace callboard::base
