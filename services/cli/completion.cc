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

std::vector<std::string> NamesOf(const std::vector<CommandWords>& commands) {
  std::vector<std::string> names;
  for (const CommandWords& command : commands) names.push_back(command.command.text);
  return names;
}

std::vector<std::string> Follow(const CommandWords& command) {
  std::vector<std::string> words = NamesOf(command.commands);
  words.insert(words.end(), command.arguments.begin(), command.arguments.end());
  for (const Word& flag : command.flags) words.push_back(flag.text);
  return words;
}

// `  'name') <assignment> ;;` for each command, `'db name'` for one of db.
std::string Cases(const std::vector<CommandWords>& commands, absl::string_view before,
                  absl::string_view after, absl::string_view parent = "") {
  std::string cases;
  for (const CommandWords& command : commands) {
    absl::StrAppend(&cases, "    '", parent, command.command.text, "') ", before,
                    absl::StrJoin(Follow(command), " "), after, " ;;\n");
  }
  return cases;
}

// The cases of all commands that belong to another one.
std::string NestedCases(const std::vector<CommandWords>& commands, absl::string_view before,
                        absl::string_view after) {
  std::string cases;
  for (const CommandWords& command : commands) {
    absl::StrAppend(
        &cases, Cases(command.commands, before, after, absl::StrCat(command.command.text, " ")));
  }
  return cases;
}

constexpr absl::string_view kFishNot = "; and not __fish_seen_subcommand_from ";

// Arguments and flags of a command, where `condition` holds.
void AppendFish(const CommandWords& command, absl::string_view condition, std::string& script) {
  const std::string where = absl::StrCat("complete -c callboard -n '", condition, "' ");
  for (const std::string& argument : command.arguments) {
    absl::StrAppend(&script, where, "-f -a ", argument, "\n");
  }
  for (const Word& flag : command.flags) {
    absl::StrAppend(&script, where, "-l ", absl::StripPrefix(flag.text, "--"), " -d ",
                    Quoted(flag.help), "\n");
  }
}

}  // namespace

std::string BashCompletion(const std::vector<CommandWords>& commands) {
  return absl::StrCat(
      "# bash completion for callboard: source <(callboard completion bash)\n"
      "_callboard() {\n"
      "  local words='",
      absl::StrJoin(NamesOf(commands), " "),
      "'\n"
      "  if ((COMP_CWORD > 1)); then words=; fi\n"
      "  case ${COMP_WORDS[1]} in\n",
      Cases(commands, "((COMP_CWORD > 1)) && words='", "'"),
      "  esac\n"
      "  case \"${COMP_WORDS[1]} ${COMP_WORDS[2]}\" in\n",
      NestedCases(commands, "((COMP_CWORD > 2)) && words='", "'"),
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
      "  case \"$words[2] $words[3]\" in\n",
      NestedCases(commands, "((CURRENT > 3)) && follow=(", ")"),
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
    const std::string seen = absl::StrCat("__fish_seen_subcommand_from ", command.command.text);
    const std::string nested = absl::StrJoin(NamesOf(command.commands), " ");
    AppendFish(command, nested.empty() ? seen : absl::StrCat(seen, kFishNot, nested), script);
    for (const CommandWords& child : command.commands) {
      absl::StrAppend(&script, "complete -c callboard -n '", seen, kFishNot, nested, "' -f -a ",
                      child.command.text, " -d ", Quoted(child.command.help), "\n");
      AppendFish(child,
                 absl::StrCat(seen, "; and __fish_seen_subcommand_from ", child.command.text),
                 script);
    }
  }
  return script;
}

}  // namespace callboard::cli
