// QueueService over gRPC, on a director with its store: acknowledged changes survive every failure.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "callboard/v1/fleet.grpc.pb.h"
#include "libs/base/error.h"
#include "libs/testing/process.h"
#include "libs/testing/running_server.h"
#include "libs/testing/status_matchers.h"
#include "tests/integration/director_fixture.h"

namespace callboard {
namespace {

using test::HasReason;
using test::IsOk;
using test::RunningServer;
using test::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Optional;

class QueueTest : public test::DirectorFixture {};

TEST_F(QueueTest, SubmittedTaskCanBeReadBack) {
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

TEST_F(QueueTest, TaskIsFoundByItsRequestId) {
  Start({"--queue.max_size=1", "--retention.count=0"});
  v1::GetTaskRequest request;
  const auto get = [&] { return Call(&v1::QueueService::Stub::GetTask, request); };
  EXPECT_THAT(get(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("queue_id")));
  request.set_request_id("job/1");
  EXPECT_THAT(get(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("job/1")));
  EXPECT_THAT(get(), HasReason("TASK_NOT_FOUND"));
  v1::SubmitTaskRequest submit = Prompt("echo", "job/1");
  submit.set_payload("bytes");
  const std::string id = Submit(submit)->queue_id();
  request.set_queue_id(id);
  EXPECT_THAT(get(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("request_id")));
  request.clear_queue_id();
  ASSERT_THAT(get(), IsOk());
  EXPECT_EQ(get()->SerializeAsString(), Get(id)->SerializeAsString());
  request.set_view(v1::TASK_VIEW_FULL);
  EXPECT_EQ(get()->payload(), "bytes");
  // A submit that waits for a place has no task yet.
  std::thread waiter([this] {
    v1::SubmitTaskRequest blocking = Prompt("echo", "job/2");
    blocking.set_policy(v1::QUEUE_POLICY_BLOCK);
    EXPECT_THAT(Submit(blocking), IsOk());
  });
  while (Status().waiting() != 1) {
  }
  request.set_request_id("job/2");
  const absl::Status waiting = get().status();
  EXPECT_THAT(waiting, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("job/2")));
  EXPECT_THAT(waiting, HasReason("WAITING"));
  EXPECT_TRUE(base::GetErrorDetails(waiting).retry_after.has_value());
  // The first task is deleted with its end, and its id is remembered, also by the next process.
  ASSERT_THAT(Cancel(id), IsOk());
  waiter.join();
  EXPECT_THAT(get(), IsOk());
  Kill();
  Start({"--retention.count=0"});
  EXPECT_THAT(Get(id), HasReason("TASK_NOT_FOUND"));
  request.set_request_id("job/1");
  v1::Task remembered;
  remembered.set_queue_id(id);
  remembered.set_state(v1::Task::STATE_CANCELLED);
  remembered.set_request_id("job/1");
  ASSERT_THAT(get(), IsOk());
  EXPECT_EQ(get()->SerializeAsString(), remembered.SerializeAsString());
}

TEST_F(QueueTest, CompressedRequestIsRejected) {
  Start();
  grpc::ClientContext context;
  context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
  v1::SubmitTaskResponse response;
  const grpc::Status status =
      stub_->SubmitTask(&context, Prompt(std::string(10'000, 'x')), &response);
  EXPECT_THAT(wire::FromGrpc(status),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("gzip")));
  EXPECT_THAT(List(), IsEmpty());
}

TEST_F(QueueTest, InvalidRequestIsRejectedWithoutEffect) {
  Start();
  EXPECT_THAT(Submit({}), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("prompt")));
  EXPECT_THAT(Get("queue-1"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("queue_id")));
  EXPECT_THAT(Get("queue-01hf81rywx2hm2aptby9afwnwa"), HasReason("TASK_NOT_FOUND"));
  EXPECT_THAT(Cancel("queue-01hf81rywx2hm2aptby9afwnwa"), HasReason("TASK_NOT_FOUND"));
  v1::SubmitTaskRequest validate_only = Prompt("echo");
  validate_only.set_validate_only(true);
  const auto validated = Submit(validate_only);
  ASSERT_THAT(validated, IsOk());
  EXPECT_EQ(validated->queue_id(), "");
  EXPECT_THAT(List(), IsEmpty());
}

TEST_F(QueueTest, AcknowledgedTasksSurviveAKill) {
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
  v1::DrainQueueRequest drain;
  drain.set_why(std::string(4097, 'x'));
  EXPECT_THAT(Call(&v1::QueueService::Stub::DrainQueue, drain),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("why has 4097 bytes")));
  EXPECT_FALSE(Status().draining());
  drain.set_why("an upgrade");
  ASSERT_THAT(Call(&v1::QueueService::Stub::DrainQueue, drain), IsOk());
  Kill();
  Start();
  EXPECT_EQ(Status().drain().why(), "an upgrade");
  EXPECT_EQ(Status().drain().who(), "anonymous");
  EXPECT_TRUE(Status().drain().has_at());
  EXPECT_THAT(Submit(Prompt("1")), HasReason("QUEUE_DRAINING"));
  ASSERT_THAT(Call(&v1::QueueService::Stub::ResumeQueue, v1::ResumeQueueRequest()), IsOk());
  EXPECT_THAT(Submit(Prompt("1")), IsOk());
}

TEST_F(QueueTest, CheckpointOfALiveDirectorCanStartAnother) {
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
  RunningServer other(test::kDirector, {"--data_dir=" + checkpoint->path()});
  stub_ = v1::QueueService::NewStub(other.NewChannel());
  EXPECT_THAT(List(), ElementsAre(task));
}

TEST_F(QueueTest, TicketReservesASlotForItsSubmit) {
  Start({"--queue.max_size=1"});
  const auto reserved = Reserve();
  ASSERT_THAT(reserved, IsOk());
  EXPECT_GT(reserved->expires_at().seconds(), 0);
  EXPECT_EQ(Status().tickets(), 1u);
  EXPECT_THAT(Submit(Prompt("1")), HasReason("QUEUE_FULL"));
  v1::SubmitTaskRequest held = Prompt("2");
  held.set_ticket(reserved->ticket());
  EXPECT_THAT(Submit(held), IsOk());
  EXPECT_EQ(Status().tickets(), 0u);
  EXPECT_THAT(Submit(held), HasReason("TICKET_EXPIRED"));
}

TEST_F(QueueTest, ReserveWaitsForASlotAndEndsWithItsCaller) {
  Start({"--queue.max_size=1"});
  const std::string first = Submit(Prompt("1"))->queue_id();
  EXPECT_THAT(Reserve({}, absl::Milliseconds(50)), StatusIs(absl::StatusCode::kDeadlineExceeded));
  while (Status().waiting() > 0) {
  }
  auto second = std::async(std::launch::async, [this] { return Reserve(); });
  while (Status().waiting() == 0) {
  }
  ASSERT_THAT(Cancel(first), IsOk());
  EXPECT_THAT(second.get(), IsOk());
  v1::ReserveSlotRequest too_long;
  too_long.mutable_hold()->set_seconds(301);
  EXPECT_THAT(Reserve(too_long),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("hold has 301 seconds, at most 300 are allowed")));
  too_long.mutable_hold()->set_seconds(0);
  EXPECT_THAT(Reserve(too_long), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("hold")));
}

