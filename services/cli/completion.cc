#include "services/cli/completion.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

namespace callboard::cli {
namespace {

// In single quotes, for any of the shells.
std::string Quoted(absl::string_view text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

std::vector<std::string> Follow(const CommandWords& command) {
  std::vector<std::string> words = command.arguments;
  for (const Word& flag : command.flags) words.push_back(flag.text);
  return words;
}

// `  name) <assignment> ;;` for each command.
std::string Cases(const std::vector<CommandWords>& commands, absl::string_view before,
                  absl::string_view after) {
  std::string cases;
  for (const CommandWords& command : commands) {
    absl::StrAppend(&cases, "    ", command.command.text, ") ", before,
                    absl::StrJoin(Follow(command), " "), after, " ;;\n");
  }
  return cases;
}

}  // namespace

std::string BashCompletion(const std::vector<CommandWords>& commands) {
  std::vector<std::string> names;
  for (const CommandWords& command : commands) names.push_back(command.command.text);
  return absl::StrCat(
      "# bash completion for callboard: source <(callboard completion bash)\n"
      "_callboard() {\n"
      "  local words='",
      absl::StrJoin(names, " "),
      "'\n"
      "  if ((COMP_CWORD > 1)); then words=; fi\n"
      "  case ${COMP_WORDS[1]} in\n",
      Cases(commands, "((COMP_CWORD > 1)) && words='", "'"),
      "  esac\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n"
      "}\n"
      "complete -o bashdefault -o default -F _callboard callboard\n");
}

std::string ZshCompletion(const std::vector<CommandWords>& commands) {
  std::string described;
  for (const CommandWords& command : commands) {
    absl::StrAppend(&described, "    ",
                    Quoted(absl::StrCat(command.command.text, ":", command.command.help)), "\n");
  }
  return absl::StrCat(
      "#compdef callboard\n"
      "# zsh completion for callboard: source <(callboard completion zsh)\n"
      "_callboard() {\n"
      "  local -a commands follow\n"
      "  commands=(\n",
      described,
      "  )\n"
      "  if ((CURRENT == 2)); then\n"
      "    _describe command commands\n"
      "    return\n"
      "  fi\n"
      "  case $words[2] in\n",
      Cases(commands, "follow=(", ")"),
      "  esac\n"
      "  compadd -- $follow\n"
      "  _files\n"
      "}\n"
      "if [[ $funcstack[1] == _callboard ]]; then _callboard; else compdef _callboard callboard; "
      "fi\n");
}

std::string FishCompletion(const std::vector<CommandWords>& commands) {
  std::string script =
      "# fish completion for callboard: callboard completion fish | source\n"
      "complete -c callboard -e\n";
  for (const CommandWords& command : commands) {
    absl::StrAppend(&script, "complete -c callboard -n __fish_use_subcommand -f -a ",
                    command.command.text, " -d ", Quoted(command.command.help), "\n");
    const std::string seen = absl::StrCat("complete -c callboard -n '__fish_seen_subcommand_from ",
                                          command.command.text, "' ");
    for (const std::string& argument : command.arguments) {
      absl::StrAppend(&script, seen, "-f -a ", argument, "\n");
    }
    for (const Word& flag : command.flags) {
      absl::StrAppend(&script, seen, "-l ", absl::StripPrefix(flag.text, "--"), " -d ",
                      Quoted(flag.help), "\n");
    }
  }
  return script;
}

}  // namespace callboard::cli
