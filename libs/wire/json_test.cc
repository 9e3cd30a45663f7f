#include "libs/wire/json.h"

#include <gmock/gmock.h>
#include <google/protobuf/wrappers.pb.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "callboard/v1/queue.pb.h"
#include "libs/base/error.h"
#include "libs/testing/status_matchers.h"

namespace callboard::wire {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(JsonTest, WritesEveryFieldNumbersAsNumbersAndEnumsAsText) {
  v1::QueueStatus status;
  status.set_depth(5);
  status.set_max_size(50);
  status.set_policy(v1::QUEUE_POLICY_DROP_OLDEST);
  status.set_dispatched_count(std::numeric_limits<uint64_t>::max());
  status.set_oldest_age_seconds(1.5);
  status.set_draining(true);
  status.add_sources()->set_key("cli");
  status.add_sources()->set_queued(2);
  EXPECT_EQ(ToJson(status),
            R"({"depth":5,"max_size":50,"policy":"drop-oldest","ready":0,"delayed":0,"waiting":0,)"
            R"("tickets":0,"in_flight":0,"max_in_flight":0,)"
            R"("dispatched_count":18446744073709551615,"oldest_age_seconds":1.5,"paused":false,)"
            R"("draining":true,"drain_rate_per_second":0,"counts":null,)"
            R"("sources":[{"key":"cli","queued":0,"running":0},{"key":"","queued":2,"running":0}],)"
            R"("fairness_keys":[],"dispatches_total":0,"idle":false,"pause":null,"drain":null})");
}

TEST(JsonTest, WritesTimesDurationsBytesAndMaps) {
  v1::Task task;
  task.mutable_created_at()->set_seconds(1'700'000'000);
  task.mutable_created_at()->set_nanos(500'000'000);
  task.set_result("\x01\xff");
  (*task.mutable_labels())["b"] = "2";
  (*task.mutable_labels())["a"] = "1";
  task.set_exit_code(0);
  task.set_state(v1::Task::STATE_FAILED);
  task.set_reason(v1::Task::REASON_EXEC_FAILED);
  EXPECT_THAT(ToJson(task),
              AllOf(HasSubstr(R"("created_at":"2023-11-14T22:13:20.500Z")"),
                    HasSubstr(R"("result":"Af8=")"), HasSubstr(R"("labels":{"a":"1","b":"2"})"),
                    HasSubstr(R"("exit_code":0)"), HasSubstr(R"("thinking":null)"),
                    HasSubstr(R"("finished_at":null)"), HasSubstr(R"("state":"failed")"),
                    HasSubstr(R"("reason":"EXEC_FAILED")"), HasSubstr(R"("priority":null)")));
  v1::ReserveSlotRequest reserve;
  reserve.mutable_hold()->set_seconds(90);
  EXPECT_EQ(ToJson(reserve), R"({"hold":"90s"})");
}

TEST(JsonTest, WritesOnlyTheSetMemberOfAOneof) {
  v1::RedriveTasksResponse::Item item;
  item.set_queue_id("queue-1");
  item.set_redriven_as("queue-2");
  EXPECT_EQ(ToJson(item), R"({"queue_id":"queue-1","redriven_as":"queue-2"})");
}

TEST(JsonTest, EscapesText) {
  v1::LiveCount count;
  count.set_key("a\"b\n");
  EXPECT_EQ(ToJson(count), R"({"key":"a\"b\n","queued":0,"running":0})");
}

TEST(JsonTest, InfinityIsNullAndUnknownEnumValueIsANumber) {
  v1::QueueStatus status;
  status.set_drain_rate_per_second(std::numeric_limits<double>::infinity());
  status.set_policy(static_cast<v1::QueuePolicy>(99));
  EXPECT_NE(ToJson(status).find(R"("drain_rate_per_second":null)"), std::string::npos);
  EXPECT_NE(ToJson(status).find(R"("policy":99)"), std::string::npos);
}

using test::StatusIs;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::Lt;
using ::testing::Not;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

template <class M>
M Read(absl::string_view text) {
  M message;
  const absl::Status status = FromJson(text, message);
  EXPECT_TRUE(status.ok()) << status << "\n" << text;
  return message;
}

// Returns the error for `text`.
template <class M>
std::string ParseErrorText(absl::string_view text) {
  M message;
  const absl::Status status = FromJson(text, message);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument)) << text;
  return std::string(status.message());
}