TEST_F(QueueTest, TaskEventsAreListedInPages) {
  Start();
  const std::string task = Submit(Prompt("1"))->queue_id();
  ASSERT_THAT(Cancel(task), IsOk());
  v1::ListTaskEventsRequest request;
  request.set_queue_id(task);
  request.set_page_size(1);
  std::vector<v1::TaskEvent::Kind> kinds;
  do {
    const auto page = Call(&v1::QueueService::Stub::ListTaskEvents, request);
    ASSERT_THAT(page, IsOk());
    ASSERT_EQ(page->events_size(), 1);
    kinds.push_back(page->events(0).kind());
    EXPECT_EQ(page->events(0).number(), kinds.size());
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  EXPECT_THAT(kinds, ElementsAre(v1::TaskEvent::KIND_SUBMITTED, v1::TaskEvent::KIND_ADMITTED,
                                 v1::TaskEvent::KIND_DENIED, v1::TaskEvent::KIND_CANCELED));
  request.set_queue_id("queue-01hf81rywx2hm2aptby9afwnwa");
  EXPECT_THAT(Call(&v1::QueueService::Stub::ListTaskEvents, request), HasReason("TASK_NOT_FOUND"));
}

TEST_F(QueueTest, WaitingTaskIsExplained) {
  Start();
  ASSERT_THAT(Submit(Prompt("1")), IsOk());
  v1::ExplainTaskRequest request;
  request.set_queue_id(Submit(Prompt("2"))->queue_id());
  const auto explained = Call(&v1::QueueService::Stub::ExplainTask, request);
  ASSERT_THAT(explained, IsOk());
  EXPECT_EQ(explained->state(), v1::Task::STATE_PENDING);
  EXPECT_EQ(explained->position(), 2u);
  EXPECT_EQ(explained->ready_ahead(), 0u);
  EXPECT_EQ(explained->summary(), "no connected agent serves the lane and labels of the task");
  EXPECT_FALSE(explained->has_estimated_start_at());
  request.set_queue_id("");
  EXPECT_THAT(Call(&v1::QueueService::Stub::ExplainTask, request),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("queue_id is required")));
}

