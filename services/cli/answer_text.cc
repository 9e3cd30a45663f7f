#include "services/cli/answer_text.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/base/text.h"
#include "libs/core/ids.h"
#include "libs/wire/json.h"
#include "libs/wire/time.h"

namespace callboard::cli {

std::string Written(const config::v1::CliConfig& config, const google::protobuf::Message& message,
                    const std::string& table) {
  return config.output() == config::v1::CliConfig::OUTPUT_JSON
             ? absl::StrCat(wire::ToJson(message), "\n")
             : table;
}

std::string Plain(absl::string_view text) { return base::Escaped(text); }

std::string Cut(const std::string& text, size_t columns) {
  size_t characters = 0;
  size_t kept = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    // Bytes that continue a character take no room.
    if ((static_cast<unsigned char>(text[i]) & 0xc0) == 0x80) continue;
    if (++characters == columns) kept = i;
  }
  return characters <= columns ? text : text.substr(0, kept) + "…";
}

std::string TimeText(const google::protobuf::Timestamp& proto) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%E3S UTC",
                          wire::FromProto(proto).value_or(absl::UnixEpoch()), absl::UTCTimeZone());
}

std::string QueueIdProblem(absl::string_view text) {
  if (core::ParseQueueId(text).has_value()) return "";
  return absl::StrCat("'", base::Escaped(base::Utf8Cut(text, 128)),
                      "' is not the id of a task; wanted: queue- and 26 letters and digits, as "
                      "`callboard queue` and `callboard watch` show it");
}

std::string RunsText(const v1::Task& task) {
  const auto count = [](uint64_t number, absl::string_view what, absl::string_view plural) {
    return absl::StrCat(number, " ", what, number == 1 ? "" : plural);
  };
  std::string text = count(task.dispatch(), "dispatch", "es");
  if (task.busy_rejections() > 0) {
    absl::StrAppend(&text, " (", task.busy_rejections(), " to a busy agent)");
  }
  return absl::StrCat(text, ", ", count(task.attempts(), "failed attempt", "s"), " of ",
                      task.max_attempts(), " allowed");
}

std::string Columns(std::vector<std::vector<std::string>> rows) {
  std::vector<size_t> widths;
  for (std::vector<std::string>& row : rows) {
    for (std::string& cell : row) cell = Plain(cell);
  }
  for (const std::vector<std::string>& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const std::vector<std::string>& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      absl::StrAppend(&line, row[i], std::string(widths[i] - row[i].size() + 2, ' '));
    }
    line.resize(line.find_last_not_of(' ') + 1);
    absl::StrAppend(&text, line, "\n");
  }
  return text;
}

}  // namespace callboard::cli
