#include "libs/config/yaml.h"

#include <yaml-cpp/eventhandler.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <sstream>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "libs/base/error.h"
#include "libs/base/text.h"

namespace callboard::config {

// ---- Errors in YAML -----------------------------------------------------------------------------

namespace {

std::vector<absl::string_view> SplitLines(absl::string_view text) {
  return absl::StrSplit(text, '\n');
}

int LineAt(absl::string_view text, size_t offset) {
  return 1 + static_cast<int>(std::count(text.begin(), text.begin() + offset, '\n'));
}

// Returns the offset of `mark`, or the end of the text if `mark` is beyond it.
size_t OffsetAtMark(absl::string_view text, const YAML::Mark& mark) {
  size_t offset = 0;
  for (int line = 0; line < mark.line; ++line) {
    const size_t end = text.find('\n', offset);
    if (end == absl::string_view::npos) return text.size();
    offset = end + 1;
  }
  return std::min(text.size(), offset + static_cast<size_t>(std::max(mark.column, 0)));
}

// Finds the position of the last scalar of a document.
class LastScalarFinder final : public YAML::EventHandler {
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

// Returns whether `text`, which begins with a quote, contains the closing quote.
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

bool StartsListEntry(absl::string_view line) { return line == "-" || absl::StartsWith(line, "- "); }

size_t Indentation(absl::string_view line) {
  return line.size() - absl::StripLeadingAsciiWhitespace(line).size();
}

// Returns the value of `name:` in a line, which may begin a map in braces. Empty if there is none.
std::string JobNameInLine(absl::string_view line) {
  const size_t found = line.find("name:");
  if (found == absl::string_view::npos) return "";
  // Ignore a `name:` of another key, as in `project: {name: x}` and `hostname:`.
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
    if (!character.point.has_value()) return TextError{LineAt(text, i), "invalid UTF-8"};
    if (*character.point == 0) return TextError{LineAt(text, i), "contains a NUL byte"};
    i += character.bytes;
  }
  return std::nullopt;
}

std::optional<TextError> FindUnclosedQuote(const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  LastScalarFinder last;
  while (parser.HandleNextDocument(last)) {
  }
  if (!last.mark().has_value()) return std::nullopt;
  absl::string_view rest = absl::string_view(text).substr(OffsetAtMark(text, *last.mark()));
  // Skip tags and anchors.
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
  const std::vector<absl::string_view> lines = SplitLines(text);
  // All entries of the list have the indentation of the first one.
  std::optional<size_t> indent;
  std::string name;
  for (size_t i = 0; i < lines.size(); ++i) {
    const absl::string_view stripped = absl::StripAsciiWhitespace(lines[i]);
    if (StartsListEntry(stripped) &&
        Indentation(lines[i]) <= indent.value_or(Indentation(lines[i]))) {
      if (static_cast<int>(i) >= line) break;
      indent = Indentation(lines[i]);
      name.clear();
    }
    if (name.empty() && indent.has_value()) name = JobNameInLine(stripped);
  }
  return name;
}

std::string QuoteAdvice(absl::string_view text, int line) {
  const std::vector<absl::string_view> lines = SplitLines(text);
  if (line < 1 || static_cast<size_t>(line) > lines.size()) return "";
  // Collapse white space: values may be aligned.
  const std::string stripped = absl::StrJoin(
      absl::StrSplit(lines[line - 1], absl::ByAnyChar(" \t"), absl::SkipEmpty()), " ");
  for (const char* begin : {": *", ": @", "- *", "- @", "[*", "[@", "[ *", "[ @", ", *", ", @"}) {
    if (absl::StrContains(stripped, begin)) {
      return "; a value that begins with * or @ must be quoted, as in '@daily'";
    }
  }
  return "";
}

// ---- Values -------------------------------------------------------------------------------------

namespace {

// Limit on the values of one reader together. Aliases can make a small file expand without bound.
constexpr size_t kValueBytesMax = 4 << 20;

}  // namespace

// The mark of an empty document has no line.
int LineOf(const YAML::Node& node) { return std::max(node.Mark().line, 0) + 1; }

absl::Status YamlReader::Error(int line, absl::string_view problem) const {
  return absl::InvalidArgumentError(
      absl::StrCat(options_.path, ":", line, ": ", options_.subject, problem));
}

absl::Status YamlReader::Error(const YAML::Node& node, absl::string_view problem) const {
  return Error(LineOf(node), problem);
}

absl::Status YamlReader::ReadMap(const YAML::Node& map, const std::string& prefix) {
  for (const auto& entry : map) {
    const std::string key = entry.first.Scalar();
    const std::string name = prefix.empty() ? key : absl::StrCat(prefix, ".", key);
    if (!names_.insert(name).second)
      return Error(entry.first, absl::StrCat(name, " is duplicated"));
    RETURN_IF_ERROR(ReadEntry(entry.first, entry.second, name));
  }
  return absl::OkStatus();
}

absl::Status YamlReader::ReadEntry(const YAML::Node& key, const YAML::Node& value,
                                   const std::string& name) {
  const std::optional<SettingField> setting = FindSetting(settings_, name);
  const bool is_group = IsGroup(name, key.Scalar());
  // A setting may be one value or a group, as in `catch_up: latest` and `catch_up: {all: 5}`.
  if (setting.has_value() && !(is_group && value.IsMap())) return ReadValue(*setting, key, value);
  if (!is_group) return Error(key, options_.unknown_key(name, NamesLike(settings_, name)));
  if (value.IsNull()) return absl::OkStatus();
  if (!value.IsMap()) return Error(key, absl::StrCat(name, " holds settings, not a value"));
  return ReadMap(value, name);
}

absl::Status YamlReader::ReadValue(const SettingField& setting, const YAML::Node& key,
                                   const YAML::Node& value) {
  if (value.IsNull()) return absl::OkStatus();
  const auto& field = setting.field();
  const bool is_map = field.is_map();
  const bool is_list = field.is_repeated() && !is_map;
  // The flag of a setting separates the elements of a list by commas, so a single value in a file
  // would be ambiguous. Other fields have no flag.
  const bool is_setting = field.options().HasExtension(v1::setting);
  FileValue result = {.setting = setting, .elements = {}, .line = LineOf(key)};
  if (value.IsScalar() && (!field.is_repeated() || (is_list && !is_setting))) {
    RETURN_IF_ERROR(AddElement(key, value, "", result));
  } else if (value.IsSequence() && is_list) {
    for (const YAML::Node& element : value) {
      RETURN_IF_ERROR(AddElement(element, element, "", result));
    }
  } else if (value.IsMap() && is_map) {
    std::set<std::string> seen;
    for (const auto& entry : value) {
      const std::string name = entry.first.Scalar();
      if (!seen.insert(name).second) {
        return Error(entry.first,
                     absl::StrCat(setting.name, ".", base::EscapeForError(name), " is duplicated"));
      }
      RETURN_IF_ERROR(AddElement(entry.first, entry.second, name, result));
    }
  } else {
    return Error(key, absl::StrCat(setting.name, ": expected ",
                                   is_map    ? "a map"
                                   : is_list ? "a list"
                                             : "one value"));
  }
  values_.push_back(std::move(result));
  return absl::OkStatus();
}

absl::Status YamlReader::AddElement(const YAML::Node& place, const YAML::Node& value,
                                    std::string key, FileValue& to) {
  const bool is_map = to.setting.field().is_map();
  if (is_map && key.empty()) {
    return Error(place, absl::StrCat(to.setting.name, " has an entry without a key"));
  }
  if (!value.IsScalar()) {
    return Error(place, absl::StrCat(to.setting.name, is_map ? "." : "", base::EscapeForError(key),
                                     ": expected one value"));
  }
  bytes_ += key.size() + value.Scalar().size();
  if (bytes_ > kValueBytesMax) return Error(place, "the values are too large");
  to.elements.push_back({std::move(key), value.Scalar(), LineOf(place)});
  return absl::OkStatus();
}

// Returns whether `name` is a prefix of settings. `key`, its last part, may be an entry of a map.
bool YamlReader::IsGroup(const std::string& name, const std::string& key) const {
  const std::string prefix = name + ".";
  return std::any_of(settings_.begin(), settings_.end(), [&](const SettingField& setting) {
    const bool has_entry = setting.entry == kAnyEntry;
    return absl::StartsWith(has_entry ? setting.ForEntry(key).name : setting.name, prefix);
  });
}

absl::StatusOr<std::vector<FileValue>> ReadYamlFile(const std::string& path,
                                                    const std::vector<SettingField>& settings) {
  std::ifstream file(path);
  std::error_code error;
  // An ifstream can open a folder, so check for that.
  if (!file || std::filesystem::is_directory(path, error)) {
    return absl::InvalidArgumentError(absl::StrCat("config: cannot read '", path, "'"));
  }
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  YamlReader reader({.path = path}, settings);
  // yaml-cpp throws exceptions; they are converted to a Status here.
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(text);
    if (documents.size() > 1) {
      return reader.Error(documents[1], "expected one document, found another one after `---`");
    }
    const YAML::Node document = documents.empty() ? YAML::Node() : documents[0];
    if (document.IsNull()) return std::vector<FileValue>();
    if (!document.IsMap()) return reader.Error(document, "expected a map of settings");
    RETURN_IF_ERROR(reader.ReadMap(document));
  } catch (const YAML::Exception& error) {
    return reader.Error(error.mark.line + 1, error.msg);
  }
  return reader.values();
}

}  // namespace callboard::config
