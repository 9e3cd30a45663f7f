#ifndef CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_RUNNER_COMMAND_TEMPLATE_H_
#define CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_RUNNER_COMMAND_TEMPLATE_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/core/task.h"

namespace callboard::adapters {

// A fixed command with places for values of a task: {model}, {session_id} and {project}, the name
// of the project. A place that has no value is filled with nothing.
//
// A value never becomes two arguments, and never an option: see Check().
class CommandTemplate {
 public:
  // INVALID_ARGUMENT without a program, with a place in the program's name, and with a {place} that
  // does not exist.
  static absl::StatusOr<CommandTemplate> Parse(std::vector<std::string> argv);

  // INVALID_ARGUMENT for values that would read as an option, because they begin an argument and
  // begin with '-', and for those that no argument can hold.
  absl::Status Check(const core::TaskSpec& spec) const;

  // REQUIRES: Check(spec) is OK.
  std::vector<std::string> Filled(const core::TaskSpec& spec) const;

 private:
  explicit CommandTemplate(std::vector<std::string> argv) : argv_(std::move(argv)) {}

  std::vector<std::string> argv_;
};

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_SUBPROCESS_RUNNER_COMMAND_TEMPLATE_H_
