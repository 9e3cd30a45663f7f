// The command line of `callboard`, and the scripts with which shells complete it.

#ifndef CALLBOARD_SERVICES_CLI_COMMAND_LINE_H_
#define CALLBOARD_SERVICES_CLI_COMMAND_LINE_H_

#include <span>
#include <string>
#include <vector>

namespace callboard::cli {

// A word that can be completed, and its help text.
struct Word {
  std::string text;
  std::string help;
};

// A command and the words that may follow it.
struct CommandWords {
  Word command;
  // With leading dashes.
  std::vector<Word> flags;
  // Fixed values of its argument.
  std::vector<std::string> arguments;
  // Nested commands, as in `db verify`. They have no further nested commands.
  std::vector<CommandWords> commands;
};

std::string BashCompletion(const std::vector<CommandWords>& commands);
std::string ZshCompletion(const std::vector<CommandWords>& commands);
std::string FishCompletion(const std::vector<CommandWords>& commands);

// Runs the program `callboard`: finds the command, runs it and prints its answer. `arguments` do
// not include the program's name. Returns the exit code; see ExitCode.
int RunCommandLine(std::span<const char* const> arguments);

}  // namespace callboard::cli

#endif  // CALLBOARD_SERVICES_CLI_COMMAND_LINE_H_