TEST(JsonReaderTest, EveryKindOfValueIsRead) {
  const auto submit = Read<v1::SubmitTaskRequest>(R"({
      "prompt": "a \"b\"\né", "payload": "Af8=", "timeout_seconds": 30, "project": {"name": "p"},
      "env": {"A": "1", "B": "2"}, "thinking": false, "priority": "high", "time_sensitive": true,
      "constraints": ["cpu-heavy", "network-heavy"], "retry_on": ["exit:1", "timeout"]})");
  EXPECT_EQ(submit.prompt(), "a \"b\"\né");
  EXPECT_EQ(submit.payload(), "\x01\xff");
  EXPECT_EQ(submit.timeout_seconds(), 30u);
  EXPECT_EQ(submit.project().name(), "p");
  EXPECT_THAT(submit.env(), UnorderedElementsAre(Pair("A", "1"), Pair("B", "2")));
  EXPECT_TRUE(submit.has_thinking());
  EXPECT_EQ(submit.priority(), v1::PRIORITY_HIGH);
  EXPECT_THAT(submit.constraints(),
              ElementsAre(v1::CONSTRAINT_CPU_HEAVY, v1::CONSTRAINT_NETWORK_HEAVY));
  EXPECT_THAT(submit.retry_on(), ElementsAre("exit:1", "timeout"));
  EXPECT_EQ(Read<v1::QueueStatus>(R"({"oldest_age_seconds": 2})").oldest_age_seconds(), 2.0);
}

TEST(JsonReaderTest, NullAndMissingMembersAreAbsent) {
  const auto task = Read<v1::Task>(
      R"({"prompt": null, "project": null, "env": null, "thinking": null, "priority": null,
          "constraints": null, "created_at": null, "attempts": null})");
  EXPECT_EQ(ToJson(task), ToJson(v1::Task()));
  EXPECT_FALSE(task.has_thinking());
  EXPECT_FALSE(task.has_created_at());
}

TEST(JsonReaderTest, NullInAListOrMapIsAnError) {
  EXPECT_EQ(ParseErrorText<v1::SubmitTaskRequest>(R"({"retry_on": ["timeout", null]})"),
            "retry_on[1]: expected a string, found null");
  EXPECT_EQ(ParseErrorText<v1::SubmitTasksRequest>(R"({"items": [null]})"),
            "items[0]: expected an object, found null");
  EXPECT_EQ(ParseErrorText<v1::SubmitTaskRequest>(R"({"labels": {"a": null}})"),
            "labels.a: expected a string, found null");
}

TEST(JsonReaderTest, MessageIsReplacedButUnchangedOnError) {
  v1::Project project;
  project.set_name("before");
  EXPECT_FALSE(FromJson(R"({"name": "after", "path": 1})", project).ok());
  EXPECT_EQ(project.name(), "before");
  EXPECT_TRUE(FromJson(R"({"path": "p"})", project).ok());
  EXPECT_EQ(project.name(), "");
}

TEST(JsonReaderTest, ErrorForUnknownMemberSuggestsTheNearestName) {
  EXPECT_EQ(ParseErrorText<v1::SubmitTaskRequest>(R"({"project": {"nmae": "x"}})"),
            "project.nmae: unknown; did you mean 'project.name'?");
  EXPECT_EQ(ParseErrorText<v1::SubmitTaskRequest>(R"({"sessionId": "x"})"),
            "sessionId: unknown; did you mean 'session_id'?");
  EXPECT_EQ(ParseErrorText<v1::SubmitTaskRequest>(R"({"project": {"colour": "x"}})"),
            "project.colour: unknown; callboard.v1.Project has no such field");
}

