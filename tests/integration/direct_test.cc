// Runs that bypass the queue, with a real agent, director and processes.
#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "callboard/v1/agent.grpc.pb.h"
#include "libs/base/check.h"
#include "libs/testing/files.h"
#include "libs/testing/running_server.h"
#include "libs/testing/status_matchers.h"
#include "libs/wire/status.h"
#include "tests/integration/task_client.h"

namespace callboard {
namespace {

using test::HasReason;
using test::IsOk;
using test::RunningServer;
using test::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Optional;
using AgentStub = v1::AgentService::Stub;

// Reads the output of a run one message at a time.
class Tail {
 public:
  Tail(AgentStub& stub, const v1::TailLogsRequest& request)
      : reader_(stub.TailLogs(&context_, request)) {}
  ~Tail() {
    context_.TryCancel();
    if (reader_ != nullptr) reader_->Finish();
  }

  // Returns once the server has sent its headers. Reads no message.
  void WaitUntilBegun() { reader_->WaitForInitialMetadata(); }
  // Returns the next message. REQUIRES: there is one.
  v1::TailLogsResponse Next() {
    v1::TailLogsResponse message;
    CHECK(reader_->Read(&message)) << "the stream has ended";
    return message;
  }
  // Returns all remaining chunks until the server ends the stream.
  std::vector<v1::LogChunk> Rest() {
    std::vector<v1::LogChunk> chunks;
    v1::TailLogsResponse message;
    while (reader_->Read(&message)) {
      chunks.insert(chunks.end(), message.chunks().begin(), message.chunks().end());
    }
    status_ = wire::FromGrpc(std::exchange(reader_, nullptr)->Finish());
    return chunks;
  }
  // REQUIRES: Rest().
  const absl::Status& status() const { return status_; }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::TailLogsResponse>> reader_;
  absl::Status status_ = absl::UnknownError("it has not ended");
};

// An agent with one slot that runs scripts, and its director.
class DirectTest : public testing::Test {
 protected:
  template <class Request, class Response>
  absl::StatusOr<Response> Call(grpc::Status (AgentStub::*method)(grpc::ClientContext*,
                                                                  const Request&, Response*),
                                const Request& request) {
    grpc::ClientContext context;
    Response response;
    const grpc::Status status = (stub_.get()->*method)(&context, request, &response);
    if (!status.ok()) return wire::FromGrpc(status);
    return response;
  }
  absl::StatusOr<v1::StartTaskResponse> Start(const std::string& request_id,
                                              const std::string& script) {
    v1::StartTaskRequest request;
    request.set_request_id(request_id);
    request.mutable_task()->set_prompt(script);
    return Call(&AgentStub::StartTask, request);
  }
  // Starts a run and returns its task id. REQUIRES: it is accepted.
  std::string MustStart(const std::string& script) {
    const auto started = Start("r", script);
    EXPECT_THAT(started, IsOk());
    EXPECT_FALSE(started->deduplicated());
    return started->task_id();
  }
  absl::StatusOr<v1::AgentRun> Get(const std::string& task_id) {
    v1::AgentServiceGetTaskRequest request;
    request.set_task_id(task_id);
    return Call(&AgentStub::GetTask, request);
  }
  v1::AgentRun WaitForEnd(const std::string& task_id) {
    while (true) {
      const absl::StatusOr<v1::AgentRun> run = Get(task_id);
      EXPECT_THAT(run, IsOk());
      if (!run.ok() || run->state() != v1::AgentRun::STATE_WORKING)
        return run.value_or(v1::AgentRun());
    }
  }
  std::unique_ptr<Tail> Follow(const std::string& task_id, uint64_t after_number = 0) {
    v1::TailLogsRequest request;
    request.set_task_id(task_id);
    request.set_after_number(after_number);
    request.set_follow(true);
    return std::make_unique<Tail>(*stub_, request);
  }
  v1::AgentStatus Status() {
    return *Call(&AgentStub::GetAgentStatus, v1::GetAgentStatusRequest());
  }

