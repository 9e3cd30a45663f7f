#include "libs/base/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace callboard::base