TEST_F(QueueTest, SessionsWithLiveTasksAreListed) {
  Start();
  const auto submit = [this](const std::string& session) {
    v1::SubmitTaskRequest request = Prompt("echo");
    request.set_session_id(session);
    return Submit(request)->queue_id();
  };
  submit("b");
  submit("a");
  submit("b");
  ASSERT_THAT(Cancel(submit("c")), IsOk());
  v1::ListSessionsRequest request;
  request.set_page_size(1);
  const auto first = Call(&v1::QueueService::Stub::ListSessions, request);
  ASSERT_THAT(first, IsOk());
  ASSERT_EQ(first->sessions_size(), 1);
  EXPECT_EQ(first->sessions(0).session_id(), "a");
  request.set_page_token(first->next_page_token());
  const auto second = Call(&v1::QueueService::Stub::ListSessions, request);
  ASSERT_THAT(second, IsOk());
  ASSERT_EQ(second->sessions_size(), 1);
  EXPECT_EQ(second->sessions(0).session_id(), "b");
  EXPECT_EQ(second->sessions(0).queued(), 2u);
  EXPECT_EQ(second->sessions(0).agent(), "");
  EXPECT_TRUE(second->sessions(0).has_last_active_at());
}

TEST_F(QueueTest, PageTokenBelongsToItsMethodAndItsFilters) {
  using Stub = v1::QueueService::Stub;
  Start();
  std::vector<std::string> tasks;
  for (const char* session : {"a", "b"}) {
    v1::SubmitTaskRequest request = Prompt("echo");
    request.set_session_id(session);
    tasks.push_back(Submit(request)->queue_id());
  }
  // Each list has a second page and accepts its own token for it.
  const auto token_of = [this](auto method, auto request) {
    request.set_page_size(1);
    const auto first = Call(method, request);
    EXPECT_THAT(first, IsOk());
    EXPECT_NE(first->next_page_token(), "");
    request.set_page_token(first->next_page_token());
    EXPECT_THAT(Call(method, request), IsOk());
    return first->next_page_token();
  };
  const auto rejected = AllOf(StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("page_token")),
                              HasReason("INVALID_FIELD"));

  v1::ListTasksRequest pending;
  pending.add_states(v1::Task::STATE_PENDING);
  const std::string of_tasks = token_of(&Stub::ListTasks, pending);
  pending.add_states(v1::Task::STATE_WORKING);
  pending.set_page_token(of_tasks);
  EXPECT_THAT(Call(&Stub::ListTasks, pending), rejected) << "another state";

  v1::ListSessionsRequest sessions;
  const std::string of_sessions = token_of(&Stub::ListSessions, sessions);
  sessions.set_page_token(of_tasks);
  EXPECT_THAT(Call(&Stub::ListSessions, sessions), rejected) << "of ListTasks";

  v1::ListTaskEventsRequest events;
  events.set_queue_id(tasks[0]);
  events.set_page_token(token_of(&Stub::ListTaskEvents, events));
  events.set_queue_id(tasks[1]);
  EXPECT_THAT(Call(&Stub::ListTaskEvents, events), rejected) << "another task";

  v1::ListAgentsRequest agents;
  agents.set_page_token(of_sessions);
  const auto fleet = v1::FleetService::NewStub(director_->NewChannel());
  EXPECT_THAT(CallOn(*fleet, &v1::FleetService::Stub::ListAgents, agents), rejected)
      << "of ListSessions";
}

