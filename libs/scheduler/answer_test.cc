#include "libs/scheduler/director_link.h"

#include <gtest/gtest.h>

#include "libs/base/error.h"

namespace callboard::scheduler {
namespace {

SubmitAnswer Classify(absl::StatusCode code, absl::string_view reason) {
  absl::Status status(code, "text");
  return ClassifyAnswer(reason.empty() ? status : base::WithReason(status, reason));
}

TEST(ClassifyAnswerTest, PermanentErrorsAreNotRetried) {
  for (const absl::StatusCode code :
       {absl::StatusCode::kInvalidArgument, absl::StatusCode::kUnimplemented,
        absl::StatusCode::kPermissionDenied, absl::StatusCode::kUnauthenticated,
        absl::StatusCode::kFailedPrecondition, absl::StatusCode::kNotFound}) {
    EXPECT_EQ(Classify(code, "ANY"), SubmitAnswer::kRefused) << static_cast<int>(code);
  }
}

TEST(ClassifyAnswerTest, MissingAnswerMeansUnknown) {
  for (const absl::StatusCode code :
       {absl::StatusCode::kUnavailable, absl::StatusCode::kDeadlineExceeded,
        absl::StatusCode::kCancelled, absl::StatusCode::kUnknown, absl::StatusCode::kInternal,
        absl::StatusCode::kResourceExhausted}) {
    EXPECT_EQ(Classify(code, ""), SubmitAnswer::kUnknown) << static_cast<int>(code);
  }
  EXPECT_EQ(Classify(absl::StatusCode::kUnavailable, "OUTCOME_UNKNOWN"), SubmitAnswer::kUnknown);
}

TEST(ClassifyAnswerTest, ReasonsDecideTheMeaning) {
  const auto kUnavailable = absl::StatusCode::kUnavailable;
  EXPECT_EQ(ClassifyAnswer(absl::OkStatus()), SubmitAnswer::kAccepted);
  EXPECT_EQ(Classify(absl::StatusCode::kAlreadyExists, "REQUEST_ID_REUSED"),
            SubmitAnswer::kIdReused);
  EXPECT_EQ(Classify(absl::StatusCode::kFailedPrecondition, "OVERLAP"), SubmitAnswer::kOverlap);
  EXPECT_EQ(Classify(absl::StatusCode::kResourceExhausted, "QUEUE_FULL"), SubmitAnswer::kFull);
  EXPECT_EQ(Classify(absl::StatusCode::kResourceExhausted, "STORE_FULL"), SubmitAnswer::kTryLater);
  EXPECT_EQ(Classify(kUnavailable, "QUEUE_DRAINING"), SubmitAnswer::kDraining);
  EXPECT_EQ(Classify(kUnavailable, "OVERLOADED"), SubmitAnswer::kTryLater);
  EXPECT_EQ(Classify(kUnavailable, kDirectorUnreachable), SubmitAnswer::kNotSent);
}

TEST(ClassifyAnswerTest, OnlyErrorsAfterTheIdLookupProveTheIdUnused) {
  for (const SubmitAnswer answer :
       {SubmitAnswer::kOverlap, SubmitAnswer::kFull, SubmitAnswer::kDraining}) {
    EXPECT_TRUE(ProvesIdUnused(answer));
  }
  for (const SubmitAnswer answer :
       {SubmitAnswer::kAccepted, SubmitAnswer::kIdReused, SubmitAnswer::kTryLater,
        SubmitAnswer::kNotSent, SubmitAnswer::kRefused, SubmitAnswer::kUnknown}) {
    EXPECT_FALSE(ProvesIdUnused(answer));
  }
}

TEST(ClassifyAnswerTest, QueueIdComesFromTheMetadata) {
  EXPECT_EQ(
      QueueIdFrom(base::WithReason(absl::AlreadyExistsError(""), "X", {{"queue_id", "queue-1"}})),
      "queue-1");
  EXPECT_EQ(QueueIdFrom(absl::AlreadyExistsError("")), "");
}

}  // namespace
}  // namespace callboard::scheduler
