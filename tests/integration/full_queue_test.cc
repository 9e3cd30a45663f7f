// A full queue over gRPC: which callers are rejected, which wait, and in which order they are
// admitted.
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "libs/base/error.h"
#include "libs/testing/process.h"
#include "libs/testing/tcp_proxy.h"
#include "tests/integration/director_fixture.h"

namespace callboard {
namespace {

using test::HasReason;
using test::IsOk;
using test::StatusIs;
using ::testing::ElementsAre;
using ::testing::Pair;

// An asynchronous submit.
class Caller {
 public:
  Caller(v1::QueueService::Stub& stub, const v1::SubmitTaskRequest& request) : request_(request) {
    // Shared with gRPC, which may still use it when the caller has the answer.
    const auto answered = std::make_shared<std::promise<absl::Status>>();
    answer_ = answered->get_future().share();
    stub.async()->SubmitTask(
        &context_, &request_, &response_,
        [answered](const grpc::Status& status) { answered->set_value(wire::FromGrpc(status)); });
  }

  bool has_answer() const {
    return answer_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
  // Waits for the answer.
  absl::Status answer() const { return answer_.get(); }
  // REQUIRES: the submit was accepted.
  const v1::SubmitTaskResponse& response() const { return response_; }
  void Leave() { context_.TryCancel(); }

 private:
  grpc::ClientContext context_;
  const v1::SubmitTaskRequest request_;
  v1::SubmitTaskResponse response_;
  std::shared_future<absl::Status> answer_;
};

class FullQueueTest : public test::DirectorFixture {
 protected:
  // Submits `count` tasks that are accepted.
  std::vector<std::string> Fill(size_t count) {
    std::vector<std::string> ids;
    while (ids.size() < count) ids.push_back(Submit(Prompt("echo"))->queue_id());
    return ids;
  }
  static v1::SubmitTaskRequest Blocking(const std::string& prompt) {
    v1::SubmitTaskRequest request = Prompt(prompt);
    request.set_policy(v1::QUEUE_POLICY_BLOCK);
    return request;
  }
  void WaitForWaiting(uint32_t count) {
    while (Status().waiting() != count) {
    }
  }
};

TEST_F(FullQueueTest, FullQueueRejectsWithDetails) {
  Start();
  Fill(50);
  const absl::Status rejected = Submit(Prompt("echo")).status();
  EXPECT_THAT(rejected,
              StatusIs(absl::StatusCode::kResourceExhausted, "queue is at capacity (50 tasks)"));
  const base::ErrorDetails details = base::GetErrorDetails(rejected);
  EXPECT_EQ(details.reason, "QUEUE_FULL");
  EXPECT_THAT(details.metadata,
              ElementsAre(Pair("depth", "50"), Pair("max_size", "50"), Pair("policy", "reject")));
  EXPECT_TRUE(details.retry_after.has_value());
  EXPECT_EQ(Status().depth(), 50u);
}

TEST_F(FullQueueTest, BlockedCallersAreAdmittedInOrder) {
  Start();
  std::vector<std::string> line = Fill(50);
  Caller first(*stub_, Blocking("first"));
  WaitForWaiting(1);
  Caller second(*stub_, Blocking("second"));
  WaitForWaiting(2);
  for (const Caller* caller : {&first, &second}) {
    EXPECT_FALSE(caller->has_answer());
    const auto cancelled = Cancel(line.front());
    ASSERT_THAT(cancelled, IsOk());
    EXPECT_EQ(cancelled->outcome(), v1::CancelTaskResponse::OUTCOME_CANCELLED);
    line.erase(line.begin());
    ASSERT_THAT(caller->answer(), IsOk());
    EXPECT_EQ(caller->response().position(), 50u);
    line.push_back(caller->response().queue_id());
  }
  v1::ListTasksRequest pending;
  pending.add_states(v1::Task::STATE_PENDING);
  EXPECT_EQ(List(pending), line);
}

TEST_F(FullQueueTest, WaitingCallerThatLeavesIsForgotten) {
  Start({"--queue.max_size=1"});
  const std::string first = Fill(1)[0];
  Caller second(*stub_, Blocking("second"));
  WaitForWaiting(1);
  second.Leave();
  WaitForWaiting(0);
  EXPECT_THAT(second.answer(), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_THAT(List(), ElementsAre(first));
}

TEST_F(FullQueueTest, ThousandCallersWaitInOrderAtBoundedCost) {
  constexpr uint32_t kPlaces = 10;
  constexpr uint32_t kCallers = 1000;
  Start({"--queue.max_size=10", "--queue.policy=block"});
  const std::vector<std::string> tasks = Fill(kPlaces);
  const pid_t pid = director_->process().pid();
  const uint64_t threads = test::StatusOf(pid, "Threads");
  const uint64_t kilobytes = test::StatusOf(pid, "VmRSS");

  test::TcpProxy network(director_->grpc_address());
  const auto elsewhere = v1::QueueService::NewStub(
      grpc::CreateChannel(network.address(), grpc::InsecureChannelCredentials()));
  std::deque<Caller> callers;
  while (callers.size() < kCallers) {
    v1::QueueService::Stub& stub = callers.size() % 2 == 0 ? *stub_ : *elsewhere;
    callers.emplace_back(stub, Prompt(std::string(4096, 'x')));
    // One after the other, so that their order is known.
    WaitForWaiting(static_cast<uint32_t>(callers.size()));
  }
  EXPECT_THAT(Submit(Prompt("one too many")), HasReason("TOO_MANY_WAITERS"));
  EXPECT_LE(test::StatusOf(pid, "Threads"), threads + 16);
  EXPECT_LE(test::StatusOf(pid, "VmRSS"), kilobytes + 64 * 1024);

  for (uint32_t i = 0; i < kPlaces; ++i) {
    EXPECT_FALSE(callers[i].has_answer());
    ASSERT_THAT(Cancel(tasks[i]), IsOk());
    EXPECT_THAT(callers[i].answer(), IsOk());
  }
  EXPECT_EQ(Status().waiting(), kCallers - kPlaces);

  // Half of the callers lose their connection, and the others cancel.
  network.Accept(false);
  network.Cut();
  WaitForWaiting((kCallers - kPlaces) / 2);
  for (Caller& caller : callers) caller.Leave();
  WaitForWaiting(0);
  for (uint32_t i = kPlaces; i < kCallers; ++i) EXPECT_FALSE(callers[i].answer().ok()) << i;
  EXPECT_EQ(Status().depth(), kPlaces);
}

}  // namespace
}  // namespace callboard
