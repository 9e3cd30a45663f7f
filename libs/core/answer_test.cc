#include "libs/core/answer.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "libs/base/error.h"
#include "libs/testing/file_text.h"

namespace callboard::core {
namespace {

using absl::StatusCode;

AnswerMeaning MeaningOf(StatusCode code, absl::string_view reason = "") {
  absl::Status answer(code, "no");
  if (!reason.empty()) answer = base::WithReason(answer, reason);
  return core::MeaningOf(answer);
}

TEST(AnswerTest, OkIsAccepted) {
  EXPECT_EQ(core::MeaningOf(absl::OkStatus()), AnswerMeaning::kAccepted);
}

TEST(AnswerTest, OnlyABusyAgentIs409) {
  EXPECT_EQ(MeaningOf(StatusCode::kAborted, "AGENT_BUSY"), AnswerMeaning::kBusy);
  EXPECT_EQ(MeaningOf(StatusCode::kAborted, "START_TOO_LATE"), AnswerMeaning::kTransient);
  EXPECT_EQ(MeaningOf(StatusCode::kAborted), AnswerMeaning::kTransient);
  EXPECT_EQ(MeaningOf(StatusCode::kResourceExhausted, "AGENT_BUSY"), AnswerMeaning::kTransient);
}

TEST(AnswerTest, TroubleOfTheAgentOrTheWayIsTransient) {
  for (const StatusCode code :
       {StatusCode::kUnavailable, StatusCode::kInternal, StatusCode::kUnknown,
        StatusCode::kDataLoss, StatusCode::kResourceExhausted, StatusCode::kCancelled,
        StatusCode::kAlreadyExists, StatusCode::kDeadlineExceeded, static_cast<StatusCode>(99)}) {
    EXPECT_EQ(MeaningOf(code), AnswerMeaning::kTransient) << code;
  }
}

TEST(AnswerTest, TroubleOfTheTaskIsFinal) {
  for (const StatusCode code : {StatusCode::kInvalidArgument, StatusCode::kNotFound,
                                StatusCode::kOutOfRange, StatusCode::kFailedPrecondition}) {
    EXPECT_EQ(MeaningOf(code), AnswerMeaning::kRejected) << code;
  }
}

TEST(AnswerTest, AgentThatServesNobodyIsAtFault) {
  for (const StatusCode code :
       {StatusCode::kUnauthenticated, StatusCode::kPermissionDenied, StatusCode::kUnimplemented}) {
    EXPECT_EQ(MeaningOf(code), AnswerMeaning::kAgentAtFault) << code;
  }
}

TEST(AnswerTest, SessionIsRefusedByWhoAnswersNotByWhoIsAway) {
  EXPECT_TRUE(IsSessionRefusal(absl::UnauthenticatedError("")));
  EXPECT_TRUE(IsSessionRefusal(absl::UnimplementedError("")));
  EXPECT_FALSE(IsSessionRefusal(absl::UnavailableError("")));
  EXPECT_FALSE(IsSessionRefusal(absl::DeadlineExceededError("")));
  EXPECT_FALSE(IsSessionRefusal(absl::CancelledError("")));
}

TEST(AnswerTest, FencingAnswerSaysNothingAboutTheTask) {
  EXPECT_EQ(MeaningOf(StatusCode::kFailedPrecondition, "STALE_ATTEMPT"), AnswerMeaning::kStale);
}

// ---- docs/RUNNER.md -----------------------------------------------------------------------------

std::string NameOf(AnswerMeaning meaning) {
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

// The codes of gRPC.
std::vector<StatusCode> AllCodes() {
  std::vector<StatusCode> codes;
  for (int code = 0; code <= 16; ++code) codes.push_back(static_cast<StatusCode>(code));
  return codes;
}

// A cell without its blanks and quotes.
std::string Cell(absl::string_view text) {
  return absl::StrReplaceAll(absl::StripAsciiWhitespace(text), {{"`", ""}});
}

TEST(AnswerTest, DocumentedTableIsWhatTheDirectorDoes) {
  std::set<std::string> documented;
  for (const absl::string_view line : absl::StrSplit(test::FileText("docs/RUNNER.md"), '\n')) {
    const std::vector<std::string> cells = absl::StrSplit(line, '|');
    if (cells.size() != 7) continue;
    for (const StatusCode code : AllCodes()) {
      if (Cell(cells[1]) != absl::StatusCodeToString(code)) continue;
      const std::string reason = Cell(cells[2]);
      documented.insert(Cell(cells[1]));
      EXPECT_EQ(Cell(cells[3]),
                NameOf(MeaningOf(code, absl::StartsWith(reason, "any") ? "" : reason)))
          << line;
    }
  }
  for (const StatusCode code : AllCodes()) {
    EXPECT_TRUE(documented.contains(absl::StatusCodeToString(code))) << code;
  }
}

}  // namespace
}  // namespace callboard::core
