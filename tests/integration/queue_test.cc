// Tasks over gRPC, on a director with its store: what was acknowledged is there, whatever happens.
#include <gmock/gmock.h>
#include <grpc/support/time.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "callboard/v1/queue.grpc.pb.h"
#include "libs/testing/new_folder.h"
#include "libs/testing/process.h"
#include "libs/testing/running_server.h"
#include "libs/testing/status_matchers.h"
#include "libs/wire/status.h"

namespace callboard {
namespace {

using test::HasReason;
using test::IsOk;
using test::RunningServer;
using test::StatusIs;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Optional;

constexpr char kDirector[] = "services/director/callboard-director";

// A director on a folder that outlives it, and somebody who calls it.
class QueueTest : public testing::Test {
 protected:
  void Start(std::vector<std::string> flags = {}) {
    flags.push_back("--data_dir=" + folder_.string());
    director_ = std::make_unique<RunningServer>(kDirector, flags);
    stub_ = v1::QueueService::NewStub(director_->NewChannel());
  }
  // As a machine does that loses its director: nobody is told.
  void Kill() {
    director_->process().Signal(SIGKILL);
    ASSERT_THAT(director_->process().WaitForExit(absl::Minutes(1)), Optional(128 + SIGKILL));
  }

  template <class Request, class Response>
  absl::StatusOr<Response> Call(grpc::Status (v1::QueueService::Stub::*method)(grpc::ClientContext*,
                                                                               const Request&,
                                                                               Response*),
                                const Request& request,
                                absl::Duration deadline = absl::Seconds(30)) {
    grpc::ClientContext context;
    context.set_deadline(gpr_time_from_millis(absl::ToInt64Milliseconds(deadline), GPR_TIMESPAN));
    Response response;
    const grpc::Status status = (stub_.get()->*method)(&context, request, &response);
    if (!status.ok()) return wire::FromGrpc(status);
    return response;
  }
  static v1::SubmitTaskRequest Prompt(const std::string& prompt, const std::string& id = "") {
    v1::SubmitTaskRequest request;
    request.set_prompt(prompt);
    request.set_request_id(id);
    return request;
  }
  absl::StatusOr<v1::SubmitTaskResponse> Submit(const v1::SubmitTaskRequest& request,
                                                absl::Duration deadline = absl::Seconds(30)) {
    return Call(&v1::QueueService::Stub::SubmitTask, request, deadline);
  }
  absl::StatusOr<v1::Task> Get(const std::string& id, v1::TaskView view = v1::TASK_VIEW_BASIC) {
    v1::GetTaskRequest request;
    request.set_queue_id(id);
    request.set_view(view);
    return Call(&v1::QueueService::Stub::GetTask, request);
  }
  absl::StatusOr<v1::CancelTaskResponse> Cancel(const std::string& id) {
    v1::CancelTaskRequest request;
    request.set_queue_id(id);
    request.set_why("no longer needed");
    return Call(&v1::QueueService::Stub::CancelTask, request);
  }
  std::vector<std::string> List(v1::ListTasksRequest request = {}) {
    std::vector<std::string> ids;
    do {
      const auto page = Call(&v1::QueueService::Stub::ListTasks, request);
      EXPECT_THAT(page, IsOk());
      for (const v1::Task& task : page->tasks()) ids.push_back(task.queue_id());
      request.set_page_token(page->next_page_token());
    } while (!request.page_token().empty());
    return ids;
  }
  v1::QueueStatus Status() {
    return *Call(&v1::QueueService::Stub::GetQueueStatus, v1::GetQueueStatusRequest());
  }

