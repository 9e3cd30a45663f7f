#include "libs/wire/fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "libs/base/error.h"
#include "libs/testing/status_matchers.h"

namespace callboard::wire {
namespace {

using ::callboard::test::HasReason;
using ::callboard::test::IsOk;
using ::callboard::test::StatusIs;
using ::testing::ElementsAre;
using ::testing::Pair;

TEST(FieldChecksTest, NoViolationIsOk) {
  FieldChecks checks;
  checks.CheckLimit("labels", 32, 32, "entries");
  EXPECT_THAT(checks.status(), IsOk());
}

TEST(FieldChecksTest, ListsEveryFieldWithLimitAndSize) {
  FieldChecks checks;
  checks.AddViolation("prompt", "is required");
  checks.CheckLimit("labels", 33, 32, "entries");
  EXPECT_THAT(checks.status(), StatusIs(absl::StatusCode::kInvalidArgument, "prompt is required"));
  EXPECT_THAT(checks.status(), HasReason("INVALID_FIELD"));
  EXPECT_THAT(base::GetErrorDetails(checks.status()).field_violations,
              ElementsAre(Pair("labels", "has 33 entries, at most 32 are allowed"),
                          Pair("prompt", "is required")));
}

TEST(FieldChecksTest, FirstProblemOfAFieldIsKept) {
  FieldChecks checks;
  checks.AddViolation("env", "has 65 entries");
  checks.AddViolation("env", "contains a NUL byte");
  EXPECT_THAT(base::GetErrorDetails(checks.status()).field_violations,
              ElementsAre(Pair("env", "has 65 entries")));
}

TEST(FieldChecksTest, FieldsOfASubmessageHaveItsNameAsPrefix) {
  FieldChecks checks;
  checks.AddViolation("request_id", "is required");
  checks.EnterMessage("task");
  checks.AddViolation("request_id", "is too long");
  EXPECT_THAT(
      base::GetErrorDetails(checks.status()).field_violations,
      ElementsAre(Pair("request_id", "is required"), Pair("task.request_id", "is too long")));
}

TEST(FieldChecksTest, NumberOfViolationsIsBounded) {
  FieldChecks checks;
  for (int i = 0; i < 100'000; ++i)
    checks.AddViolation(absl::StrCat("retry_on[", i, "]"), "is no rule");
  EXPECT_EQ(base::GetErrorDetails(checks.status()).field_violations.size(), 32u);
}

}  // namespace
}  // namespace callboard::wire
