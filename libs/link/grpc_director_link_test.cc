#include "libs/link/grpc_director_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <future>
#include <map>
#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"
#include "callboard/v1/agent.grpc.pb.h"
#include "callboard/v1/queue.grpc.pb.h"
#include "libs/base/check.h"
#include "libs/base/error.h"
#include "libs/base/files.h"
#include "libs/base/mutex.h"
#include "libs/core/job.h"
#include "libs/core/trace.h"
#include "libs/testing/fake_environment.h"
#include "libs/testing/recorded_spans.h"
#include "libs/testing/running_server.h"
#include "libs/testing/status_matchers.h"
#include "libs/testing/tcp_proxy.h"
#include "libs/wire/status.h"

namespace callboard::link {
namespace {

using scheduler::AcceptedTask;
using scheduler::TaskStatus;
using test::HasReason;
using test::IsOk;
using test::StatusIs;
using ::testing::IsEmpty;
using ::testing::Not;

const std::string kUnreachable(scheduler::kDirectorUnreachable);

// A server with a director and an agent whose answers the test sets.
class FakeServer final : public v1::QueueService::Service {
 public:
  std::string address() const { return running_.address(); }

  grpc::Status SubmitTask(grpc::ServerContext* context, const v1::SubmitTaskRequest* request,
                          v1::SubmitTaskResponse* response) override {
    base::MutexLock lock(mutex_);
    submitted_.push_back(*request);
    const auto found = context->client_metadata().find("traceparent");
    if (found != context->client_metadata().end()) {
      traces_.push_back({found->second.data(), found->second.size()});
    }
    response->set_queue_id("queue-1");
    response->set_deduplicated(request->request_id() == "again");
    return wire::ToGrpc(error_);
  }
  grpc::Status GetTask(grpc::ServerContext*, const v1::GetTaskRequest* request,
                       v1::Task* response) override {
    base::MutexLock lock(mutex_);
    if (!request->request_id().empty()) {
      response->set_queue_id(absl::StrCat("queue-of-", request->request_id()));
      return wire::ToGrpc(error_);
    }
    const auto found = states_.find(request->queue_id());
    if (found == states_.end()) return wire::ToGrpc(absl::NotFoundError("no such task"));
    response->set_queue_id(request->queue_id());
    response->set_state(found->second);
    if (found->second == v1::Task::STATE_FAILED) response->set_reason(v1::Task::REASON_TIMED_OUT);
    return wire::ToGrpc(error_);
  }

  void FailCalls(absl::Status error) {
    base::MutexLock lock(mutex_);
    error_ = std::move(error);
  }
  void AddTask(const std::string& id, v1::Task::State state) {
    base::MutexLock lock(mutex_);
    states_[id] = state;
  }
  std::vector<v1::SubmitTaskRequest> submitted() {
    base::MutexLock lock(mutex_);
    return submitted_;
  }
  std::vector<std::string> traces() {
    base::MutexLock lock(mutex_);
    return traces_;
  }

 private:
  class Agent final : public v1::AgentService::Service {
    grpc::Status StartTask(grpc::ServerContext*, const v1::StartTaskRequest* request,
                           v1::StartTaskResponse* response) override {
      response->set_task_id(absl::StrCat(request->request_id(), ":", request->task().prompt()));
      return grpc::Status::OK;
    }
  };

  Agent agent_;
  base::Mutex mutex_;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::SubmitTaskRequest> submitted_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> traces_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, v1::Task::State> states_ ABSL_GUARDED_BY(mutex_);
  const test::RunningService running_{{this, &agent_}};
};

// A port that refuses connections or, after Listen(), accepts them and stays silent.
class SilentPort {
 public:
  SilentPort() : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    CHECK_EQ(bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    CHECK_EQ(getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
  }
  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }
  void Listen() { CHECK_EQ(listen(socket_.get(), 8), 0); }
  base::Descriptor Accept() { return base::Descriptor(accept(socket_.get(), nullptr, nullptr)); }