TEST(JsonReaderTest, ErrorDetailsContainThePath) {
  v1::SubmitTasksRequest request;
  const absl::Status status = FromJson(
      R"({"items": [{}, {"prompt": "x"}, {"timeout_seconds": 1}, {"timeout_seconds": "1"}]})",
      request);
  EXPECT_EQ(status.message(),
            "items[3].timeout_seconds: expected an integer in 0..4294967295, found a string");
  EXPECT_THAT(base::GetErrorDetails(status).field_violations,
              ElementsAre(Pair("items[3].timeout_seconds",
                               "expected an integer in 0..4294967295, found a string")));
}

TEST(JsonReaderTest, ValueOfTheWrongTypeIsAnError) {
  const std::pair<std::string, std::string> cases[] = {
      {R"({"prompt": 1})", "prompt: expected a string, found a number"},
      {R"({"prompt": ["x"]})", "prompt: expected a string, found an array"},
      {R"({"thinking": "true"})", "thinking: expected true or false, found a string"},
      {R"({"thinking": 1})", "thinking: expected true or false, found a number"},
      {R"({"project": "x"})", "project: expected an object, found a string"},
      {R"({"env": []})", "env: expected an object, found an array"},
      {R"({"env": {"A": true}})", "env.A: expected a string, found a boolean"},
      {R"({"retry_on": "timeout"})", "retry_on: expected an array, found a string"},
      {R"({"payload": 1})", "payload: expected base64, found a number"},
      {R"({"deadline_at": 1})",
       "deadline_at: expected a time such as \"2026-01-02T03:04:05Z\", found a number"},
      {"[]", "expected an object, found an array"},
      {"null", "expected an object, found null"},
  };
  for (const auto& [text, error] : cases)
    EXPECT_EQ(ParseErrorText<v1::SubmitTaskRequest>(text), error);
}

