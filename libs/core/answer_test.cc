#include "libs/core/answer.h"

#include <gtest/gtest.h>

#include "libs/base/error.h"

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

TEST(AnswerTest, FencingAnswerSaysNothingAboutTheTask) {
  EXPECT_EQ(MeaningOf(StatusCode::kFailedPrecondition, "STALE_ATTEMPT"), AnswerMeaning::kStale);
}

}  // namespace
}  // namespace callboard::core
