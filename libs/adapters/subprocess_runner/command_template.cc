#include "libs/adapters/subprocess_runner/command_template.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/base/error.h"

namespace callboard::adapters {
namespace {

constexpr absl::string_view kPlaces[] = {"{model}", "{session_id}", "{project}"};

absl::string_view ValueOf(absl::string_view place, const core::TaskSpec& spec) {
  if (place == "{model}") return spec.model;
  if (place == "{session_id}") return spec.session_id;
  return spec.project.has_value() ? absl::string_view(spec.project->name) : "";
}

// Where a task has its value.
absl::string_view FieldOf(absl::string_view place) {
  return place == "{project}" ? "project.name" : place.substr(1, place.size() - 2);
}

// The place that `text` begins with: a word in braces. Empty when it is none; other braces are
// text.
absl::string_view PlaceAt(absl::string_view text) {
  if (!absl::StartsWith(text, "{")) return "";
  const auto* end = std::find_if_not(text.begin() + 1, text.end(), [](char character) {
    return absl::ascii_islower(static_cast<unsigned char>(character)) || character == '_';
  });
  const auto length = static_cast<size_t>(end - text.begin());
  return length > 1 && end != text.end() && *end == '}' ? text.substr(0, length + 1) : "";
}

// Calls `on_text` and `on_place` with the parts of an argument, in order.
template <class OnText, class OnPlace>
void ForEachPart(absl::string_view argument, OnText on_text, OnPlace on_place) {
  while (!argument.empty()) {
    const absl::string_view place = PlaceAt(argument);
    if (place.empty()) {
      on_text(argument.substr(0, 1));
      argument.remove_prefix(1);
    } else {
      on_place(place);
      argument.remove_prefix(place.size());
    }
  }
}

}  // namespace

absl::StatusOr<CommandTemplate> CommandTemplate::Parse(std::vector<std::string> argv) {
  if (argv.empty() || argv.front().empty()) {
    return absl::InvalidArgumentError(
        "runner.argv is empty; it has to name the program that runs tasks");
  }
  std::string unknown;
  bool places_in_program = false;
  for (const std::string& argument : argv) {
    if (absl::StrContains(argument, '\0')) {
      return absl::InvalidArgumentError("runner.argv contains a NUL byte");
    }
    ForEachPart(
        argument, [](absl::string_view) {},
        [&](absl::string_view place) {
          if (std::find(std::begin(kPlaces), std::end(kPlaces), place) == std::end(kPlaces)) {
            unknown = std::string(place);
          }
          if (&argument == &argv.front()) places_in_program = true;
        });
  }
  if (!unknown.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "runner.argv has ", unknown, "; there are {model}, {session_id} and {project}"));
  }
  if (places_in_program) {
    return absl::InvalidArgumentError("runner.argv: a task cannot choose the program");
  }
  return CommandTemplate(std::move(argv));
}

absl::Status CommandTemplate::Check(const core::TaskSpec& spec) const {
  absl::Status status;
  for (const std::string& argument : argv_) {
    bool begins = true;
    ForEachPart(
        argument, [&begins](absl::string_view) { begins = false; },
        [&](absl::string_view place) {
          const absl::string_view value = ValueOf(place, spec);
          if (absl::StrContains(value, '\0')) {
            status =
                base::InvalidField(FieldOf(place), absl::StrCat(place, " contains a NUL byte"));
          } else if (begins && absl::StartsWith(value, "-")) {
            status = base::InvalidField(
                FieldOf(place),
                absl::StrCat(place,
                             " begins with '-': the agent's command would take it for one of "
                             "its options"));
          }
          if (!value.empty()) begins = false;
        });
  }
  return status;
}

std::vector<std::string> CommandTemplate::Filled(const core::TaskSpec& spec) const {
  std::vector<std::string> filled;
  for (const std::string& argument : argv_) {
    std::string& text = filled.emplace_back();
    ForEachPart(
        argument, [&text](absl::string_view part) { absl::StrAppend(&text, part); },
        [&](absl::string_view place) { absl::StrAppend(&text, ValueOf(place, spec)); });
  }
  return filled;
}

}  // namespace callboard::adapters
