#include "libs/base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

namespace callboard::base {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST(ErrorTest, DetailsRoundTrip) {
  absl::Status error = WithReason(absl::ResourceExhaustedError("queue is at capacity (50 tasks)"),
                                  "QUEUE_FULL", {{"depth", "50"}, {"policy", "reject"}});
  error = WithRetryAfter(std::move(error), absl::Milliseconds(1500));
  error = WithFieldViolation(std::move(error), "prompt", "is 2 MiB; the limit is 1 MiB");

  const ErrorDetails details = GetErrorDetails(error);
  EXPECT_EQ(details.reason, "QUEUE_FULL");
  EXPECT_THAT(details.metadata, ElementsAre(Pair("depth", "50"), Pair("policy", "reject")));
  EXPECT_EQ(details.retry_after, absl::Milliseconds(1500));
  EXPECT_THAT(details.field_violations,
              ElementsAre(Pair("prompt", "is 2 MiB; the limit is 1 MiB")));
  EXPECT_EQ(error.message(), "queue is at capacity (50 tasks)");
}

TEST(ErrorTest, InvalidFieldIsInMessageMetadataAndViolations) {
  const absl::Status error = InvalidField("until", "until must be in the future");
  EXPECT_EQ(error.code(), absl::StatusCode::kInvalidArgument);
  const ErrorDetails details = GetErrorDetails(error);
  EXPECT_EQ(details.reason, "INVALID_FIELD");
  EXPECT_THAT(details.metadata, ElementsAre(Pair("field", "until")));
  EXPECT_THAT(details.field_violations, ElementsAre(Pair("until", "until must be in the future")));
}

TEST(ErrorTest, PlainErrorHasNoDetails) {
  const ErrorDetails details = GetErrorDetails(absl::NotFoundError("gone"));
  EXPECT_EQ(details.reason, "");
  EXPECT_THAT(details.metadata, IsEmpty());
  EXPECT_EQ(details.retry_after, std::nullopt);
}

TEST(ErrorTest, AddingDetailsToOkDies) {
  EXPECT_DEATH((void)WithReason(absl::OkStatus(), "QUEUE_FULL"), "check failed");
}

absl::Status FailsFirst(const absl::Status& status) {
  RETURN_IF_ERROR(status);
  return absl::InternalError("not reached on error");
}

absl::StatusOr<int> Doubled(absl::StatusOr<std::unique_ptr<int>> value) {
  ASSIGN_OR_RETURN(std::unique_ptr<int> number, std::move(value));
  return *number * 2;
}

TEST(StatusMacrosTest, ReturnIfErrorPassesTheErrorUp) {
  EXPECT_EQ(FailsFirst(absl::NotFoundError("gone")), absl::NotFoundError("gone"));
  EXPECT_EQ(FailsFirst(absl::OkStatus()).code(), absl::StatusCode::kInternal);
}

TEST(StatusMacrosTest, AssignOrReturnMovesTheValueOrPassesTheErrorUp) {
  EXPECT_EQ(*Doubled(std::make_unique<int>(21)), 42);
  EXPECT_EQ(Doubled(absl::AbortedError("lost")).status(), absl::AbortedError("lost"));
}

TEST(StatusMacrosTest, AnnotateAddsContextAndKeepsCodeAndDetails) {
  const absl::Status full = WithReason(absl::ResourceExhaustedError("full"), "QUEUE_FULL");
  const absl::Status annotated = Annotate(full, "submitting");
  EXPECT_EQ(annotated.message(), "submitting: full");
  EXPECT_EQ(annotated.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(GetErrorDetails(annotated).reason, "QUEUE_FULL");
  EXPECT_TRUE(Annotate(absl::OkStatus(), "submitting").ok());
}

TEST(StatusMacrosTest, WithAdviceAddsTheNextStepAndKeepsCodeAndDetails) {
  const absl::Status full = WithReason(absl::ResourceExhaustedError("full"), "QUEUE_FULL");
  const absl::Status advised = WithAdvice(full, "retry later");
  EXPECT_EQ(advised.message(), "full; retry later");
  EXPECT_EQ(advised.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(GetErrorDetails(advised).reason, "QUEUE_FULL");
  EXPECT_TRUE(WithAdvice(absl::OkStatus(), "retry later").ok());
}

}  // namespace
}  // namespace callboard::base
