#include "libs/base/log_line.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "libs/base/json_quoted.h"
#include "libs/base/text.h"

namespace callboard::base {
namespace {

// A logfmt value stands bare unless a reader would misread it.
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
  return "?";  // A value outside the enum: a log line is no place to die.
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

}  // namespace callboard::base
