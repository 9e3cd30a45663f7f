#ifndef CALLBOARD_LIBS_CORE_RETRY_RULE_H_
#define CALLBOARD_LIBS_CORE_RETRY_RULE_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace callboard::core {

// An end of a run that is worth another try. Written `exit:<n>`, `exit:*`, `signal:<name>` or
// `timeout`.
struct RetryRule {
  enum class Kind { kExitCode, kAnyExit, kSignal, kTimeout };

  Kind kind = Kind::kTimeout;
  // 1 to 255; of kExitCode only.
  int exit_code = 0;
  // As in SIGKILL; of kSignal only.
  std::string signal;

  friend bool operator==(const RetryRule&, const RetryRule&) = default;
};

// Null for what RetryRuleText() does not write.
std::optional<RetryRule> ParseRetryRule(absl::string_view text);

std::string RetryRuleText(const RetryRule& rule);

}  // namespace callboard::core

#endif  // CALLBOARD_LIBS_CORE_RETRY_RULE_H_