 private:
  const base::Descriptor socket_;
  int port_ = 0;
};

core::JobSubmission SubmissionOf(const std::string& request_id) {
  v1::SubmitTaskRequest task;
  task.set_prompt("do it");
  core::Job job = {.name = "nightly"};
  job.task = std::make_shared<const std::string>(task.SerializeAsString());
  return core::MakeJobSubmission(job, request_id, core::OverlapPolicy::kSkip);
}

// Runs `call` with a reply callback and returns the reply.
template <class T, class Call>
absl::StatusOr<T> Await(Call call) {
  std::promise<absl::StatusOr<T>> promise;
  call([&promise](absl::StatusOr<T> answer) { promise.set_value(std::move(answer)); });
  return promise.get_future().get();
}

absl::StatusOr<AcceptedTask> Submit(GrpcDirectorLink& link, const std::string& request_id) {
  return Await<AcceptedTask>(
      [&](auto reply) { link.Submit(SubmissionOf(request_id), std::move(reply)); });
}

class GrpcDirectorLinkTest : public testing::Test {
 protected:
  test::FakeClock clock_;
  test::FakeRandom random_;
  ports::NoTelemetry no_telemetry_;
  const ports::Tracing tracing_{no_telemetry_, clock_, random_};
};

TEST_F(GrpcDirectorLinkTest, SubmitSendsTheTaskAndReturnsTheAnswer) {
  FakeServer director;
  GrpcDirectorLink link(director.address(), tracing_);
  EXPECT_EQ(*Submit(link, "first"), (AcceptedTask{"queue-1", false}));
  EXPECT_EQ(*Submit(link, "again"), (AcceptedTask{"queue-1", true}));
  ASSERT_EQ(director.submitted().size(), 2u);
  EXPECT_EQ(director.submitted()[0].prompt(), "do it");
  EXPECT_EQ(director.submitted()[0].request_id(), "first");
  EXPECT_EQ(director.submitted()[0].overlap().key(), "nightly");
  EXPECT_EQ(director.submitted()[0].policy(), v1::QUEUE_POLICY_REJECT);
}

TEST_F(GrpcDirectorLinkTest, SubmitCarriesItsTrace) {
  FakeServer director;
  GrpcDirectorLink link(director.address(), tracing_);
  core::JobSubmission submission = SubmissionOf("a");
  submission.trace = core::NewTrace({1, 2, 3});
  ASSERT_THAT(Await<AcceptedTask>([&](auto reply) { link.Submit(submission, std::move(reply)); }),
              IsOk());
  ASSERT_THAT(Submit(link, "without a trace"), IsOk());
  EXPECT_THAT(director.traces(), testing::ElementsAre(core::FormatTraceparent(submission.trace)));
}

TEST_F(GrpcDirectorLinkTest, CallIsASpanBetweenTheFireAndTheServer) {
  FakeServer director;
  test::RecordedSpans spans;
  GrpcDirectorLink link(director.address(), {spans, clock_, random_});
  core::JobSubmission submission = SubmissionOf("a");
  submission.trace = core::NewTrace({1, 2, 3});
  director.FailCalls(base::WithReason(absl::ResourceExhaustedError("canary"), "QUEUE_FULL"));
  EXPECT_THAT(Await<AcceptedTask>([&](auto reply) { link.Submit(submission, std::move(reply)); }),
              StatusIs(absl::StatusCode::kResourceExhausted));
  const ports::FinishedSpan call = spans.Only();
  EXPECT_EQ(call.name, "callboard.v1.QueueService/SubmitTask");
  EXPECT_EQ(call.kind, ports::SpanKind::kClient);
  EXPECT_TRUE(call.context.trace_id == submission.trace.trace_id);
  EXPECT_TRUE(call.parent == submission.trace.span_id);
  EXPECT_EQ(call.status, absl::ResourceExhaustedError("RESOURCE_EXHAUSTED"));
  EXPECT_EQ(test::TextOf(call, "error.type"), "QUEUE_FULL");
  EXPECT_EQ(test::TextOf(call, "server.address"), "127.0.0.1");
  const ports::SpanAttribute& port = call.attributes.back();
  EXPECT_EQ(port.name, "server.port");
  EXPECT_EQ(absl::StrCat("127.0.0.1:", std::get<int64_t>(port.value)), director.address());
  EXPECT_THAT(director.traces(), testing::ElementsAre(core::FormatTraceparent(call.context)));
}

TEST_F(GrpcDirectorLinkTest, ErrorKeepsItsDetails) {
  FakeServer director;
  GrpcDirectorLink link(director.address(), tracing_);
  director.FailCalls(base::WithReason(absl::FailedPreconditionError("one is live"), "OVERLAP",
                                      {{"queue_id", "queue-7"}}));
  const absl::Status error = Submit(link, "a").status();
  EXPECT_THAT(error, HasReason("OVERLAP"));
  EXPECT_EQ(base::GetErrorDetails(error).metadata.at("queue_id"), "queue-7");
}

TEST_F(GrpcDirectorLinkTest, CallWithoutAConnectionIsReportedAsNotSent) {
  SilentPort port;
  GrpcDirectorLink link(port.address(), tracing_);
  // The first call waits for the connection. The second fails because there is none.
  for (int i = 0; i < 2; ++i) {
    const absl::StatusOr<AcceptedTask> answer = Submit(link, "a");
    EXPECT_THAT(answer, StatusIs(absl::StatusCode::kUnavailable));
    EXPECT_THAT(answer, HasReason(kUnreachable));
  }
}

TEST_F(GrpcDirectorLinkTest, RestartedDirectorIsReachedAgain) {
  auto director = std::make_unique<FakeServer>();
  test::TcpProxy network(director->address());
  GrpcDirectorLink link(network.address(), tracing_);
  ASSERT_THAT(Submit(link, "before"), IsOk());
  network.Accept(false);
  network.Cut();
  director = std::make_unique<FakeServer>();
  EXPECT_THAT(Submit(link, "during the restart"), StatusIs(absl::StatusCode::kUnavailable));
  network.SetTarget(director->address());
  network.Accept(true);
  // Retries until the director is reached.
  absl::StatusOr<AcceptedTask> answer;
  do {
    answer = Submit(link, "after");
  } while (absl::IsUnavailable(answer.status()));
  EXPECT_THAT(answer, IsOk());
  EXPECT_THAT(director->submitted(), Not(IsEmpty()));
}

TEST_F(GrpcDirectorLinkTest, InterruptedCallIsNotReportedAsNotSent) {
  SilentPort port;
  port.Listen();
  GrpcDirectorLink link(port.address(), tracing_);
  std::thread cutter([&port] {
    const base::Descriptor connection = port.Accept();
    // Sends the settings frame of an HTTP/2 server that accepts every call, and nothing after it.
    constexpr char kSettings[] = {0, 0, 0, 4, 0, 0, 0, 0, 0};
    CHECK(base::WriteAll(connection, {kSettings, sizeof(kSettings)}));
    std::string seen;
    char buffer[4096];
    while (seen.find("do it") == std::string::npos) {
      const ssize_t count = recv(connection.get(), buffer, sizeof(buffer), 0);
      CHECK_GT(count, 0);
      seen.append(buffer, static_cast<size_t>(count));
    }
  });
  const absl::StatusOr<AcceptedTask> answer = Submit(link, "a");
  cutter.join();
  EXPECT_THAT(answer, StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(answer, Not(HasReason(kUnreachable)));
}

TEST_F(GrpcDirectorLinkTest, LookupReturnsTheTaskOfARequestIdOrTheError) {
  FakeServer director;
  GrpcDirectorLink link(director.address(), tracing_);
  const auto find = [&] {
    return Await<AcceptedTask>([&](auto reply) { link.FindTask("r", std::move(reply)); });
  };
  EXPECT_EQ(*find(), (AcceptedTask{"queue-of-r", true}));
  EXPECT_THAT(director.submitted(), IsEmpty());
  director.FailCalls(base::WithReason(absl::NotFoundError("no"), "TASK_NOT_FOUND"));
  EXPECT_EQ(scheduler::ClassifyLookup(find().status()), scheduler::LookupAnswer::kUnused);
}

TEST_F(GrpcDirectorLinkTest, StatusesOmitUnknownTasks) {
  FakeServer director;
  GrpcDirectorLink link(director.address(), tracing_);
  std::vector<std::string> ids = {"unknown"};
  for (int i = 0; i < 100; ++i) {
    ids.push_back(absl::StrCat("queue-", i));
    director.AddTask(ids.back(), i % 2 == 0 ? v1::Task::STATE_COMPLETED : v1::Task::STATE_FAILED);
  }
  const auto statuses = Await<std::vector<TaskStatus>>(
      [&](auto reply) { link.GetTaskStatuses(ids, std::move(reply)); });
  ASSERT_THAT(statuses, IsOk());
  EXPECT_EQ(statuses->size(), 100u);
  for (const TaskStatus& status : *statuses) {
    const bool failed = status.state == core::LifecycleState::kFailed;
    EXPECT_EQ(status.reason, failed ? std::optional(core::FailureReason::kTimedOut) : std::nullopt);
  }
}

TEST_F(GrpcDirectorLinkTest, StatusesOfNoTasksAreEmpty) {
  FakeServer director;
  GrpcDirectorLink link(director.address(), tracing_);
  const auto statuses = Await<std::vector<TaskStatus>>(
      [&](auto reply) { link.GetTaskStatuses({}, std::move(reply)); });
  ASSERT_THAT(statuses, IsOk());
  EXPECT_THAT(*statuses, IsEmpty());
}

TEST_F(GrpcDirectorLinkTest, StatusesFailWhenOneLookupFails) {
  FakeServer director;
  GrpcDirectorLink link(director.address(), tracing_);
  director.AddTask("queue-1", v1::Task::STATE_COMPLETED);
  director.FailCalls(absl::UnavailableError("later"));
  const auto statuses = Await<std::vector<TaskStatus>>([&](auto reply) {
    link.GetTaskStatuses({"queue-1", "queue-2"}, std::move(reply));
  });
  EXPECT_THAT(statuses, StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(GrpcDirectorLinkTest, StatusesAreAnsweredExactlyOnce) {
  SilentPort port;
  std::atomic<int> answers = 0;
  constexpr int kQueries = 200;
  {
    GrpcDirectorLink link(port.address(), tracing_);
    for (int i = 0; i < kQueries; ++i) {
      const auto statuses = Await<std::vector<TaskStatus>>([&](auto reply) {
        link.GetTaskStatuses({"queue-1", "queue-2"}, [&answers, reply](auto answer) {
          // A promise can be set only once.
          if (++answers <= kQueries) reply(std::move(answer));
        });
      });
      EXPECT_THAT(statuses, HasReason(kUnreachable));
    }
  }
  EXPECT_EQ(answers, kQueries);
}

TEST_F(GrpcDirectorLinkTest, ReconnectsWithinASecondAndResolvesTheAddressAgain) {
  grpc::ChannelArguments arguments;
  internal::SetReconnect(arguments);
  const grpc_channel_args set = arguments.c_channel_args();
  std::map<std::string, int> values;
  for (size_t i = 0; i < set.num_args; ++i) {
    if (set.args[i].type == GRPC_ARG_INTEGER) values[set.args[i].key] = set.args[i].value.integer;
  }
  EXPECT_EQ(values[GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS], 100);
  EXPECT_EQ(values[GRPC_ARG_MAX_RECONNECT_BACKOFF_MS], 500);
  EXPECT_EQ(values[GRPC_ARG_MIN_RECONNECT_BACKOFF_MS], 1000);
  EXPECT_EQ(values[GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS], 500);
}

TEST_F(GrpcDirectorLinkTest, DirectStartGoesToTheAgent) {
  FakeServer agent;
  GrpcDirectorLink link("127.0.0.1:1", tracing_);
  const auto answer = Await<AcceptedTask>([&](auto reply) {
    link.StartDirect("grpc://" + agent.address(), SubmissionOf("id"), std::move(reply));
  });
  EXPECT_EQ(*answer, (AcceptedTask{"id:do it", false}));
}

TEST_F(GrpcDirectorLinkTest, PendingCallsAreNotAnsweredAfterDestruction) {
  SilentPort port;
  port.Listen();
  std::atomic<bool> answered = false;
  base::Descriptor connection;
  {
    GrpcDirectorLink link(port.address(), tracing_);
    link.Submit(SubmissionOf("a"), [&answered](auto) { answered = true; });
    connection = port.Accept();
  }
  EXPECT_FALSE(answered);
}

}  // namespace
}  // namespace callboard::link
