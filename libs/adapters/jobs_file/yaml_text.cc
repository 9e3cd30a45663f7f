#include "libs/adapters/jobs_file/yaml_text.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <sstream>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "libs/base/text.h"

namespace callboard::adapters {
namespace {

std::vector<absl::string_view> LinesOf(absl::string_view text) {
  return absl::StrSplit(text, '\n');
}

int LineAt(absl::string_view text, size_t offset) {
  return 1 + static_cast<int>(std::count(text.begin(), text.begin() + offset, '\n'));
}

// Where `mark` is; the end of the text when it is behind it.
size_t OffsetOf(absl::string_view text, const YAML::Mark& mark) {
  size_t offset = 0;
  for (int line = 0; line < mark.line; ++line) {
    const size_t end = text.find('\n', offset);
    if (end == absl::string_view::npos) return text.size();
    offset = end + 1;
  }
  return std::min(text.size(), offset + static_cast<size_t>(std::max(mark.column, 0)));
}

// Remembers where the last scalar of a document begins.
class LastScalar final : public YAML::EventHandler {
 public:
  const std::optional<YAML::Mark>& mark() const { return mark_; }

  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                const std::string&) override {
    mark_ = mark;
  }
  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}

 private:
  std::optional<YAML::Mark> mark_;
};

// Whether `text`, which begins with a quote, has the one that ends it.
bool IsClosed(absl::string_view text) {
  const char quote = text.front();
  for (size_t i = 1; i < text.size(); ++i) {
    if (quote == '"' && text[i] == '\\') {
      ++i;
    } else if (text[i] == quote) {
      if (quote == '"' || i + 1 == text.size() || text[i + 1] != quote) return true;
      ++i;
    }
  }
  return false;
}

bool BeginsEntry(absl::string_view line) { return line == "-" || absl::StartsWith(line, "- "); }

size_t IndentOf(absl::string_view line) {
  return line.size() - absl::StripLeadingAsciiWhitespace(line).size();
}

// The value of `name:` in a line, also of a map in braces; empty when it has none.
std::string NameIn(absl::string_view line) {
  const size_t found = line.find("name:");
  if (found == absl::string_view::npos) return "";
  // Not one of another key, as `project: {name: x}` and `hostname:`.
  const absl::string_view before = absl::StripAsciiWhitespace(line.substr(0, found));
  if (before != "" && before != "-" && before != "{" && before != "- {") return "";
  absl::string_view value = line.substr(found + sizeof("name:") - 1);
  value = absl::StripAsciiWhitespace(value.substr(0, value.find_first_of(",}#")));
  if (value.size() >= 2 && (value.front() == '"' || value.front() == '\'')) {
    value = value.substr(1, value.size() - 2);
  }
  return std::string(value);
}

}  // namespace

std::optional<TextError> FindBadByte(absl::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const base::Character character = base::FirstCharacter(text.substr(i));
    if (!character.point.has_value()) return TextError{LineAt(text, i), "it is not UTF-8"};
    if (*character.point == 0) return TextError{LineAt(text, i), "it has a NUL byte"};
    i += character.bytes;
  }
  return std::nullopt;
}

std::optional<TextError> FindUnclosedQuote(const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  LastScalar last;
  while (parser.HandleNextDocument(last)) {
  }
  if (!last.mark().has_value()) return std::nullopt;
  absl::string_view rest = absl::string_view(text).substr(OffsetOf(text, *last.mark()));
  // Tags and anchors come first.
  while (!rest.empty() && (rest.front() == '!' || rest.front() == '&')) {
    rest = absl::StripLeadingAsciiWhitespace(rest.substr(std::min(rest.size(), rest.find(' '))));
  }
  if (rest.empty() || (rest.front() != '"' && rest.front() != '\'') || IsClosed(rest)) {
    return std::nullopt;
  }
  return TextError{LineAt(text, text.size() - rest.size()),
                   "a quote that begins here is not closed"};
}

std::string JobAtLine(absl::string_view text, int line) {
  const std::vector<absl::string_view> lines = LinesOf(text);
  // Entries of the list are as far in as the first of them.
  std::optional<size_t> indent;
  std::string name;
  for (size_t i = 0; i < lines.size(); ++i) {
    const absl::string_view stripped = absl::StripAsciiWhitespace(lines[i]);
    if (BeginsEntry(stripped) && IndentOf(lines[i]) <= indent.value_or(IndentOf(lines[i]))) {
      if (static_cast<int>(i) >= line) break;
      indent = IndentOf(lines[i]);
      name.clear();
    }
    if (name.empty() && indent.has_value()) name = NameIn(stripped);
  }
  return name;
}

std::string QuoteAdvice(absl::string_view text, int line) {
  const std::vector<absl::string_view> lines = LinesOf(text);
  if (line < 1 || static_cast<size_t>(line) > lines.size()) return "";
  // Values may be aligned.
  const std::string stripped = absl::StrJoin(
      absl::StrSplit(lines[line - 1], absl::ByAnyChar(" \t"), absl::SkipEmpty()), " ");
  for (const char* begin : {": *", ": @", "- *", "- @", "[*", "[@", "[ *", "[ @", ", *", ", @"}) {
    if (absl::StrContains(stripped, begin)) {
      return "; a value that begins with * or @ has to be quoted: quote it, as '@daily'";
    }
  }
  return "";
}

}  // namespace callboard::adapters
