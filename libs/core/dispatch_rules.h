// Rules that follow the answer of an agent or the end of a run: what it means, whether the task is
// retried, and after which wait.

#ifndef CALLBOARD_LIBS_CORE_DISPATCH_RULES_H_
#define CALLBOARD_LIBS_CORE_DISPATCH_RULES_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/core/ids.h"

namespace callboard::core {

// The consequence of an agent's answer to a start request.
enum class AnswerMeaning {
  kAccepted,
  // Busy (HTTP 409): the agent has no free slot. The task returns to the queue, and the dispatch
  // does not count as an attempt (DirectorEngine::HandleBusy() has the whole rule).
  kBusy,
  // 5xx: the agent or the connection to it failed. The task is retried after a backoff, and the
  // dispatch counts as an attempt.
  kTransient,
  // 4xx: the task itself is invalid and fails.
  kRejected,
  // The agent cannot run any task in its current configuration. The agent is cordoned, and the task
  // is dispatched elsewhere.
  kAgentAtFault,
  // The dispatch is outdated. The answer has no consequence for the task.
  kStale,
};

// Classifies an answer by its status code, and by its reason where one code has two meanings.
// docs/RUNNER.md has the table.
AnswerMeaning ClassifyStartAnswer(const absl::Status& answer);

// Returns true if the agent rejected a Session, and false if the agent could not be reached.
bool IsSessionRejection(const absl::Status& error);

// An end of a run after which the task is retried. Written `exit:<n>`, `exit:*`, `signal:<name>` or
// `timeout`.
struct RetryRule {
  enum class Kind { kExitCode, kAnyExit, kSignal, kTimeout };

  Kind kind = Kind::kTimeout;
  // 1 to 255; only for kExitCode.
  int exit_code = 0;
  // A name such as SIGKILL; only for kSignal.
  std::string signal;

  friend bool operator==(const RetryRule&, const RetryRule&) = default;
};

// Returns null for a text that RetryRuleText() does not produce.
std::optional<RetryRule> ParseRetryRule(absl::string_view text);

std::string RetryRuleText(const RetryRule& rule);

// Returns `first` · `factor`^`times`, at most `max`.
absl::Duration ExponentialBackoff(absl::Duration first, int factor, uint32_t times,
                                  absl::Duration max);

// Returns a duration between half of `full` and `full`, chosen by `hash`. Waiters with different
// hashes that start together do not end together.
absl::Duration WithJitter(absl::Duration full, uint64_t hash);

// Returns the wait before the next attempt of a task, after attempt number `attempts` (from 1):
// 5 s · 4^(attempts - 1), at most 5 min, with jitter from a hash of task and attempt, so that tasks
// that failed together are not retried together. `requested`, the RetryInfo of an agent, replaces
// this, up to 15 min.
absl::Duration BackoffAfter(QueueId task, uint32_t attempts,
                            std::optional<absl::Duration> requested);

// Returns how long the director leaves an agent alone that was unreachable `times` times in a row
// (from 1): 5 s · 2^(times - 1), at most 2 min.
absl::Duration UnreachableBackoff(uint32_t times);

}  // namespace callboard::core

#endif  // CALLBOARD_LIBS_CORE_DISPATCH_RULES_H_
