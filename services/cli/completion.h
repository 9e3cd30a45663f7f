// Scripts that let shells complete callboard's commands and flags.
#ifndef CALLBOARD_SERVICES_CLI_COMPLETION_H_
#define CALLBOARD_SERVICES_CLI_COMPLETION_H_

#include <string>
#include <vector>

namespace callboard::cli {

// A word that can be completed, and what it means.
struct Word {
  std::string text;
  std::string help;
};

// A command and what may follow it.
struct CommandWords {
  Word command;
  // With their dashes.
  std::vector<Word> flags;
  // Fixed words that it takes.
  std::vector<std::string> arguments;
  // Commands of its own, of which one follows; they have none.
  std::vector<CommandWords> commands;
};

std::string BashCompletion(const std::vector<CommandWords>& commands);
std::string ZshCompletion(const std::vector<CommandWords>& commands);
std::string FishCompletion(const std::vector<CommandWords>& commands);

}  // namespace callboard::cli

#endif  // CALLBOARD_SERVICES_CLI_COMPLETION_H_
