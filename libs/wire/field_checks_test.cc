#include "libs/wire/field_checks.h"

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

TEST(FieldChecksTest, NothingRefusedIsOk) {
  FieldChecks checks;
  checks.AtMost("labels", 32, 32, "entries");
  EXPECT_THAT(checks.status(), IsOk());
}

TEST(FieldChecksTest, NamesEveryFieldWithLimitAndSizeAndSpeaksOfTheFirst) {
  FieldChecks checks;
  checks.Refuse("prompt", "is required");
  checks.AtMost("labels", 33, 32, "entries");
  EXPECT_THAT(checks.status(), StatusIs(absl::StatusCode::kInvalidArgument, "prompt is required"));
  EXPECT_THAT(checks.status(), HasReason("INVALID_FIELD"));
  EXPECT_THAT(base::DetailsOf(checks.status()).field_violations,
              ElementsAre(Pair("labels", "has 33 entries, at most 32 are allowed"),
                          Pair("prompt", "is required")));
}

TEST(FieldChecksTest, FirstProblemOfAFieldCounts) {
  FieldChecks checks;
  checks.Refuse("env", "has 65 entries");
  checks.Refuse("env", "contains a NUL byte");
  EXPECT_THAT(base::DetailsOf(checks.status()).field_violations,
              ElementsAre(Pair("env", "has 65 entries")));
}

TEST(FieldChecksTest, FieldsOfAMessageInTheRequestAreNamedWithIt) {
  FieldChecks checks;
  checks.Refuse("request_id", "is required");
  checks.Enter("task");
  checks.Refuse("request_id", "is too long");
  EXPECT_THAT(
      base::DetailsOf(checks.status()).field_violations,
      ElementsAre(Pair("request_id", "is required"), Pair("task.request_id", "is too long")));
}

TEST(FieldChecksTest, AnswerFitsIntoAHeaderHoweverMuchIsWrong) {
  FieldChecks checks;
  for (int i = 0; i < 100'000; ++i) checks.Refuse(absl::StrCat("retry_on[", i, "]"), "is no rule");
  EXPECT_EQ(base::DetailsOf(checks.status()).field_violations.size(), 32u);
}

}  // namespace
}  // namespace callboard::wire
