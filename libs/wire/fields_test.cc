#include "libs/wire/fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "callboard/v1/queue.pb.h"
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

using test::HasReason;
using test::IsOk;
using test::StatusIs;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::UnorderedElementsAre;

class ParseTest : public testing::Test {
 protected:
  ParseTest() { InstallProtobufLogHandler(); }

  // Parses `request` with invalid UTF-8 in place of "GOOD".
  absl::Status ParseInvalid(const v1::SubmitTaskRequest& request) {
    std::string bytes = request.SerializeAsString();
    const size_t position = bytes.find("GOOD");
    bytes.replace(position, 4, "\xff\xfe\xfd\xfc");
    v1::SubmitTaskRequest parsed;
    return Parse(bytes, parsed);
  }
};

TEST_F(ParseTest, ErrorNamesTheFieldThatIsNotUtf8) {
  v1::SubmitTaskRequest request;
  request.set_prompt("GOOD");
  const absl::Status status = ParseInvalid(request);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument, "prompt is not UTF-8"));
  EXPECT_THAT(status, HasReason("INVALID_FIELD"));
  EXPECT_THAT(base::GetErrorDetails(status).field_violations, UnorderedElementsAre(Key("prompt")));
}

TEST_F(ParseTest, FieldsInMessagesAndMapsHaveTheirPath) {
  v1::SubmitTaskRequest request;
  request.mutable_project()->set_name("GOOD");
  EXPECT_THAT(ParseInvalid(request),
              StatusIs(absl::StatusCode::kInvalidArgument, "project.name is not UTF-8"));
  request.Clear();
  (*request.mutable_labels())["GOOD"] = "value";
  EXPECT_THAT(ParseInvalid(request),
              StatusIs(absl::StatusCode::kInvalidArgument, "labels is not UTF-8"));
}

TEST_F(ParseTest, ErrorForMalformedBytesNamesNoField) {
  v1::SubmitTaskRequest request;
  request.set_prompt("GOOD");
  EXPECT_THAT(ParseInvalid(request), HasReason("INVALID_FIELD"));
  const absl::Status status = Parse("\x0a\x7f", request);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                               HasSubstr("not a callboard.v1.SubmitTaskRequest")));
  EXPECT_THAT(status, HasReason("MALFORMED_REQUEST"))
      << "the name of the previous field was cleared";
  EXPECT_THAT(Parse("", request), IsOk());
}

}  // namespace
}  // namespace callboard::wire
