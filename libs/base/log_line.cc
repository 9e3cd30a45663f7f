#include "libs/base/log_line.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace callboard::base {
namespace {

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

// A logfmt value stands bare unless a reader would misread it.
bool NeedsQuotes(std::string_view text) {
  return text.empty() || std::any_of(text.begin(), text.end(), [](unsigned char c) {
           return c <= ' ' || c == '"' || c == '=' || c == '\\' || c == 0x7f;
         });
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

std::string_view Name(LogLevel level) {
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

std::string JsonQuoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      absl::StrAppend(&quoted, "\\", std::string(1, c));
    } else if (c == '\n') {
      quoted += "\\n";
    } else if (byte < 0x20 || byte == 0x7f) {
      absl::StrAppendFormat(&quoted, "\\u%04x", byte);
    } else {
      quoted += c;
    }
  }
  quoted += '"';
  return quoted;
}

std::string FormatLogLine(LogFormat format, absl::Time time, LogLevel level, std::string_view area,
                          std::string_view event, std::span<const LogField> fields) {
  const std::string stamp = absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", time, absl::UTCTimeZone());
  const bool json = format == LogFormat::kJson;
  std::string line =
      json ? absl::StrCat("{\"time\":\"", stamp, "\",\"level\":\"", View(Name(level)), "\"")
           : absl::StrCat(stamp, " ", View(Name(level)));
  const auto append = [&](std::string_view key, const LogField::Value& value) {
    if (json) {
      absl::StrAppend(&line, ",", JsonQuoted(key), ":", ValueText(value, format));
    } else {
      absl::StrAppend(&line, " ", View(key), "=", ValueText(value, format));
    }
  };
  append(area, std::string(event));
  for (const LogField& field : fields) append(field.key, field.value);
  if (json) line += '}';
  return line;
}

}  // namespace callboard::base