TEST(JsonReaderTest, IntegersMustBeExact) {
  using google::protobuf::Int64Value;
  using google::protobuf::UInt64Value;
  EXPECT_EQ(Read<UInt64Value>(R"({"value": 18446744073709551615})").value(),
            std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(Read<Int64Value>(R"({"value": -9223372036854775808})").value(),
            std::numeric_limits<int64_t>::min());
  EXPECT_THAT(ParseErrorText<UInt64Value>(R"({"value": 18446744073709551616})"),
              HasSubstr("found 1.8"));
  EXPECT_THAT(ParseErrorText<Int64Value>(R"({"value": 9223372036854775808})"),
              EndsWith("found 9223372036854775808"));
  EXPECT_EQ(ParseErrorText<v1::ListTasksRequest>(R"({"page_size": -2147483649})"),
            "page_size: expected an integer in -2147483648..2147483647, found -2147483649");
  for (const char* number : {"-1", "4294967296", "1.5", "1.0", "1e3"}) {
    EXPECT_THAT(
        ParseErrorText<v1::SubmitTaskRequest>(absl::StrCat(R"({"timeout_seconds": )", number, "}")),
        StartsWith("timeout_seconds: expected an integer in 0..4294967295, found "))
        << number;
  }
}

TEST(JsonReaderTest, NumberOutOfRangeIsAnError) {
  using google::protobuf::FloatValue;
  EXPECT_EQ(Read<FloatValue>(R"({"value": 1.5})").value(), 1.5f);
  EXPECT_EQ(ParseErrorText<FloatValue>(R"({"value": 1e39})"),
            "value: expected a number, found 1e+39");
  EXPECT_EQ(ParseErrorText<v1::QueueStatus>(R"({"sources": [], "oldest_age_seconds": 1e400})"),
            "oldest_age_seconds: found a number beyond any range");
}

TEST(JsonReaderTest, EnumIsItsTextOrANumber) {
  EXPECT_EQ(Read<v1::Task>(R"({"reason": "AGENT_LOST"})").reason(), v1::Task::REASON_AGENT_LOST);
  EXPECT_EQ(Read<v1::Task>(R"({"policy": 99})").policy(), static_cast<v1::QueuePolicy>(99));
  EXPECT_EQ(ParseErrorText<v1::Task>(R"({"policy": "drop_oldest"})"),
            "policy: expected reject|block|drop-oldest|drop-latest, found 'drop_oldest'");
  EXPECT_THAT(ParseErrorText<v1::Task>(R"({"policy": "unspecified"})"),
              EndsWith("found 'unspecified'"));
  EXPECT_THAT(ParseErrorText<v1::Task>(R"({"policy": true})"), EndsWith("found a boolean"));
  EXPECT_THAT(ParseErrorText<v1::Task>(R"({"policy": 2147483648})"), EndsWith("found 2147483648"));
  EXPECT_THAT(ParseErrorText<v1::Task>(R"({"constraints": ["cpu-heavy", "gpu-heavy"]})"),
              StartsWith("constraints[1]: expected cpu-heavy|"));
}

std::string WithTime(absl::string_view text) {
  return absl::StrCat(R"({"ticket":"","expires_at":")", text, R"("})");
}

TEST(JsonReaderTest, TimeMayHaveAnyOffsetAndNanoseconds) {
  const std::pair<std::string, std::string> cases[] = {
      {"2023-11-14T22:13:20Z", "2023-11-14T22:13:20Z"},
      {"2023-11-14T22:13:20.000000001Z", "2023-11-14T22:13:20.000000001Z"},
      {"2023-11-14T22:13:20.5+05:30", "2023-11-14T16:43:20.500Z"},
      {"1969-12-31T23:59:59.25-01:00", "1970-01-01T00:59:59.250Z"},
      {"1969-12-31T23:59:59.75Z", "1969-12-31T23:59:59.750Z"},
      {"0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"},
      {"9999-12-31T23:59:59.999999999Z", "9999-12-31T23:59:59.999999999Z"},
  };
  for (const auto& [text, utc] : cases) {
    EXPECT_EQ(ToJson(Read<v1::ReserveSlotResponse>(WithTime(text))), WithTime(utc));
  }
}

TEST(JsonReaderTest, TimeOutOfRangeOrInAnotherFormIsAnError) {
  for (const char* text :
       {"0001-01-01T00:00:00+00:01", "9999-12-31T23:59:59-00:01", "10000-01-01T00:00:00Z",
        "infinite-future", "2023-02-30T00:00:00Z", "2023-11-14T24:00:00Z", "2023-11-14",
        "2023-11-14 22:13:20Z", "2023-11-14T22:13:20", "2023-11-14T22:13:20+0100",
        "2023-11-14T22:13:20+01", " 2023-11-14T22:13:20Z", "2023-11-14T22:13:20Z ",
        "2023-1-1T1:2:3Z", "2023-11-14T22:13:20.Z", ""}) {
    EXPECT_EQ(ParseErrorText<v1::ReserveSlotResponse>(WithTime(text)),
              "expires_at: expected a time such as \"2026-01-02T03:04:05Z\", found another string");
  }
}

TEST(JsonReaderTest, DurationIsInSecondsWithNanoseconds) {
  const auto hold = [](absl::string_view text) {
    return Read<v1::ReserveSlotRequest>(absl::StrCat(R"({"hold": ")", text, R"("})")).hold();
  };
  EXPECT_EQ(hold("1.5s").seconds(), 1);
  EXPECT_EQ(hold("1.5s").nanos(), 500'000'000);
  EXPECT_EQ(hold("-0.000000001s").seconds(), 0);
  EXPECT_EQ(hold("-0.000000001s").nanos(), -1);
  EXPECT_EQ(hold("-315576000000s").seconds(), -315'576'000'000);
  for (const char* text : {"315576000000.1s", "315576000001s", "99999999999999999999s", "1m",
                           "1m1s", "1", "s", "", " 1s", "+1s", "--1s", "inf"}) {
    EXPECT_EQ(ParseErrorText<v1::ReserveSlotRequest>(absl::StrCat(R"({"hold": ")", text, R"("})")),
              "hold: expected a duration in seconds such as \"1.5s\", found another string");
  }
}

TEST(JsonReaderTest, BytesAreStrictBase64) {
  for (const char* text : {"Af8", "Af8=\\n", " Af8=", "Af9=", "A_-=", "Af8==", "?"}) {
    EXPECT_EQ(
        ParseErrorText<v1::SubmitTaskRequest>(absl::StrCat(R"({"payload": ")", text, R"("})")),
        "payload: expected base64 with padding, found another string")
        << text;
  }
}

TEST(JsonReaderTest, DuplicateMemberIsAnError) {
  EXPECT_EQ(ParseErrorText<v1::SubmitTaskRequest>(R"({"prompt": "a", "prompt": "b"})"),
            "prompt: duplicate key");
  EXPECT_EQ(ParseErrorText<v1::SubmitTasksRequest>(
                R"({"items": [{}, {"env": {"A": "1", "B": "2", "A": "1"}}]})"),
            "items[1].env.A: duplicate key");
}

TEST(JsonReaderTest, OnlyOneMemberOfAOneofMayBeGiven) {
  using Item = v1::RedriveTasksResponse::Item;
  EXPECT_EQ(ParseErrorText<v1::RedriveTasksResponse>(
                R"({"items": [{"redriven_as": "queue-2", "refused": {}}]})"),
            "items[0].refused: 'redriven_as' is also given; expected only one of them");
  EXPECT_TRUE(Read<Item>(R"({"redriven_as": null, "refused": {}})").has_refused());
}

TEST(JsonReaderTest, ErrorForInvalidJsonHasLineAndColumn) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "not JSON in UTF-8 at line 1, column 1: unexpected end of input"},
      {R"({"prompt": "secret)", "not JSON in UTF-8 at line 1, column 19: unexpected end of input"},
      {"{\n  \"prompt\": secret\n}", "not JSON in UTF-8 at line 2, column 13"},
      {"{} {}", "not JSON in UTF-8 at line 1, column 4"},
      {R"({"prompt": "a",})", "not JSON in UTF-8 at line 1, column 16"},
      {"{\"prompt\": \"\xff\"}", "not JSON in UTF-8 at line 1, column 13"},
      {R"({"prompt": "\ud800"})", "not JSON in UTF-8 at line 1, column 19"},
      {std::string("{}\0x", 4), "not JSON in UTF-8 at line 1, column 3"},
      {"{/* */}", "not JSON in UTF-8 at line 1, column 2"},
      {R"({"oldest_age_seconds": NaN})", "not JSON in UTF-8 at line 1, column 24"},
  };
  for (const auto& [text, error] : cases)
    EXPECT_EQ(ParseErrorText<v1::SubmitTaskRequest>(text), error);
}

