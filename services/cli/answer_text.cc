#include "services/cli/answer_text.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/base/error.h"
#include "libs/base/text.h"
#include "libs/core/ids.h"
#include "libs/flow/abort.h"
#include "libs/ports/event_store.h"
#include "libs/wire/json.h"
#include "libs/wire/time.h"

namespace callboard::cli {

std::string FormatAnswer(const config::v1::CliConfig& config,
                         const google::protobuf::Message& message, const std::string& table) {
  return config.output() == config::v1::CliConfig::OUTPUT_JSON
             ? absl::StrCat(wire::ToJson(message), "\n")
             : table;
}

std::string Truncate(const std::string& text, size_t columns) {
  size_t characters = 0;
  size_t kept = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    // UTF-8 continuation bytes do not begin a new character.
    if ((static_cast<unsigned char>(text[i]) & 0xc0) == 0x80) continue;
    if (++characters == columns) kept = i;
  }
  return characters <= columns ? text : text.substr(0, kept) + "…";
}

absl::Time TimeOf(const google::protobuf::Timestamp& proto) {
  return wire::FromProto(proto).value_or(absl::UnixEpoch());
}

std::string TimeText(const google::protobuf::Timestamp& proto) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%E3S UTC", TimeOf(proto), absl::UTCTimeZone());
}

std::string Rfc3339Text(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", time, absl::UTCTimeZone());
}

std::string QueueIdError(absl::string_view text) {
  if (core::ParseQueueId(text).has_value()) return "";
  return absl::StrCat("'", base::Escaped(base::Utf8Prefix(text, 128)),
                      "' is not the id of a task; expected: queue- and 26 letters and digits, as "
                      "shown by `callboard queue` and `callboard watch`");
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

std::string FormatColumns(std::vector<std::vector<std::string>> rows) {
  std::vector<size_t> widths;
  for (std::vector<std::string>& row : rows) {
    for (std::string& cell : row) cell = base::Escaped(cell);
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

namespace {

constexpr absl::string_view kUnreachable = "UNREACHABLE";
// The scheduler's reason when it cannot reach its director.
constexpr absl::string_view kDirectorUnreachable = "DIRECTOR_UNREACHABLE";
constexpr absl::string_view kUsage = "USAGE";

}  // namespace

absl::Status UnreachableError(const absl::Status& error, const Peer& peer) {
  return base::WithReason(
      absl::UnavailableError(absl::StrCat(
          "no ", peer.name, " answers at ", peer.address, " (", error.message(),
          "); check that it runs and that this is its gRPC port, start one with `callboard dev`, "
          "or name another with --",
          peer.name, ".address")),
      kUnreachable);
}

absl::Status UsageError(absl::string_view message) {
  return base::WithReason(absl::InvalidArgumentError(message), kUsage);
}

ExitCode ExitCodeOf(const absl::Status& status) {
  const std::string reason = base::GetErrorDetails(status).reason;
  if (reason == kUnreachable || reason == kDirectorUnreachable) return ExitCode::kUnreachable;
  if (reason == kUsage) return ExitCode::kUsage;
  if (flow::IsAbortError(status)) return ExitCode::kInterrupted;
  if (reason == "QUEUE_FULL") return ExitCode::kQueueFull;
  if (reason == ports::kStoreRefused) return ExitCode::kStoreRefused;
  if (reason == ports::kStoreLocked) return ExitCode::kStoreLocked;
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return ExitCode::kDone;
    case absl::StatusCode::kNotFound:
      return ExitCode::kNotFound;
    default:
      return ExitCode::kFailed;
  }
}

}  // namespace callboard::cli
