#include "libs/core/dispatch_rules.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "libs/base/check.h"
#include "libs/base/error.h"
#include "libs/core/hash.h"

namespace callboard::core {

AnswerMeaning ClassifyStartAnswer(const absl::Status& answer) {
  const std::string reason = base::GetErrorDetails(answer).reason;
  switch (answer.code()) {
    case absl::StatusCode::kOk:
      return AnswerMeaning::kAccepted;
    case absl::StatusCode::kAborted:
      return reason == "AGENT_BUSY" ? AnswerMeaning::kBusy : AnswerMeaning::kTransient;
    case absl::StatusCode::kFailedPrecondition:
      return reason == "STALE_ATTEMPT" ? AnswerMeaning::kStale : AnswerMeaning::kRejected;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kOutOfRange:
      return AnswerMeaning::kRejected;
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnimplemented:
      return AnswerMeaning::kAgentAtFault;
    default:
      // UNAVAILABLE, INTERNAL, UNKNOWN, DATA_LOSS, RESOURCE_EXHAUSTED, CANCELLED, ALREADY_EXISTS,
      // DEADLINE_EXCEEDED, and codes that do not exist yet.
      return AnswerMeaning::kTransient;
  }
}

bool IsSessionRejection(const absl::Status& error) {
  return !absl::IsUnavailable(error) && !absl::IsDeadlineExceeded(error) &&
         !absl::IsCancelled(error);
}

namespace {

// Signals that terminate a process and have well-known names.
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
  // Each rule has one spelling: no signs, no blanks, no leading zeros.
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

absl::Duration ExponentialBackoff(absl::Duration first, int factor, uint32_t times,
                                  absl::Duration max) {
  absl::Duration backoff = first;
  for (uint32_t i = 0; i < times && backoff < max; ++i) backoff *= factor;
  return std::min(backoff, max);
}

absl::Duration WithJitter(absl::Duration full, uint64_t hash) {
  return full / 2 + full / 2 * (static_cast<double>(hash >> 11) * 0x1p-53);
}

absl::Duration BackoffAfter(QueueId task, uint32_t attempts,
                            std::optional<absl::Duration> requested) {
  CHECK(attempts > 0);
  if (requested.has_value()) {
    return std::clamp(*requested, absl::ZeroDuration(), absl::Duration(absl::Minutes(15)));
  }
  const absl::Duration full =
      ExponentialBackoff(absl::Seconds(5), 4, attempts - 1, absl::Minutes(5));
  const uint64_t hash =
      StableHash().Add(task.value().high()).Add(task.value().low()).Add(attempts).value();
  return WithJitter(full, hash);
}

absl::Duration UnreachableBackoff(uint32_t times) {
  CHECK(times > 0);
  return ExponentialBackoff(absl::Seconds(5), 2, times - 1, absl::Minutes(2));
}

}  // namespace callboard::core
