// What can be said about the text of a jobs file that yaml-cpp does not say, or says wrongly.
#ifndef CALLBOARD_LIBS_ADAPTERS_JOBS_FILE_YAML_TEXT_H_
#define CALLBOARD_LIBS_ADAPTERS_JOBS_FILE_YAML_TEXT_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace callboard::adapters {

// Something wrong, and its line, counted from 1.
struct TextError {
  int line = 0;
  std::string what = {};
};

// The first byte that is no part of a text file: NUL, or not UTF-8.
std::optional<TextError> FindBadByte(absl::string_view text);

// A quoted value that is still open where the file ends. yaml-cpp takes one that is cut off at the
// end of a line for a shorter value. Throws YAML::Exception for what is not YAML.
std::optional<TextError> FindUnclosedQuote(const std::string& text);

// The name of the job whose entry has this line, as far as it can be told from the text alone;
// empty when it cannot.
std::string JobAtLine(absl::string_view text, int line);

// What to do about an error in this line: values that begin with `*` or `@` mean something else to
// YAML. Empty when there is none.
std::string QuoteAdvice(absl::string_view text, int line);

}  // namespace callboard::adapters

#endif  // CALLBOARD_LIBS_ADAPTERS_JOBS_FILE_YAML_TEXT_H_
