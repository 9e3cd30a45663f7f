#include "libs/base/error.h"

#include <gtest/gtest.h>

#include <memory>

namespace callboard::base {
namespace {

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

}  // namespace
}  // namespace callboard::base