TEST(JsonReaderTest, NestingIsBounded) {
  const std::string error = "JSON is nested deeper than 64 levels";
  EXPECT_EQ(ParseErrorText<v1::Task>(std::string(65, '[')), error);
  EXPECT_EQ(ParseErrorText<v1::Task>(std::string(10'000'000, '[')), error);
  EXPECT_THAT(ParseErrorText<v1::Task>(std::string(64, '[') + std::string(64, ']')), Not(error));
}

TEST(JsonReaderTest, ErrorsContainNoValuesAndShortNames) {
  for (const char* text :
       {R"({"prompt": 12345})", R"({"prompt": ["secret"]})", R"({"env": {"A": {"secret": 1}}})",
        R"({"payload": "secret"})", R"({"env": "secret"})", R"({"prompt": "secret)"}) {
    EXPECT_THAT(ParseErrorText<v1::Task>(text),
                AllOf(Not(HasSubstr("secret")), Not(HasSubstr("12345"))));
  }
  const std::string name(1'000'000, 'x');
  EXPECT_THAT(ParseErrorText<v1::Task>(absl::StrCat("{\"", name, "\": 1}")), SizeIs(Lt(200)));
  EXPECT_THAT(ParseErrorText<v1::Task>(absl::StrCat("{\"policy\": \"", name, "\"}")),
              SizeIs(Lt(200)));
  EXPECT_THAT(ParseErrorText<v1::Task>(absl::StrCat("{\"", std::string(127, 'x'), "é\": 1}")),
              StartsWith(std::string(127, 'x') + "…: unknown"));
}

}  // namespace
}  // namespace callboard::wire
