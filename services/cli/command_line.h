// The command line of `callboard`.

#ifndef CALLBOARD_SERVICES_CLI_COMMAND_LINE_H_
#define CALLBOARD_SERVICES_CLI_COMMAND_LINE_H_

#include <span>

namespace callboard::cli {

// Runs the program `callboard`: finds the command, runs it and prints its answer. `arguments` do
// not include the program's name. Returns the exit code; see ExitCode.
int RunCommandLine(std::span<const char* const> arguments);

}  // namespace callboard::cli

#endif  // CALLBOARD_SERVICES_CLI_COMMAND_LINE_H_