  std::string File(const std::string& name) const { return folder_ / name; }
  // Returns a script fragment that waits for Go().
  std::string WaitForGo() const {
    return absl::StrCat("while [ ! -e ", File("go"), " ]; do sleep 0.01; done; ");
  }
  void Go() const { std::ofstream(File("go")) << "go"; }

  const std::filesystem::path folder_ = test::NewFolder();
  RunningServer director_{"services/director/callboard-director"};
  test::TaskClient client_{director_};
  RunningServer agent_{
      "services/agent/callboard-agent",
      {absl::StrCat("--director.address=", director_.grpc_address()), "--agent.name=agent-1",
       "--agent.allow_direct", "--runner.kind=shell", "--runner.allow_shell"}};
  const std::unique_ptr<AgentStub> stub_ = v1::AgentService::NewStub(agent_.NewChannel());
};

TEST_F(DirectTest, RunCanBeReadWhileWorkingAndAfterwards) {
  const std::string id = MustStart(WaitForGo() + "echo $CALLBOARD_TASK_ID; exit 7");
  absl::StatusOr<v1::AgentRun> run = Get(id);
  ASSERT_THAT(run, IsOk());
  EXPECT_EQ(run->state(), v1::AgentRun::STATE_WORKING);
  EXPECT_FALSE(run->has_finished_at());
  while (Get(id)->pid() == 0) {
  }
  const v1::AgentStatus status = Status();
  ASSERT_EQ(status.runs_size(), 1);
  EXPECT_EQ(status.runs(0).task_id(), id);
  EXPECT_EQ(kill(static_cast<pid_t>(status.runs(0).pid()), 0), 0) << "the process runs";
  EXPECT_TRUE(status.runs(0).has_started_at());
  Go();
  run = WaitForEnd(id);
  EXPECT_TRUE(run->has_started_at());
  EXPECT_TRUE(run->has_finished_at());
  EXPECT_EQ(run->pid(), 0);
  EXPECT_EQ(run->task_id(), id);
  EXPECT_EQ(run->state(), v1::AgentRun::STATE_FAILED);
  EXPECT_EQ(run->exit_code(), 7);
  EXPECT_EQ(run->result(), id + "\n");
  EXPECT_GE(run->finished_at().seconds(), run->started_at().seconds());
  EXPECT_GT(run->started_at().seconds(), 0);
  EXPECT_THAT(Get("task-of-another"), HasReason("TASK_NOT_FOUND"));
}

TEST_F(DirectTest, SignalOfARunIsExact) {
  const v1::AgentRun run = WaitForEnd(MustStart("kill -SEGV $$"));
  EXPECT_EQ(run.signal(), "SIGSEGV");
  EXPECT_FALSE(run.has_exit_code());
}

TEST_F(DirectTest, RepeatedRequestReturnsTheFirstRun) {
  const std::string script = absl::StrCat("echo once >>", File("runs"));
  const std::string id = MustStart(script);
  WaitForEnd(id);
  const absl::StatusOr<v1::StartTaskResponse> again = Start("r", script);
  ASSERT_THAT(again, IsOk());
  EXPECT_TRUE(again->deduplicated());
  EXPECT_EQ(again->task_id(), id);
  EXPECT_THAT(Start("r", "echo other"),
              AllOf(StatusIs(absl::StatusCode::kAlreadyExists), HasReason("REQUEST_ID_REUSED")));
  EXPECT_EQ(test::FileText(File("runs")), "once\n");
}

TEST_F(DirectTest, WrongFieldsAreNamed) {
  const absl::Status status = Start("", "").status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(base::GetErrorDetails(status).field_violations.count("request_id"), 1u);
  EXPECT_EQ(base::GetErrorDetails(status).field_violations.count("task.prompt"), 1u);
}

TEST_F(DirectTest, AgentThatRunsATaskOfItsDirectorIsBusy) {
  const std::string task = client_.Submit(WaitForGo());
  client_.WaitFor(task, v1::Task::STATE_WORKING);
  EXPECT_THAT(Start("r", "echo"),
              AllOf(StatusIs(absl::StatusCode::kAborted), HasReason("AGENT_BUSY")));
  Go();
  client_.WaitForEnd(task);
  EXPECT_EQ(WaitForEnd(MustStart("echo")).state(), v1::AgentRun::STATE_COMPLETED)
      << "a busy answer is not remembered";
}

TEST_F(DirectTest, TaskOfTheDirectorWaitsForADirectRun) {
  const std::string id = MustStart(WaitForGo() + "echo direct >>" + File("order"));
  const std::string task = client_.Submit("echo task >>" + File("order"));
  EXPECT_EQ(client_.Get(task).attempts(), 0u);
  Go();
  const v1::Task ended = client_.WaitForEnd(task);
  EXPECT_EQ(ended.state(), v1::Task::STATE_COMPLETED);
  EXPECT_EQ(ended.attempts(), 0u) << "a busy answer is not an attempt";
  EXPECT_EQ(test::FileText(File("order")), "direct\ntask\n");
  EXPECT_EQ(WaitForEnd(id).state(), v1::AgentRun::STATE_COMPLETED);
}

TEST_F(DirectTest, OutputCanBeFollowedAndResumed) {
  const std::string id = MustStart("echo one; " + WaitForGo() + "echo two >&2");
  const auto tail = Follow(id);
  const v1::TailLogsResponse first = tail->Next();
  ASSERT_EQ(first.chunks_size(), 1);
  EXPECT_EQ(first.chunks(0).data(), "one\n");
  EXPECT_EQ(first.chunks(0).stream(), v1::LogChunk::STREAM_STDOUT);
  Go();
  for (const auto& rest : {tail->Rest(), Follow(id, first.chunks(0).number())->Rest()}) {
    ASSERT_EQ(rest.size(), 1u);
    EXPECT_EQ(rest[0].data(), "two\n");
    EXPECT_EQ(rest[0].stream(), v1::LogChunk::STREAM_STDERR);
  }
  EXPECT_THAT(tail->status(), IsOk());
  EXPECT_EQ(Get(id)->state(), v1::AgentRun::STATE_COMPLETED) << "the run ended with its output";
}

TEST_F(DirectTest, OutputOfADirectorsTaskCanBeRead) {
  const std::string task = client_.Submit("echo one; " + WaitForGo() + "echo two");
  const std::string id = client_.WaitFor(task, v1::Task::STATE_WORKING).task_id();
  const auto tail = Follow(id);
  EXPECT_EQ(tail->Next().chunks(0).data(), "one\n");
  EXPECT_EQ(Get(id)->state(), v1::AgentRun::STATE_WORKING);
  Go();
  const std::vector<v1::LogChunk> rest = tail->Rest();
  ASSERT_EQ(rest.size(), 1u);
  EXPECT_EQ(rest[0].data(), "two\n");
  EXPECT_EQ(rest[0].dispatch(), 1u);
  EXPECT_EQ(client_.WaitForEnd(task).result(), "one\ntwo\n") << "the director has the result too";
}

TEST_F(DirectTest, SlowReaderStallsNothingAndSeesItsGap) {
  constexpr uint64_t kBytes = 16 << 20;
  const std::string id =
      MustStart(WaitForGo() + absl::StrCat("head -c ", kBytes - 5, " /dev/zero; echo last"));
  const auto slow = Follow(id);
  Go();
  EXPECT_EQ(WaitForEnd(id).state(), v1::AgentRun::STATE_COMPLETED);
  for (const auto& chunks : {slow->Rest(), Follow(id)->Rest()}) {
    uint64_t seen = 0;
    uint64_t dropped = 0;
    uint64_t number = 0;
    for (const v1::LogChunk& chunk : chunks) {
      EXPECT_GT(chunk.number(), std::exchange(number, chunk.number()));
      seen += chunk.data().size();
      dropped += chunk.dropped_bytes();
    }
    EXPECT_LT(seen, kBytes);
    EXPECT_EQ(seen + dropped, kBytes);
    EXPECT_THAT(chunks.back().data(), EndsWith("last\n"));
  }
  EXPECT_THAT(slow->status(), IsOk());
}

TEST_F(DirectTest, IdleReadersMakeRoomForActiveOnes) {
  // Writes only as fast as the output is stored, so that nothing is dropped.
  constexpr int kPieces = 8;
  constexpr size_t kPieceBytes = 30'000;
  const std::string next = File("next.");
  const std::string id =
      MustStart(absl::StrCat("for i in $(seq ", kPieces, "); do head -c ", kPieceBytes,
                             " /dev/zero; while [ ! -e ", next, "$i ]; do sleep 0.01; done; done"));
  const auto complete = Follow(id);
  size_t bytes = 0;
  for (int i = 1; i <= kPieces; ++i) {
    while (bytes < i * kPieceBytes) {
      const v1::TailLogsResponse message = complete->Next();
      for (const v1::LogChunk& chunk : message.chunks()) bytes += chunk.data().size();
    }
    std::ofstream(absl::StrCat(next, i)) << "go";
  }
  WaitForEnd(id);
  grpc::ChannelArguments arguments;
  // Keeps the stream window at 64 KiB, so that a message waits for its reader.
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  const auto stub = v1::AgentService::NewStub(grpc::CreateCustomChannel(
      agent_.grpc_address(), grpc::InsecureChannelCredentials(), arguments));
  v1::TailLogsRequest request;
  request.set_task_id(id);
  // Fewer readers than the limit, but more than the budget can hold.
  std::vector<std::unique_ptr<Tail>> idle;
  for (int i = 0; i < 90; ++i) {
    idle.push_back(std::make_unique<Tail>(*stub, request));
    idle.back()->WaitUntilBegun();
  }
  idle.front()->Rest();
  EXPECT_THAT(idle.front()->status(), StatusIs(absl::StatusCode::kCancelled));
  const auto reads = Follow(id);
  EXPECT_FALSE(reads->Rest().empty());
  EXPECT_THAT(reads->status(), IsOk());
}

TEST_F(DirectTest, OutputOfAnUnknownRunIsNotFound) {
  const auto tail = Follow("task-of-another");
  EXPECT_THAT(tail->Rest(), IsEmpty());
  EXPECT_THAT(tail->status(), HasReason("TASK_NOT_FOUND"));
}

TEST_F(DirectTest, DrainingAgentFinishesItsRunsAndRejectsStarts) {
  const std::string script = "echo one; " + WaitForGo() + "echo two";
  const std::string id = MustStart(script);
  const auto tail = Follow(id);
  agent_.process().Signal(SIGTERM);
  while (!Status().draining()) {
  }
  EXPECT_THAT(Status().running_task_ids(), ElementsAre(id));
  EXPECT_THAT(Start("s", "echo"),
              AllOf(StatusIs(absl::StatusCode::kUnavailable), HasReason("AGENT_DRAINING")));
  EXPECT_TRUE(Start("r", script)->deduplicated());
  Go();
  EXPECT_THAT(tail->Rest().back().data(), EndsWith("two\n"));
  EXPECT_THAT(tail->status(), IsOk());
  EXPECT_THAT(agent_.process().WaitForExit(absl::Seconds(60)), Optional(0));
}

TEST(DirectDisabledTest, DirectStartsAreRejectedByDefault) {
  RunningServer agent("services/agent/callboard-agent", {"--runner.kind=noop"});
  const auto stub = v1::AgentService::NewStub(agent.NewChannel());
  grpc::ClientContext context;
  v1::StartTaskRequest request;
  v1::StartTaskResponse response;
  request.set_request_id("r");
  request.mutable_task()->set_prompt("echo");
  const absl::Status status = wire::FromGrpc(stub->StartTask(&context, request, &response));
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("allow_direct")));
  EXPECT_THAT(status, HasReason("DIRECT_DISABLED"));
}

}  // namespace
}  // namespace callboard