TEST_F(QueueTest, EndedTasksAreRedrivenOnceWithOneAnswerEach) {
  Start();
  const std::string ended = Submit(Prompt("again"))->queue_id();
  ASSERT_THAT(Cancel(ended), IsOk());
  const std::string live = Submit(Prompt("live"))->queue_id();
  v1::RedriveTasksRequest request;
  for (const std::string& id : {ended, live, std::string("queue-01hf81rywx2hm2aptby9afwnwa")}) {
    request.add_queue_ids(id);
  }
  const auto redriven = Call(&v1::QueueService::Stub::RedriveTasks, request);
  ASSERT_THAT(redriven, IsOk());
  ASSERT_EQ(redriven->items_size(), 3);
  EXPECT_EQ(redriven->items(0).queue_id(), ended);
  const std::string successor = redriven->items(0).redriven_as();
  EXPECT_EQ(Get(successor)->prompt(), "again");
  EXPECT_EQ(Get(successor)->redrive_of(), ended);
  EXPECT_EQ(Get(ended)->redriven_as(), successor);
  EXPECT_THAT(wire::FromProto(redriven->items(1).refused()), HasReason("NOT_REDRIVABLE"));
  EXPECT_THAT(wire::FromProto(redriven->items(2).refused()), HasReason("TASK_NOT_FOUND"));
  Kill();
  Start();
  const auto again = Call(&v1::QueueService::Stub::RedriveTasks, request);
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(again->items(0).redriven_as(), successor);
  EXPECT_THAT(List(), ElementsAre(live, successor, ended));
}

TEST_F(QueueTest, RedriveReportsWrongIdsAndRejectsTooMany) {
  Start();
  const std::string ended = Submit(Prompt("again"))->queue_id();
  ASSERT_THAT(Cancel(ended), IsOk());
  v1::RedriveTasksRequest request;
  request.add_queue_ids("queue-1" + std::string(1000, 'x'));
  request.add_queue_ids("");
  request.add_queue_ids(ended);
  const auto redriven = Call(&v1::QueueService::Stub::RedriveTasks, request);
  ASSERT_THAT(redriven, IsOk());
  ASSERT_EQ(redriven->items_size(), 3);
  EXPECT_THAT(wire::FromProto(redriven->items(0).refused()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("queue_ids[0] is no")));
  EXPECT_LT(redriven->items(0).queue_id().size(), 200u);
  EXPECT_THAT(wire::FromProto(redriven->items(1).refused()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("queue_ids[1] is empty")));
  EXPECT_NE(redriven->items(2).redriven_as(), "");
  while (request.queue_ids_size() <= 1000) request.add_queue_ids(request.queue_ids(0));
  EXPECT_THAT(Call(&v1::QueueService::Stub::RedriveTasks, request),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("queue_ids has 1001 entries, at most 1000 are allowed")));
}

TEST_F(QueueTest, KickReportsWhatItReset) {
  Start();
  const auto kicked = Call(&v1::QueueService::Stub::KickDispatcher, v1::KickDispatcherRequest());
  ASSERT_THAT(kicked, IsOk());
  EXPECT_EQ(kicked->backoffs_ended(), 0u);
  EXPECT_EQ(kicked->suspicions_ended(), 0u);
}

TEST_F(QueueTest, FolderHasOneDirector) {
  Start();
  const test::ProcessResult second =
      test::RunToEnd(test::ServerCommand(test::kDirector, {"--data_dir=" + folder_.string()}));
  EXPECT_THAT(second.exit_code, Optional(75));
  EXPECT_THAT(second.output, HasSubstr("another director uses " + folder_.string()));
}

TEST_F(QueueTest, DamagedStoreIsRejectedWithTheNextStep) {
  Start();
  ASSERT_THAT(Submit(Prompt("1")), IsOk());
  Kill();
  std::filesystem::remove(folder_ / "HIGHWATER");
  const test::ProcessResult refused =
      test::RunToEnd(test::ServerCommand(test::kDirector, {"--data_dir=" + folder_.string()}));
  EXPECT_THAT(refused.exit_code, Optional(65));
  EXPECT_THAT(refused.output, HasSubstr("HIGHWATER is missing"));
  EXPECT_THAT(refused.output, HasSubstr("callboard db verify --data_dir=" + folder_.string()));
}

}  // namespace
}  // namespace callboard
