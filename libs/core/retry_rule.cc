#include "libs/core/retry_rule.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace callboard::core {
namespace {

// Signals that a process can die of and that people know by name.
constexpr absl::string_view kSignals[] = {
    "SIGABRT", "SIGALRM", "SIGBUS",  "SIGFPE",  "SIGHUP",  "SIGILL",    "SIGINT",   "SIGIO",
    "SIGKILL", "SIGPIPE", "SIGPROF", "SIGPWR",  "SIGQUIT", "SIGSEGV",   "SIGSYS",   "SIGTERM",
    "SIGTRAP", "SIGUSR1", "SIGUSR2", "SIGXCPU", "SIGXFSZ", "SIGVTALRM", "SIGSTKFLT"};

constexpr int kExitCodeMax = 255;

bool IsSignalName(absl::string_view name) {
  return std::find(std::begin(kSignals), std::end(kSignals), name) != std::end(kSignals);
}

}  // namespace

std::optional<RetryRule> ParseRetryRule(absl::string_view text) {
  RetryRule rule;
  absl::string_view rest = text;
  if (text == "exit:*") {
    rule.kind = RetryRule::Kind::kAnyExit;
  } else if (absl::ConsumePrefix(&rest, "exit:")) {
    rule.kind = RetryRule::Kind::kExitCode;
    if (!absl::SimpleAtoi(rest, &rule.exit_code)) return std::nullopt;
    if (rule.exit_code < 1 || rule.exit_code > kExitCodeMax) return std::nullopt;
  } else if (absl::ConsumePrefix(&rest, "signal:")) {
    rule.kind = RetryRule::Kind::kSignal;
    rule.signal = std::string(rest);
    if (!IsSignalName(rest)) return std::nullopt;
  } else if (text != "timeout") {
    return std::nullopt;
  }
  // One way to write each: no signs, no blanks, no leading zeros.
  if (RetryRuleText(rule) != text) return std::nullopt;
  return rule;
}

std::string RetryRuleText(const RetryRule& rule) {
  switch (rule.kind) {
    case RetryRule::Kind::kExitCode:
      return absl::StrCat("exit:", rule.exit_code);
    case RetryRule::Kind::kAnyExit:
      return "exit:*";
    case RetryRule::Kind::kSignal:
      return absl::StrCat("signal:", rule.signal);
    case RetryRule::Kind::kTimeout:
      return "timeout";
  }
  return "";
}

}  // namespace callboard::core
