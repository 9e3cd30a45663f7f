#include "libs/wire/task.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <map>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "libs/base/error.h"
#include "libs/core/limits.h"
#include "libs/testing/random_message.h"
#include "libs/testing/status_matchers.h"
#include "libs/wire/enums.h"
#include "libs/wire/json.h"

namespace callboard::wire {
namespace {

using ::callboard::test::IsOk;
using ::callboard::test::StatusIs;
using ::google::protobuf::util::MessageDifferencer;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

// Converts random messages of a type to libs/core and to JSON and back. Each message round-trips,
// or the conversion fails with the name of one of its fields. RC_PARAMS in BUILD sets the number of
// messages.
template <class Proto>
bool RoundTripsOrFailsByField() {
  int accepted = 0;
  int rejected = 0;
  const bool held = rc::check([&] {
    Proto proto;
    test::FillRandomly(proto);
    const auto core = FromProto(proto);
    if (core.ok()) {
      ++accepted;
      RC_ASSERT(MessageDifferencer::Equals(ToProto(*core), proto));
      Proto read;
      RC_ASSERT(FromJson(ToJson(proto), read).ok());
      RC_ASSERT(MessageDifferencer::Equals(read, proto));
      return;
    }
    ++rejected;
    RC_ASSERT(core.status().code() == absl::StatusCode::kInvalidArgument);
    const auto violations = base::GetErrorDetails(core.status()).field_violations;
    RC_ASSERT(!violations.empty());
    for (const auto& [field, problem] : violations) {
      const std::string first = field.substr(0, field.find_first_of(".["));
      RC_ASSERT(Proto::descriptor()->FindFieldByName(first) != nullptr);
      RC_ASSERT(!problem.empty());
    }
  });
  EXPECT_GE(accepted + rejected, 10'000);
  // Both outcomes must be frequent enough to be meaningful.
  EXPECT_GT(accepted, 1'000);
  EXPECT_GT(rejected, 100);
  return held;
}

TEST(TaskTest, RandomSubmitsRoundTripOrFailByField) {
  EXPECT_TRUE(RoundTripsOrFailsByField<v1::SubmitTaskRequest>());
}

TEST(TaskTest, RandomTasksRoundTripOrFailByField) {
  EXPECT_TRUE(RoundTripsOrFailsByField<v1::Task>());
}

TEST(TaskTest, RandomEventsRoundTripOrFailByField) {
  EXPECT_TRUE(RoundTripsOrFailsByField<v1::TaskEvent>());
}

TEST(TaskTest, RandomFenceTokensRoundTripOrFailByField) {
  EXPECT_TRUE(RoundTripsOrFailsByField<v1::FenceToken>());
}

v1::SubmitTaskRequest Minimal() {
  v1::SubmitTaskRequest request;
  request.set_prompt("echo hello");
  return request;
}

// Returns the violations of `request`.
std::map<std::string, std::string> Violations(const v1::SubmitTaskRequest& request) {
  return base::GetErrorDetails(FromProto(request).status()).field_violations;
}

TEST(TaskTest, OnlyThePromptIsRequired) {
  EXPECT_THAT(FromProto(Minimal()), IsOk());
  EXPECT_THAT(FromProto(v1::SubmitTaskRequest()),
              StatusIs(absl::StatusCode::kInvalidArgument, "prompt is required"));
}

TEST(TaskTest, PromptAndPayloadHaveACommonLimit) {
  v1::SubmitTaskRequest request = Minimal();
  request.set_prompt(std::string(core::kBodyBytesMax - 1, 'x'));
  request.set_payload("y");
  EXPECT_THAT(FromProto(request), IsOk());
  request.set_payload("yy");
  EXPECT_THAT(Violations(request),
              UnorderedElementsAre(
                  Pair("prompt",
                       "has 1048577 bytes, prompt and payload together, at most 1048576 are "
                       "allowed")));
}

TEST(TaskTest, EnvironmentHasLimitsOnEntriesAndBytes) {
  v1::SubmitTaskRequest request = Minimal();
  for (int i = 0; i < 65; ++i) (*request.mutable_env())[absl::StrCat("V", i)] = "";
  EXPECT_THAT(Violations(request),
              UnorderedElementsAre(Pair("env", "has 65 entries, at most 64 are allowed")));
  request.clear_env();
  (*request.mutable_env())["V"] = std::string(core::kEnvBytesMax, 'x');
  EXPECT_THAT(Violations(request),
              UnorderedElementsAre(Pair("env", "has 32769 bytes, at most 32768 are allowed")));
}

TEST(TaskTest, InvalidAndReservedEnvironmentNamesAreErrors) {
  for (const char* name : {"", "A=B", "CALLBOARD_FENCE", "TRACEPARENT"}) {
    v1::SubmitTaskRequest request = Minimal();
    (*request.mutable_env())[name] = "1";
    EXPECT_THAT(Violations(request), Contains(Key("env"))) << name;
  }
  v1::SubmitTaskRequest request = Minimal();
  (*request.mutable_env())["V"] = std::string("a\0b", 3);
  EXPECT_THAT(Violations(request), Contains(Key("env")));
}

TEST(TaskTest, ControlCharactersInNamesAreErrors) {
  for (const char* bad : {"a\nb", "\x1b[2J", "a\x7f", "a\xc2\x9b"}) {
    v1::SubmitTaskRequest request = Minimal();
    request.set_lane(bad);
    request.set_session_id(bad);
    request.set_model(bad);
    request.set_source_job(bad);
    request.set_job_type(bad);
    request.set_fairness_key(bad);
    request.mutable_project()->set_name(bad);
    request.mutable_overlap()->set_key(bad);
    (*request.mutable_labels())[bad] = "";
    (*request.mutable_required_labels())["key"] = bad;
    const std::string problem = "has a control character";
    EXPECT_THAT(Violations(request),
                UnorderedElementsAre(Pair("lane", problem), Pair("session_id", problem),
                                     Pair("model", problem), Pair("source_job", problem),
                                     Pair("job_type", problem), Pair("fairness_key", problem),
                                     Pair("project.name", problem), Pair("overlap.key", problem),
                                     Pair("labels", problem), Pair("required_labels", problem)));
  }
  v1::SubmitTaskRequest request = Minimal();
  request.set_prompt("two\nlines");
  request.set_lane("größe");
  EXPECT_THAT(FromProto(request), IsOk());
}

TEST(TaskTest, ErrorListsAllInvalidFieldsButNoValues) {
  v1::SubmitTaskRequest request;
  request.set_source("secret-source");
  request.add_retry_on("exit:1");
  request.add_retry_on("secret-rule");
  request.mutable_overlap()->set_n(2);
  request.set_request_id(std::string(core::kRequestIdBytesMax + 1, 'x'));
  request.set_policy(static_cast<v1::QueuePolicy>(99));
  const absl::Status status = FromProto(request).status();
  EXPECT_THAT(Violations(request),
              UnorderedElementsAre(Key("prompt"), Key("source"), Key("retry_on[1]"),
                                   Key("overlap.key"), Key("request_id"), Key("policy")));
  EXPECT_THAT(status.ToString(), Not(HasSubstr("secret")));
}

TEST(TaskTest, DeadlineBeforeTheEarliestStartIsAnError) {
  v1::SubmitTaskRequest request = Minimal();
  request.mutable_earliest_start_at()->set_seconds(100);
  request.mutable_deadline_at()->set_seconds(99);
  EXPECT_THAT(Violations(request), UnorderedElementsAre(Key("deadline_at")));
  request.mutable_deadline_at()->set_seconds(100);
  EXPECT_THAT(FromProto(request), IsOk());
}

TEST(TaskTest, TaskIdIsThatOfTheCurrentDispatch) {
  core::Task task;
  task.spec.prompt = "echo hello";
  EXPECT_EQ(ToProto(task).task_id(), "");
  task.dispatch = core::DispatchNumber(2);
  v1::Task proto = ToProto(task);
  EXPECT_EQ(proto.task_id(), "task-00000000000000000000000000-2");
  EXPECT_THAT(FromProto(proto), IsOk());
  proto.set_task_id("task-00000000000000000000000000-3");
  EXPECT_THAT(FromProto(proto), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("task_id")));
}

// Returns the first value of an enum of callboard.v1 without a counterpart in libs/core.
template <class Core, class Proto, size_t N>
std::string FirstValueWithoutCounterpart(const EnumPair<Core, Proto> (&table)[N]) {
  const auto& type = *google::protobuf::GetEnumDescriptor<Proto>();
  for (int i = 0; i < type.value_count(); ++i) {
    const auto value = static_cast<Proto>(type.value(i)->number());
    const std::optional<Core> core = FromProto(table, value);
    const bool paired = core.has_value() && ToProto(table, *core) == value;
    if (paired != (type.value(i)->number() != 0)) return type.value(i)->full_name();
  }
  return "";
}

TEST(TaskTest, EveryEnumValueHasACounterpart) {
  EXPECT_EQ(FirstValueWithoutCounterpart(kTaskStates), "");
  EXPECT_EQ(FirstValueWithoutCounterpart(kFailureReasons), "");
  EXPECT_EQ(FirstValueWithoutCounterpart(kTaskEventKinds), "");
  EXPECT_EQ(FirstValueWithoutCounterpart(kFaults), "");
  EXPECT_EQ(FirstValueWithoutCounterpart(kPriorities), "");
  EXPECT_EQ(FirstValueWithoutCounterpart(kConstraints), "");
  EXPECT_EQ(FirstValueWithoutCounterpart(kRunWhens), "");
  EXPECT_EQ(FirstValueWithoutCounterpart(kOnAgentLosts), "");
  EXPECT_EQ(FirstValueWithoutCounterpart(kOverlapPolicies), "");
  EXPECT_EQ(FirstValueWithoutCounterpart(kQueuePolicies), "");
}

v1::Task FullTask() {
  v1::Task task;
  task.set_prompt(std::string(1025, 'x'));
  task.set_payload("payload");
  task.set_result("result");
  (*task.mutable_env())["NAME"] = "secret";
  return task;
}

TEST(TaskViewTest, BasicViewHasNoSecretsPayloadOrResult) {
  v1::Task task = FullTask();
  ReduceToBasicView(task);
  EXPECT_EQ(task.payload(), "");
  EXPECT_EQ(task.result(), "");
  EXPECT_EQ(task.env().at("NAME"), "") << "the name stays";
  EXPECT_EQ(task.prompt().size(), 1025u);
  EXPECT_FALSE(task.prompt_truncated());
}

TEST(TaskViewTest, LongPromptIsTruncatedInListView) {
  v1::Task task = FullTask();
  ReduceToListView(task);
  EXPECT_EQ(task.prompt().size(), 1024u);
  EXPECT_TRUE(task.prompt_truncated());
  EXPECT_EQ(task.payload(), "");
}

TEST(TaskViewTest, ShortPromptIsCompleteInListView) {
  v1::Task task;
  task.set_prompt(std::string(1024, 'x'));
  ReduceToListView(task);
  EXPECT_EQ(task.prompt().size(), 1024u);
  EXPECT_FALSE(task.prompt_truncated());
}

TEST(TaskViewTest, TruncatedPromptEndsAtACharacter) {
  v1::Task task;
  task.set_prompt(std::string(1023, 'x') + "é and more");
  ReduceToListView(task);
  EXPECT_EQ(task.prompt(), std::string(1023, 'x'));
}

TEST(QueueStatusTest, EveryValueReachesItsField) {
  core::QueueStatus status;
  status.options = {.max_size = 50, .policy = core::QueuePolicy::kDropLatest};
  status.counts = {
      .pending = 1, .dispatching = 2, .working = 3, .completed = 4, .failed = 5, .cancelled = 6};
  status.ready = 7;
  status.delayed = 8;
  status.waiting = 9;
  status.tickets = 10;
  status.max_in_flight = 11;
  status.dispatches_total = 12;
  status.oldest_age = absl::Milliseconds(13500);
  status.paused = true;
  status.draining = true;
  status.pause = core::SwitchCause{"anna", "the disk is full", absl::FromUnixSeconds(0)};
  status.drain = core::SwitchCause{"bert", "", absl::FromUnixSeconds(1)};
  status.drain_rate_per_second = 14.5;
  status.sources = {{"cli", {.queued = 15, .running = 16}}};
  status.fairness_keys = {{"team", {.queued = 17, .running = 18}}};
  EXPECT_EQ(
      ToJson(ToProto(status)),
      R"({"depth":1,"max_size":50,"policy":"drop-latest","ready":7,"delayed":8,"waiting":9,)"
      R"("tickets":10,"in_flight":5,"max_in_flight":11,"dispatched_count":5,)"
      R"("oldest_age_seconds":13.5,"paused":true,"draining":true,"drain_rate_per_second":14.5,)"
      R"("counts":{"pending":1,"dispatching":2,"working":3,"completed":4,"failed":5,)"
      R"("cancelled":6},"sources":[{"key":"cli","queued":15,"running":16}],)"
      R"("fairness_keys":[{"key":"team","queued":17,"running":18}],)"
      R"("dispatches_total":12,"idle":false,)"
      R"("pause":{"who":"anna","why":"the disk is full","at":"1970-01-01T00:00:00Z"},)"
      R"("drain":{"who":"bert","why":"","at":"1970-01-01T00:00:01Z"}})");
}

TEST(QueueStatusTest, QueueIsIdleWhenNothingIsPendingInFlightOrWaiting) {
  core::QueueStatus status;
  status.counts = {.completed = 1, .failed = 1, .cancelled = 1};
  status.tickets = 1;
  EXPECT_TRUE(ToProto(status).idle());
  for (uint64_t* busy :
       {&status.counts.pending, &status.counts.dispatching, &status.counts.working}) {
    *busy = 1;
    EXPECT_FALSE(ToProto(status).idle());
    *busy = 0;
  }
  status.waiting = 1;
  EXPECT_FALSE(ToProto(status).idle());
}

}  // namespace
}  // namespace callboard::wire
