#include "tests/e2e/run_record.h"

#include <map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "libs/base/check.h"
#include "libs/testing/files.h"

namespace callboard::e2e {
namespace {

// printf is a builtin of the shell and writes a line with one call. Processes are identified by
// their environment, which no unrelated process shares; dead processes have none.
constexpr char kScript[] = R"sh(
record() {
  read -r uptime idle </proc/uptime
  printf '%s %s %s %s\n' "$1" "$CALLBOARD_FENCE" "$uptime" "$$" >>'{file}'
}
record begin
alive=$(grep -lzsx "CALLBOARD_QUEUE_ID=$CALLBOARD_QUEUE_ID" /proc/[0-9]*/environ)
[ -z "$(grep -Lzsx "CALLBOARD_FENCE=$CALLBOARD_FENCE" $alive)" ] || record overlap
(
{work}
)
code=$?
record end
echo "$CALLBOARD_FENCE"
exit $code
)sh";

RunLine LineFrom(absl::string_view text) {
  static const std::map<std::string, RunLine::Kind>& kinds =
      *new std::map<std::string, RunLine::Kind>{{"begin", RunLine::Kind::kBegin},
                                                {"end", RunLine::Kind::kEnd},
                                                {"overlap", RunLine::Kind::kOverlap}};
  const std::vector<std::string> words = absl::StrSplit(text, ' ');
  CHECK(words.size() == 4 && kinds.contains(words[0])) << text;
  RunLine line = {.kind = kinds.at(words[0]), .token = FenceToken::From(words[1])};
  CHECK(!line.token.queue_id.empty() && absl::SimpleAtod(words[2], &line.at) &&
        absl::SimpleAtoi(words[3], &line.pid))
      << text;
  return line;
}

}  // namespace

FenceToken FenceToken::From(absl::string_view text) {
  const std::vector<std::string> parts =
      absl::StrSplit(absl::StripTrailingAsciiWhitespace(text), '/');
  FenceToken token;
  if (parts.size() != 3 || !absl::SimpleAtoi(parts[1], &token.dispatch) ||
      !absl::SimpleAtoi(parts[2], &token.epoch)) {
    return {};
  }
  token.queue_id = parts[0];
  return token;
}

std::string FenceToken::ToString() const {
  return absl::StrCat(queue_id, "/", dispatch, "/", epoch);
}

std::string RunRecord::Script(absl::string_view work) const {
  return absl::StrReplaceAll(kScript, {{"{file}", file_.string()}, {"{work}", work}});
}

std::vector<RunLine> RunRecord::Read() const {
  std::vector<RunLine> lines;
  const std::string text = test::FileText(file_);
  // The last line may be incomplete.
  const absl::string_view whole = absl::string_view(text).substr(0, text.rfind('\n') + 1);
  for (const absl::string_view line : absl::StrSplit(whole, '\n', absl::SkipEmpty())) {
    lines.push_back(LineFrom(line));
  }
  return lines;
}

}  // namespace callboard::e2e
