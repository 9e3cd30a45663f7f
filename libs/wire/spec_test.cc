#include "libs/wire/spec.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/unknown_field_set.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/error.h"
#include "libs/core/limits.h"
#include "libs/testing/random_message.h"
#include "libs/testing/status_matchers.h"
#include "libs/testing/submissions.h"
#include "libs/wire/json.h"

namespace callboard::wire {
namespace {

using ::callboard::test::HasReason;
using ::callboard::test::IsOk;
using ::callboard::test::StatusIs;
using ::google::protobuf::util::MessageDifferencer;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

constexpr uint32_t kMaxAttempts = 3;

v1::SubmitTaskRequest Minimal() {
  v1::SubmitTaskRequest request;
  request.set_prompt("echo hello");
  return request;
}

absl::StatusOr<core::Submission> Read(v1::SubmitTaskRequest request) {
  return ReadSubmit(std::move(request), kMaxAttempts);
}

// Returns the violations of `request`.
std::map<std::string, std::string> Violations(const v1::SubmitTaskRequest& request) {
  return base::GetErrorDetails(Read(request).status()).field_violations;
}

TEST(SubmitTest, OnlyThePromptIsRequired) {
  EXPECT_THAT(Read(Minimal()), IsOk());
  EXPECT_THAT(Read(v1::SubmitTaskRequest()),
              StatusIs(absl::StatusCode::kInvalidArgument, "prompt is required"));
}

TEST(SubmitTest, PromptAndPayloadHaveACommonLimit) {
  v1::SubmitTaskRequest request = Minimal();
  request.set_prompt(std::string(core::kBodyBytesMax - 1, 'x'));
  request.set_payload("y");
  EXPECT_THAT(Read(request), IsOk());
  request.set_payload("yy");
  EXPECT_THAT(Violations(request),
              UnorderedElementsAre(
                  Pair("prompt",
                       "has 1048577 bytes, prompt and payload together, at most 1048576 are "
                       "allowed")));
}

TEST(SubmitTest, EnvironmentHasLimitsOnEntriesAndBytes) {
  v1::SubmitTaskRequest request = Minimal();
  for (int i = 0; i < 65; ++i) (*request.mutable_env())[absl::StrCat("V", i)] = "";
  EXPECT_THAT(Violations(request),
              UnorderedElementsAre(Pair("env", "has 65 entries, at most 64 are allowed")));
  request.clear_env();
  (*request.mutable_env())["V"] = std::string(core::kEnvBytesMax, 'x');
  EXPECT_THAT(Violations(request),
              UnorderedElementsAre(Pair("env", "has 32769 bytes, at most 32768 are allowed")));
}

TEST(SubmitTest, InvalidAndReservedEnvironmentNamesAreErrors) {
  for (const char* name : {"", "A=B", "CALLBOARD_FENCE", "TRACEPARENT"}) {
    v1::SubmitTaskRequest request = Minimal();
    (*request.mutable_env())[name] = "1";
    EXPECT_THAT(Violations(request), Contains(Key("env"))) << name;
  }
  v1::SubmitTaskRequest request = Minimal();
  (*request.mutable_env())["V"] = std::string("a\0b", 3);
  EXPECT_THAT(Violations(request), Contains(Key("env")));
}

TEST(SubmitTest, ControlCharactersInNamesAreErrors) {
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
  EXPECT_THAT(Read(request), IsOk());
}

TEST(SubmitTest, ErrorListsAllInvalidFieldsButNoValues) {
  v1::SubmitTaskRequest request;
  request.set_source("secret-source");
  request.add_retry_on("exit:1");
  request.add_retry_on("secret-rule");
  request.mutable_overlap()->set_n(2);
  request.set_request_id(std::string(core::kRequestIdBytesMax + 1, 'x'));
  request.set_policy(static_cast<v1::QueuePolicy>(99));
  const absl::Status status = Read(request).status();
  EXPECT_THAT(Violations(request),
              UnorderedElementsAre(Key("prompt"), Key("source"), Key("retry_on[1]"),
                                   Key("overlap.key"), Key("request_id"), Key("policy")));
  EXPECT_THAT(status.ToString(), Not(HasSubstr("secret")));
}

TEST(SubmitTest, DeadlineBeforeTheEarliestStartIsAnError) {
  v1::SubmitTaskRequest request = Minimal();
  request.mutable_earliest_start_at()->set_seconds(100);
  request.mutable_deadline_at()->set_seconds(99);
  EXPECT_THAT(Violations(request), UnorderedElementsAre(Key("deadline_at")));
  request.mutable_deadline_at()->set_seconds(100);
  EXPECT_THAT(Read(request), IsOk());
}

// ---- The bytes ----

// Returns the spec of a submit, which may use fields that are not implemented yet.
v1::TaskSpec SpecOf(const v1::SubmitTaskRequest& request) {
  return test::ParseSpec(test::ToSubmission(request, kMaxAttempts).spec.bytes);
}

v1::SubmitTaskRequest FromText(const std::string& text) {
  v1::SubmitTaskRequest request;
  CHECK(google::protobuf::TextFormat::ParseFromString(text, &request)) << text;
  return request;
}

TEST(SpecBytesTest, RandomSubmitKeepsItsFieldsOrFailsByField) {
  int accepted = 0;
  int rejected = 0;
  // RC_PARAMS in BUILD sets the number of messages.
  EXPECT_TRUE(rc::check([&] {
    v1::SubmitTaskRequest request;
    test::FillRandomly(request);
    FieldChecks checks;
    const core::Submission submission =
        ReadSubmit(v1::SubmitTaskRequest(request), kMaxAttempts, checks);
    if (!checks.status().ok()) {
      ++rejected;
      const auto violations = base::GetErrorDetails(checks.status()).field_violations;
      RC_ASSERT(!violations.empty());
      for (const auto& [field, problem] : violations) {
        const std::string first = field.substr(0, field.find_first_of(".["));
        RC_ASSERT(v1::SubmitTaskRequest::descriptor()->FindFieldByName(first) != nullptr);
        RC_ASSERT(!problem.empty());
      }
      return;
    }
    ++accepted;
    v1::SubmitTaskRequest from_json;
    RC_ASSERT(FromJson(ToJson(request), from_json).ok());
    RC_ASSERT(MessageDifferencer::Equals(from_json, request));
    // The same message without the fields about admission, with the defaults filled in.
    request.clear_policy();
    request.clear_ticket();
    request.clear_validate_only();
    if (request.timeout_seconds() == 0) request.set_timeout_seconds(1800);
    if (request.lane().empty()) request.set_lane("default");
    if (request.source().empty()) request.set_source("api");
    if (request.max_attempts() == 0) request.set_max_attempts(kMaxAttempts);
    v1::SubmitTaskRequest read;
    RC_ASSERT(read.ParseFromString(*submission.spec.bytes));
    if (request.has_project() && !read.has_project()) request.clear_project();
    RC_ASSERT(MessageDifferencer::Equals(read, request));
    // A store returns what the submit was read as.
    RC_ASSERT(ReadSpec(*submission.spec.bytes).value() == submission.spec);
  }));
  // Both outcomes must be frequent enough to be meaningful.
  EXPECT_GT(accepted, 1'000);
  EXPECT_GT(rejected, 100);
}

TEST(SpecBytesTest, DefaultsAreFilledIn) {
  const v1::TaskSpec spec = SpecOf(Minimal());
  EXPECT_EQ(spec.timeout_seconds(), 1800u);
  EXPECT_EQ(spec.lane(), "default");
  EXPECT_EQ(spec.source(), "api");
  EXPECT_EQ(spec.max_attempts(), kMaxAttempts);
}

TEST(SpecBytesTest, UnknownFieldsAreDropped) {
  v1::SubmitTaskRequest request = Minimal();
  request.mutable_project()->set_name("p");
  const std::string known = *test::ToSubmission(request).spec.bytes;
  for (google::protobuf::Message* message :
       {static_cast<google::protobuf::Message*>(&request),
        static_cast<google::protobuf::Message*>(request.mutable_project())}) {
    message->GetReflection()->MutableUnknownFields(message)->AddLengthDelimited(12345, "x");
  }
  EXPECT_EQ(*test::ToSubmission(request).spec.bytes, known);
}

TEST(SpecBytesTest, EqualSubmitsHaveEqualBytes) {
  v1::SubmitTaskRequest request = Minimal();
  v1::SubmitTaskRequest reversed = Minimal();
  for (int i = 0; i < 30; ++i) {
    (*request.mutable_labels())[absl::StrCat("k", i)] = "v";
    (*reversed.mutable_labels())[absl::StrCat("k", 29 - i)] = "v";
  }
  EXPECT_EQ(*test::ToSubmission(request).spec.bytes, *test::ToSubmission(reversed).spec.bytes);
}

TEST(SpecBytesTest, SpecThatCannotBeReadIsDataLoss) {
  EXPECT_THAT(ReadSpec("\x0a\xff"), StatusIs(absl::StatusCode::kDataLoss));
  v1::TaskSpec spec;
  spec.add_retry_on("from a later version");
  EXPECT_THAT(ReadSpec(spec.SerializeAsString()), StatusIs(absl::StatusCode::kDataLoss));
}

TEST(SpecBytesTest, RedriveKeepsTheWorkAndDropsItsTimes) {
  const core::Submission old = test::ToSubmission(FromText(
      "prompt: 'p' lane: 'gpu' request_id: 'r' overlap { key: 'k' } deadline_at { seconds: 9 } "
      "earliest_start_at { seconds: 8 } max_attempts: 7"));
  const absl::StatusOr<core::Submission> redrive =
      MakeRedrive(*old.spec.bytes, core::QueueId(core::Ulid(0, 1)));
  ASSERT_THAT(redrive, IsOk());
  const v1::TaskSpec spec = test::ParseSpec(redrive->spec.bytes);
  EXPECT_EQ(spec.request_id(), "redrive/queue-00000000000000000000000001");
  EXPECT_EQ(redrive->spec.request_id, spec.request_id());
  EXPECT_EQ(spec.prompt(), "p");
  EXPECT_EQ(spec.lane(), "gpu");
  EXPECT_EQ(spec.max_attempts(), 7u);
  EXPECT_FALSE(spec.has_overlap() || spec.has_deadline_at() || spec.has_earliest_start_at());
  EXPECT_EQ(redrive->policy, core::QueuePolicy::kReject);
}

TEST(SpecBytesTest, RunSpecHasWhatAnAgentNeeds) {
  const core::RunSpec run = ReadRunSpec(SpecOf(
      FromText("prompt: 'p' payload: 'd' model: 'm' timeout_seconds: 9 session_id: 's' "
               "project { name: 'n' path: '/p' } env { key: 'A' value: '1' } thinking: false "
               "lane: 'gpu'")));
  EXPECT_EQ(run, (core::RunSpec{.prompt = "p",
                                .payload = "d",
                                .model = "m",
                                .timeout = absl::Seconds(9),
                                .session_id = "s",
                                .project = {"n", "/p"},
                                .env = {{"A", "1"}},
                                .thinking = false,
                                .lane = "gpu"}));
}

// ---- Fields of later versions ----

TEST(SubmitTest, FieldThatIsNotImplementedIsRejected) {
  for (const char* field :
       {"priority: PRIORITY_HIGH", "fairness_key: 'team'", "cost_units: 1",
        "constraints: CONSTRAINT_CPU_HEAVY", "run_when: RUN_WHEN_QUIET", "time_sensitive: true"}) {
    const absl::Status status = Read(FromText(absl::StrCat("prompt: 'p' ", field))).status();
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnimplemented)) << field;
    EXPECT_THAT(status, HasReason("FIELD_NOT_SUPPORTED"));
  }
}

TEST(SubmitTest, DefaultOfAFieldThatIsNotImplementedIsAccepted) {
  EXPECT_THAT(Read(FromText("prompt: 'p' priority: PRIORITY_NORMAL run_when: RUN_WHEN_ANYTIME")),
              IsOk());
}

// ---- Fingerprints ----

core::Fingerprint FingerprintOf(const std::string& fields) {
  const std::string with_id =
      fields.find("request_id") == std::string::npos ? "request_id: 'r'" : "";
  return test::ToSubmission(FromText(absl::StrCat("prompt: 'p' ", with_id, fields))).fingerprint;
}

TEST(FingerprintTest, DoesNotDependOnRequestIdPolicyAndTicket) {
  EXPECT_EQ(FingerprintOf(""), FingerprintOf("request_id: 'other'"));
  EXPECT_EQ(FingerprintOf(""), FingerprintOf("policy: QUEUE_POLICY_BLOCK ticket: 't'"));
}

TEST(FingerprintTest, StoredValueNeverChanges) {
  EXPECT_EQ(FingerprintOf("labels { key: 'team' value: 'a' } lane: 'gpu' max_attempts: 2"),
            (core::Fingerprint{11451998331399210100u, 1080020500492557658u, 2}));
}

TEST(FingerprintTest, DefaultValueEqualsAnAbsentValue) {
  for (const char* field :
       {"timeout_seconds: 1800", "source: 'api'", "lane: 'default'", "priority: PRIORITY_NORMAL",
        "run_when: RUN_WHEN_ANYTIME", "on_agent_lost: ON_AGENT_LOST_FAIL", "project {}"}) {
    EXPECT_EQ(FingerprintOf(field), FingerprintOf("")) << field;
  }
  EXPECT_EQ(FingerprintOf("overlap { key: 'k' policy: POLICY_SKIP n: 1 }"),
            FingerprintOf("overlap { key: 'k' }"));
}

TEST(FingerprintTest, MaxAttemptsIsComparedWithTheCurrentDefault) {
  const core::Fingerprint absent = FingerprintOf("");
  const core::Fingerprint three = FingerprintOf("max_attempts: 3");
  EXPECT_TRUE(absent.Matches(three, 3));
  EXPECT_FALSE(absent.Matches(three, 4));
  EXPECT_TRUE(absent.Matches(absent, 4));
  EXPECT_FALSE(absent.Matches(FingerprintOf("model: 'm'"), 3));
}

TEST(FingerprintTest, EveryFieldIsPartOfTheFingerprint) {
  std::set<core::Fingerprint> seen;
  int changes = 0;
  for (const char* field : {"",
                            "payload: 'x'",
                            "model: 'x'",
                            "timeout_seconds: 1",
                            "session_id: 'x'",
                            "project { name: 'x' }",
                            "project { path: 'x' }",
                            "env { key: 'x' }",
                            "env { key: 'x' value: 'y' }",
                            "thinking: false",
                            "thinking: true",
                            "source: 'cli'",
                            "source_job: 'x'",
                            "job_type: 'x'",
                            "labels { key: 'x' }",
                            "required_labels { key: 'x' }",
                            "lane: 'x'",
                            "priority: PRIORITY_LOW",
                            "fairness_key: 'x'",
                            "cost_units: 1",
                            "constraints: CONSTRAINT_CPU_HEAVY",
                            "run_when: RUN_WHEN_QUIET",
                            "time_sensitive: true",
                            "earliest_start_at {}",
                            "deadline_at {}",
                            "expected_duration_sec: 1",
                            "max_attempts: 1",
                            "retry_on: 'timeout'",
                            "on_agent_lost: ON_AGENT_LOST_REQUEUE",
                            "overlap { key: 'x' }",
                            "overlap { key: 'x' n: 2 }",
                            "overlap { key: 'x' policy: POLICY_ALLOW }"}) {
    ++changes;
    seen.insert(FingerprintOf(field));
  }
  EXPECT_EQ(seen.size(), changes);
}

// ---- Views ----

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

}  // namespace
}  // namespace callboard::wire
