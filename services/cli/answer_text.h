// The answers of commands as text, and their exit codes.

#ifndef CALLBOARD_SERVICES_CLI_ANSWER_TEXT_H_
#define CALLBOARD_SERVICES_CLI_ANSWER_TEXT_H_

#include <google/protobuf/message.h>
#include <google/protobuf/timestamp.pb.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "callboard/config/v1/cli.pb.h"
#include "callboard/v1/task.pb.h"
#include "services/cli/director_client.h"

namespace callboard::cli {

// Returns `message` as JSON or returns `table`, depending on the setting `output`.
std::string FormatAnswer(const config::v1::CliConfig& config,
                         const google::protobuf::Message& message, const std::string& table);

// Returns at most `columns` characters of `text`. A text that is cut ends with an ellipsis.
std::string Truncate(const std::string& text, size_t columns);

// Returns the Unix epoch for a value that is not a valid time.
absl::Time TimeOf(const google::protobuf::Timestamp& proto);

// Returns the time in UTC, to the millisecond.
std::string TimeText(const google::protobuf::Timestamp& proto);
// Returns the time as RFC 3339, to the millisecond, for lines that programs may read too.
std::string Rfc3339Text(absl::Time time);

// Returns an error text if `text` is not the id of a task, else an empty string.
std::string QueueIdError(absl::string_view text);

// Returns the number of dispatches and of failed attempts of the task.
std::string RunsText(const v1::Task& task);

// Formats rows as a table with aligned columns. Escapes each cell.
std::string FormatColumns(std::vector<std::vector<std::string>> rows);

// Exit codes of commands. Scripts rely on these numbers.
enum class ExitCode : int {
  kDone = 0,
  kFailed = 1,
  // The command line, a setting or a checked jobs file is wrong.
  kUsage = 2,
  kQueueFull = 3,
  kNotFound = 4,
  kUnreachable = 5,
  // The store is damaged, or in use. A director that cannot start has the same exit codes.
  kStoreRefused = 65,
  kStoreLocked = 75,
  kInterrupted = 130,
};

// Returns an error for a wrong command line, or a wrong file that it names.
absl::Status UsageError(absl::string_view message);

// Returns an error for a peer that did not answer because of `error`, with advice.
absl::Status UnreachableError(const absl::Status& error, const Peer& peer);

// Returns the exit code of a command that ended with `status`.
ExitCode ExitCodeOf(const absl::Status& status);

}  // namespace callboard::cli

#endif  // CALLBOARD_SERVICES_CLI_ANSWER_TEXT_H_
