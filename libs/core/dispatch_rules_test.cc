#include "libs/core/dispatch_rules.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "libs/base/error.h"
#include "libs/testing/files.h"

namespace callboard::core {
namespace {

using absl::StatusCode;

AnswerMeaning ClassifyStartAnswer(StatusCode code, absl::string_view reason = "") {
  absl::Status answer(code, "no");
  if (!reason.empty()) answer = base::WithReason(answer, reason);
  return core::ClassifyStartAnswer(answer);
}

TEST(AnswerTest, OkIsAccepted) {
  EXPECT_EQ(core::ClassifyStartAnswer(absl::OkStatus()), AnswerMeaning::kAccepted);
}

TEST(AnswerTest, AbortedIsBusyOnlyWithTheReasonAgentBusy) {
  EXPECT_EQ(ClassifyStartAnswer(StatusCode::kAborted, "AGENT_BUSY"), AnswerMeaning::kBusy);
  EXPECT_EQ(ClassifyStartAnswer(StatusCode::kAborted, "START_TOO_LATE"), AnswerMeaning::kTransient);
  EXPECT_EQ(ClassifyStartAnswer(StatusCode::kAborted), AnswerMeaning::kTransient);
  EXPECT_EQ(ClassifyStartAnswer(StatusCode::kResourceExhausted, "AGENT_BUSY"),
            AnswerMeaning::kTransient);
}

TEST(AnswerTest, AgentAndConnectionErrorsAreTransient) {
  for (const StatusCode code :
       {StatusCode::kUnavailable, StatusCode::kInternal, StatusCode::kUnknown,
        StatusCode::kDataLoss, StatusCode::kResourceExhausted, StatusCode::kCancelled,
        StatusCode::kAlreadyExists, StatusCode::kDeadlineExceeded, static_cast<StatusCode>(99)}) {
    EXPECT_EQ(ClassifyStartAnswer(code), AnswerMeaning::kTransient) << code;
  }
}

TEST(AnswerTest, TaskErrorsAreFinal) {
  for (const StatusCode code : {StatusCode::kInvalidArgument, StatusCode::kNotFound,
                                StatusCode::kOutOfRange, StatusCode::kFailedPrecondition}) {
    EXPECT_EQ(ClassifyStartAnswer(code), AnswerMeaning::kRejected) << code;
  }
}

TEST(AnswerTest, AgentThatRejectsEveryTaskIsAtFault) {
  for (const StatusCode code :
       {StatusCode::kUnauthenticated, StatusCode::kPermissionDenied, StatusCode::kUnimplemented}) {
    EXPECT_EQ(ClassifyStartAnswer(code), AnswerMeaning::kAgentAtFault) << code;
  }
}

TEST(AnswerTest, UnreachableAgentIsNoSessionRejection) {
  EXPECT_TRUE(IsSessionRejection(absl::UnauthenticatedError("")));
  EXPECT_TRUE(IsSessionRejection(absl::UnimplementedError("")));
  EXPECT_FALSE(IsSessionRejection(absl::UnavailableError("")));
  EXPECT_FALSE(IsSessionRejection(absl::DeadlineExceededError("")));
  EXPECT_FALSE(IsSessionRejection(absl::CancelledError("")));
}

TEST(AnswerTest, FencingAnswerIsStale) {
  EXPECT_EQ(ClassifyStartAnswer(StatusCode::kFailedPrecondition, "STALE_ATTEMPT"),
            AnswerMeaning::kStale);
}

// ---- docs/RUNNER.md -----------------------------------------------------------------------------

std::string MeaningName(AnswerMeaning meaning) {
  switch (meaning) {
    case AnswerMeaning::kAccepted:
      return "accepted";
    case AnswerMeaning::kBusy:
      return "busy";
    case AnswerMeaning::kTransient:
      return "retry";
    case AnswerMeaning::kRejected:
      return "fail";
    case AnswerMeaning::kAgentAtFault:
      return "cordon";
    case AnswerMeaning::kStale:
      return "stale";
  }
  return "";
}

// All status codes of gRPC.
std::vector<StatusCode> AllCodes() {
  std::vector<StatusCode> codes;
  for (int code = 0; code <= 16; ++code) codes.push_back(static_cast<StatusCode>(code));
  return codes;
}

// Strips blanks and back quotes from a table cell.
std::string Cell(absl::string_view text) {
  return absl::StrReplaceAll(absl::StripAsciiWhitespace(text), {{"`", ""}});
}

TEST(AnswerTest, TableInRunnerDocMatchesTheCode) {
  std::set<std::string> documented;
  for (const absl::string_view line : absl::StrSplit(test::FileText("docs/RUNNER.md"), '\n')) {
    const std::vector<std::string> cells = absl::StrSplit(line, '|');
    if (cells.size() != 7) continue;
    for (const StatusCode code : AllCodes()) {
      if (Cell(cells[1]) != absl::StatusCodeToString(code)) continue;
      const std::string reason = Cell(cells[2]);
      documented.insert(Cell(cells[1]));
      EXPECT_EQ(Cell(cells[3]), MeaningName(ClassifyStartAnswer(
                                    code, absl::StartsWith(reason, "any") ? "" : reason)))
          << line;
    }
  }
  for (const StatusCode code : AllCodes()) {
    EXPECT_TRUE(documented.contains(absl::StatusCodeToString(code))) << code;
  }
}

TEST(RetryRuleTest, ReadsBackWhatItWrites) {
  for (const char* text : {"exit:1", "exit:255", "exit:*", "signal:SIGKILL", "timeout"}) {
    const std::optional<RetryRule> rule = ParseRetryRule(text);
    ASSERT_TRUE(rule.has_value()) << text;
    EXPECT_EQ(RetryRuleText(*rule), text);
  }
}

TEST(RetryRuleTest, OtherTextIsNoRule) {
  for (const char* text : {"", "exit", "exit:", "exit:0", "exit:256", "exit:-1", "exit:+1",
                           "exit: 1", "exit:01", "exit:1x", "signal:", "signal:KILL",
                           "signal:sigkill", "signal:SIGSTOP", "timeout:5", "Timeout", "*"}) {
    EXPECT_EQ(ParseRetryRule(text), std::nullopt) << text;
  }
}

constexpr QueueId kTask = QueueId(Ulid(1, 2));

TEST(BackoffTest, GrowsFourfoldUpToFiveMinutes) {
  const absl::Duration full[] = {absl::Seconds(5), absl::Seconds(20), absl::Seconds(80),
                                 absl::Minutes(5), absl::Minutes(5)};
  for (uint32_t attempts = 1; attempts <= 5; ++attempts) {
    const absl::Duration backoff = BackoffAfter(kTask, attempts, std::nullopt);
    EXPECT_GE(backoff, full[attempts - 1] / 2);
    EXPECT_LT(backoff, full[attempts - 1]);
  }
  EXPECT_LE(BackoffAfter(kTask, 100, std::nullopt), absl::Minutes(5));
}

TEST(BackoffTest, IsStablePerTaskAndSpreadOverTasks) {
  EXPECT_EQ(BackoffAfter(kTask, 1, std::nullopt), BackoffAfter(kTask, 1, std::nullopt));
  std::set<absl::Duration> backoffs;
  absl::Duration least = absl::InfiniteDuration();
  absl::Duration most;
  for (uint64_t i = 0; i < 1000; ++i) {
    const absl::Duration backoff = BackoffAfter(QueueId(Ulid(0, i)), 1, std::nullopt);
    backoffs.insert(backoff);
    least = std::min(least, backoff);
    most = std::max(most, backoff);
  }
  EXPECT_EQ(backoffs.size(), 1000u);
  EXPECT_LT(least, absl::Milliseconds(2600));
  EXPECT_GT(most, absl::Milliseconds(4900));
}

TEST(BackoffTest, RequestOfTheAgentWinsUpToFifteenMinutes) {
  EXPECT_EQ(BackoffAfter(kTask, 1, absl::Seconds(90)), absl::Seconds(90));
  EXPECT_EQ(BackoffAfter(kTask, 1, absl::Hours(1)), absl::Minutes(15));
  EXPECT_EQ(BackoffAfter(kTask, 1, -absl::Seconds(1)), absl::ZeroDuration());
}

TEST(BackoffTest, UnreachableBackoffDoublesUpToTwoMinutes) {
  EXPECT_EQ(UnreachableBackoff(1), absl::Seconds(5));
  EXPECT_EQ(UnreachableBackoff(2), absl::Seconds(10));
  EXPECT_EQ(UnreachableBackoff(5), absl::Seconds(80));
  EXPECT_EQ(UnreachableBackoff(6), absl::Minutes(2));
  EXPECT_EQ(UnreachableBackoff(1000), absl::Minutes(2));
}

}  // namespace
}  // namespace callboard::core
