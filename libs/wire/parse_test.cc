#include "libs/wire/fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "callboard/v1/queue.pb.h"
#include "libs/base/error.h"
#include "libs/testing/status_matchers.h"

namespace callboard::wire {
namespace {

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