  const std::filesystem::path folder_ = test::NewFolder();
  std::unique_ptr<RunningServer> director_;
  std::unique_ptr<v1::QueueService::Stub> stub_;
};

TEST_F(QueueTest, SubmittedTaskIsReadBackAsItWasAskedFor) {
  Start();
  v1::SubmitTaskRequest request = Prompt("echo hello");
  request.set_payload("payload");
  request.set_source("cli");
  (*request.mutable_env())["TOKEN"] = "secret";
  const auto submitted = Submit(request);
  ASSERT_THAT(submitted, IsOk());
  EXPECT_EQ(submitted->state(), v1::Task::STATE_PENDING);
  EXPECT_EQ(submitted->position(), 1u);
  EXPECT_EQ(submitted->task().queue_id(), submitted->queue_id());
  EXPECT_EQ(submitted->task().lane(), "default");
  EXPECT_EQ(submitted->task().env().at("TOKEN"), "");

  const auto basic = Get(submitted->queue_id());
  ASSERT_THAT(basic, IsOk());
  EXPECT_EQ(basic->SerializeAsString(), submitted->task().SerializeAsString());
  const auto full = Get(submitted->queue_id(), v1::TASK_VIEW_FULL);
  EXPECT_EQ(full->payload(), "payload");
  EXPECT_EQ(full->env().at("TOKEN"), "secret");
}

TEST_F(QueueTest, WrongRequestIsRefusedAndChangesNothing) {
  Start();
  EXPECT_THAT(Submit({}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("prompt")));
  EXPECT_THAT(Get("queue-1"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("queue_id")));
  EXPECT_THAT(Get("queue-01hf81rywx2hm2aptby9afwnwa"), HasReason("TASK_NOT_FOUND"));
  EXPECT_THAT(Cancel("queue-01hf81rywx2hm2aptby9afwnwa"), HasReason("TASK_NOT_FOUND"));
  v1::SubmitTaskRequest trial = Prompt("echo");
  trial.set_validate_only(true);
  const auto tried = Submit(trial);
  ASSERT_THAT(tried, IsOk());
  EXPECT_EQ(tried->queue_id(), "");
  EXPECT_THAT(List(), IsEmpty());
}

TEST_F(QueueTest, FullQueueRefusesAndSaysWhenToComeBack) {
  Start({"--queue.max_size=2"});
  for (const char* prompt : {"1", "2"}) ASSERT_THAT(Submit(Prompt(prompt)), IsOk());
  const absl::Status refused = Submit(Prompt("3")).status();
  EXPECT_THAT(refused, StatusIs(absl::StatusCode::kResourceExhausted,
                                HasSubstr("queue is at capacity (2 tasks)")));
  EXPECT_THAT(refused, HasReason("QUEUE_FULL"));
}

TEST_F(QueueTest, CallerThatBlocksIsLetInWhenThereIsAPlace) {
  Start({"--queue.max_size=1", "--queue.policy=block"});
  const std::string first = Submit(Prompt("1"))->queue_id();
  auto second = std::async(std::launch::async, [this] { return Submit(Prompt("2")); });
  while (Status().waiting() == 0) {
  }
  const auto cancelled = Cancel(first);
  ASSERT_THAT(cancelled, IsOk());
  EXPECT_EQ(cancelled->outcome(), v1::CancelTaskResponse::OUTCOME_CANCELLED);
  EXPECT_EQ(cancelled->task().state(), v1::Task::STATE_CANCELLED);
  const auto submitted = second.get();
  ASSERT_THAT(submitted, IsOk());
  EXPECT_THAT(List(), ElementsAre(submitted->queue_id(), first));
  EXPECT_EQ(Cancel(first)->outcome(), v1::CancelTaskResponse::OUTCOME_ALREADY_ENDED);
}

TEST_F(QueueTest, CallerThatLeavesWhileItWaitsLeavesNothingBehind) {
  Start({"--queue.max_size=1", "--queue.policy=block"});
  const std::string first = Submit(Prompt("1"))->queue_id();
  EXPECT_THAT(Submit(Prompt("2"), absl::Milliseconds(50)),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  while (Status().waiting() > 0) {
  }
  EXPECT_THAT(List(), ElementsAre(first));
}

TEST_F(QueueTest, WhatWasAcknowledgedSurvivesAKill) {
  Start();
  std::vector<std::string> tasks;
  for (int i = 0; i < 20; ++i) {
    tasks.push_back(
        Submit(Prompt("echo " + std::to_string(i), "r" + std::to_string(i)))->queue_id());
  }
  ASSERT_THAT(Cancel(tasks[7]), IsOk());
  ASSERT_THAT(Call(&v1::QueueService::Stub::PauseQueue, v1::PauseQueueRequest()), IsOk());
  const std::vector<std::string> line = List();
  const std::string before = Get(tasks[3], v1::TASK_VIEW_FULL)->SerializeAsString();
  for (int restart = 0; restart < 3; ++restart) {
    Kill();
    Start();
    EXPECT_THAT(List(), ElementsAreArray(line));
    EXPECT_EQ(Get(tasks[3], v1::TASK_VIEW_FULL)->SerializeAsString(), before);
    EXPECT_EQ(Get(tasks[7])->state(), v1::Task::STATE_CANCELLED);
    EXPECT_TRUE(Status().paused());
    const auto again = Submit(Prompt("echo 5", "r5"));
    EXPECT_TRUE(again->deduplicated());
    EXPECT_EQ(again->queue_id(), tasks[5]);
    EXPECT_EQ(again->task().prompt(), "echo 5");
    EXPECT_THAT(Submit(Prompt("echo 6", "r5")), HasReason("REQUEST_ID_REUSED"));
  }
}

TEST_F(QueueTest, DrainOutlivesARestartUntilItIsEnded) {
  Start();
  ASSERT_THAT(Call(&v1::QueueService::Stub::DrainQueue, v1::DrainQueueRequest()), IsOk());
  Kill();
  Start();
  EXPECT_THAT(Submit(Prompt("1")), HasReason("QUEUE_DRAINING"));
  ASSERT_THAT(Call(&v1::QueueService::Stub::ResumeQueue, v1::ResumeQueueRequest()), IsOk());
  EXPECT_THAT(Submit(Prompt("1")), IsOk());
}

TEST_F(QueueTest, CheckpointOfALiveDirectorStartsAnother) {
  Start();
  const std::string task = Submit(Prompt("1"))->queue_id();
  v1::CreateCheckpointRequest request;
  request.set_name("before");
  const auto checkpoint = Call(&v1::QueueService::Stub::CreateCheckpoint, request);
  ASSERT_THAT(checkpoint, IsOk());
  EXPECT_GT(checkpoint->size_bytes(), 0u);
  EXPECT_THAT(Call(&v1::QueueService::Stub::CreateCheckpoint, request),
              StatusIs(absl::StatusCode::kAlreadyExists));
  ASSERT_THAT(Submit(Prompt("2")), IsOk());
  RunningServer other(kDirector, {"--data_dir=" + checkpoint->path()});
  stub_ = v1::QueueService::NewStub(other.NewChannel());
  EXPECT_THAT(List(), ElementsAre(task));
}

TEST_F(QueueTest, FolderHasOneDirector) {
  Start();
  const test::Ended second =
      test::RunToEnd(test::ServerCommand(kDirector, {"--data_dir=" + folder_.string()}));
  EXPECT_THAT(second.exit_code, Optional(75));
  EXPECT_THAT(second.output, HasSubstr("another director uses " + folder_.string()));
}

TEST_F(QueueTest, DamagedStoreIsRefusedWithWhatToDo) {
  Start();
  ASSERT_THAT(Submit(Prompt("1")), IsOk());
  Kill();
  std::filesystem::remove(folder_ / "HIGHWATER");
  const test::Ended refused =
      test::RunToEnd(test::ServerCommand(kDirector, {"--data_dir=" + folder_.string()}));
  EXPECT_THAT(refused.exit_code, Optional(65));
  EXPECT_THAT(refused.output, HasSubstr("HIGHWATER is missing"));
  EXPECT_THAT(refused.output, HasSubstr("callboard db verify --data_dir=" + folder_.string()));
}

}  // namespace
}  // namespace callboard
