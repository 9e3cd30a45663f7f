#include "services/agent/run_messages.h"

#include <gmock/gmock.h>
#include <google/protobuf/unknown_field_set.h>
#include <gtest/gtest.h>

#include <string>

#include "libs/base/error.h"
#include "libs/testing/status_matchers.h"

namespace callboard {
namespace {

using test::IsOk;
using test::StatusIs;
using ::testing::ElementsAre;
using ::testing::Pair;

const core::FenceToken kToken = {.queue_id = core::QueueId(core::Ulid(1, 2)),
                                 .dispatch = core::DispatchNumber(7)};

TEST(RunMessagesTest, RequestIdComesFromTheRequest) {
  v1::StartTaskRequest request;
  request.set_request_id("r");
  request.mutable_task()->set_prompt("echo");
  request.mutable_task()->set_lane("big");
  request.mutable_task()->set_request_id("of another start");
  (*request.mutable_task()->mutable_required_labels())["os"] = "linux";
  // Only the queue uses it.
  request.mutable_task()->set_priority(v1::PRIORITY_HIGH);
  const absl::StatusOr<agent::DirectStart> start = StartFrom(request);
  ASSERT_THAT(start, IsOk());
  EXPECT_EQ(start->request_id, "r");
  EXPECT_EQ(start->run->prompt, "echo");
  EXPECT_EQ(start->run->lane, "big");
  EXPECT_THAT(start->required_labels, ElementsAre(Pair("os", "linux")));
  request.mutable_task()->set_model("another");
  EXPECT_NE(StartFrom(request)->fingerprint, start->fingerprint);
}

TEST(RunMessagesTest, FieldsOfATaskThatAreNoneOfASpecAreIgnored) {
  v1::StartTaskRequest request;
  request.set_request_id("r");
  v1::Task& task = *request.mutable_task();
  task.set_prompt("echo");
  task.set_policy(static_cast<v1::QueuePolicy>(99));
  task.set_queue_id("queue");
  // SubmitTaskRequest.ticket, with a text that is not UTF-8, and validate_only.
  google::protobuf::UnknownFieldSet& unknown = *task.GetReflection()->MutableUnknownFields(&task);
  unknown.AddLengthDelimited(30, "\xff");
  unknown.AddVarint(31, 1);
  EXPECT_THAT(StartFrom(request), IsOk());
}

TEST(RunMessagesTest, EveryInvalidFieldOfAStartIsNamed) {
  const absl::Status status = StartFrom({}).status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(base::GetErrorDetails(status).field_violations,
              ElementsAre(Pair("request_id", "is required"), Pair("task.prompt", "is required")));
  v1::StartTaskRequest request;
  request.set_request_id(std::string(129, 'r'));
  request.mutable_task()->set_prompt("echo");
  EXPECT_THAT(base::GetErrorDetails(StartFrom(request).status()).field_violations,
              ElementsAre(Pair("request_id", "has 129 bytes, at most 128 are allowed")));
}

TEST(RunMessagesTest, TaskIdIsRequired) {
  EXPECT_THAT(TaskIdFrom(v1::AgentServiceGetTaskRequest()),
              StatusIs(absl::StatusCode::kInvalidArgument));
  v1::TailLogsRequest request;
  EXPECT_THAT(OutputQueryFrom(request), StatusIs(absl::StatusCode::kInvalidArgument));
  request.set_task_id("task-1");
  request.set_after_number(3);
  request.set_follow(true);
  const absl::StatusOr<agent::OutputQuery> query = OutputQueryFrom(request);
  ASSERT_THAT(query, IsOk());
  EXPECT_EQ(query->task_id, "task-1");
  EXPECT_EQ(query->after_number, 3u);
  EXPECT_TRUE(query->follow);
}

TEST(RunMessagesTest, RunIsWorkingUntilItHasAResult) {
  agent::RunView run = {.token = kToken, .started_at = absl::FromUnixSeconds(5), .pid = 17};
  v1::AgentRun proto = ToProto(run);
  EXPECT_EQ(proto.task_id(), core::TaskIdText(kToken.queue_id, kToken.dispatch));
  EXPECT_EQ(proto.state(), v1::AgentRun::STATE_WORKING);
  EXPECT_EQ(proto.started_at().seconds(), 5);
  EXPECT_EQ(proto.pid(), 17);
  EXPECT_FALSE(proto.has_finished_at());
  EXPECT_FALSE(proto.has_exit_code());
  run.result = {.end = core::RunResult::End::kFailed, .exit_code = 3};
  run.finished_at = absl::FromUnixSeconds(9);
  proto = ToProto(run);
  EXPECT_EQ(proto.state(), v1::AgentRun::STATE_FAILED);
  EXPECT_EQ(proto.exit_code(), 3);
  EXPECT_EQ(proto.finished_at().seconds(), 9);
}

TEST(RunMessagesTest, ChunkNamesItsDispatch) {
  const v1::TailLogsResponse response =
      ToProto(core::RunOutput{kToken, {{.number = 4, .data = "hello"}}});
  ASSERT_EQ(response.chunks_size(), 1);
  EXPECT_EQ(response.chunks(0).dispatch(), 7u);
  EXPECT_EQ(response.chunks(0).number(), 4u);
  EXPECT_EQ(response.chunks(0).data(), "hello");
}

}  // namespace
}  // namespace callboard
