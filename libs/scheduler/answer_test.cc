#include "libs/scheduler/answer.h"

#include <gtest/gtest.h>

#include "libs/base/error.h"
#include "libs/scheduler/director_link.h"

namespace callboard::scheduler {
namespace {

Answer Of(absl::StatusCode code, absl::string_view reason) {
  absl::Status status(code, "text");
  return MeaningOf(reason.empty() ? status : base::WithReason(status, reason));
}

TEST(AnswerTest, WhatTheDirectorRefusesForGoodIsNotAskedAgain) {
  for (const absl::StatusCode code :
       {absl::StatusCode::kInvalidArgument, absl::StatusCode::kUnimplemented,
        absl::StatusCode::kPermissionDenied, absl::StatusCode::kUnauthenticated,
        absl::StatusCode::kFailedPrecondition, absl::StatusCode::kNotFound}) {
    EXPECT_EQ(Of(code, "ANY"), Answer::kRefused) << static_cast<int>(code);
  }
}

TEST(AnswerTest, WhatTheDirectorDidNotSayMayHaveHappened) {
  for (const absl::StatusCode code :
       {absl::StatusCode::kUnavailable, absl::StatusCode::kDeadlineExceeded,
        absl::StatusCode::kCancelled, absl::StatusCode::kUnknown, absl::StatusCode::kInternal,
        absl::StatusCode::kResourceExhausted}) {
    EXPECT_EQ(Of(code, ""), Answer::kUnknown) << static_cast<int>(code);
  }
  EXPECT_EQ(Of(absl::StatusCode::kUnavailable, "OUTCOME_UNKNOWN"), Answer::kUnknown);
}

TEST(AnswerTest, ReasonsSayWhatBecameOfASubmit) {
  const auto kUnavailable = absl::StatusCode::kUnavailable;
  EXPECT_EQ(MeaningOf(absl::OkStatus()), Answer::kAccepted);
  EXPECT_EQ(Of(absl::StatusCode::kAlreadyExists, "REQUEST_ID_REUSED"), Answer::kOtherContent);
  EXPECT_EQ(Of(absl::StatusCode::kFailedPrecondition, "OVERLAP"), Answer::kOverlap);
  EXPECT_EQ(Of(absl::StatusCode::kResourceExhausted, "QUEUE_FULL"), Answer::kFull);
  EXPECT_EQ(Of(absl::StatusCode::kResourceExhausted, "STORE_FULL"), Answer::kNotNow);
  EXPECT_EQ(Of(kUnavailable, "QUEUE_DRAINING"), Answer::kDraining);
  EXPECT_EQ(Of(kUnavailable, "OVERLOADED"), Answer::kNotNow);
  EXPECT_EQ(Of(kUnavailable, kDirectorUnreachable), Answer::kNotSent);
}

TEST(AnswerTest, OnlyARefusalThatComesAfterTheLookForTheIdSaysThatThereIsNoTask) {
  for (const Answer answer : {Answer::kOverlap, Answer::kFull, Answer::kDraining}) {
    EXPECT_TRUE(SaysIdIsFree(answer));
  }
  for (const Answer answer : {Answer::kAccepted, Answer::kOtherContent, Answer::kNotNow,
                              Answer::kNotSent, Answer::kRefused, Answer::kUnknown}) {
    EXPECT_FALSE(SaysIdIsFree(answer));
  }
}

TEST(AnswerTest, TaskIsTakenFromTheMetadata) {
  EXPECT_EQ(
      QueueIdIn(base::WithReason(absl::AlreadyExistsError(""), "X", {{"queue_id", "queue-1"}})),
      "queue-1");
  EXPECT_EQ(QueueIdIn(absl::AlreadyExistsError("")), "");
}

}  // namespace
}  // namespace callboard::scheduler
