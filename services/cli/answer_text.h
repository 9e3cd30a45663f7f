// How answers are written.
#ifndef CALLBOARD_SERVICES_CLI_ANSWER_TEXT_H_
#define CALLBOARD_SERVICES_CLI_ANSWER_TEXT_H_

#include <google/protobuf/message.h>
#include <google/protobuf/timestamp.pb.h>

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "callboard/config/v1/cli.pb.h"
#include "callboard/v1/task.pb.h"

namespace callboard::cli {

// `message` as JSON, or `table`, as the settings want it.
std::string Written(const config::v1::CliConfig& config, const google::protobuf::Message& message,
                    const std::string& table);

// On one line, and nothing that a terminal would obey: base::Escaped().
std::string Plain(absl::string_view text);

// At most so many characters, the last of them an ellipsis when something is cut.
std::string Cut(const std::string& text, size_t columns);

// In UTC, to the millisecond.
std::string TimeText(const google::protobuf::Timestamp& proto);

// Why `text` is not the id of a task, with the form of one; empty when it is one.
std::string QueueIdProblem(absl::string_view text);

// How often the task was given to an agent, and how many of its attempts failed.
std::string RunsText(const v1::Task& task);

// A line for each row, Plain(), its cells below each other.
std::string Columns(std::vector<std::vector<std::string>> rows);

}  // namespace callboard::cli

#endif  // CALLBOARD_SERVICES_CLI_ANSWER_TEXT_H_
