#include "libs/adapters/grpc_director_link/grpc_director_link.h"

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
#include "libs/base/descriptor.h"
#include "libs/base/error.h"
#include "libs/base/mutex.h"
#include "libs/core/trace_context.h"
#include "libs/testing/fake_clock.h"
#include "libs/testing/fake_random.h"
#include "libs/testing/recorded_spans.h"
#include "libs/testing/running_service.h"
#include "libs/testing/status_matchers.h"
#include "libs/testing/tcp_proxy.h"
#include "libs/wire/status.h"

namespace callboard::adapters {
namespace {

using scheduler::Accepted;
using scheduler::TaskEnd;
using test::HasReason;
using test::IsOk;
using test::StatusIs;
using ::testing::IsEmpty;
using ::testing::Not;

const std::string kUnreachable(scheduler::kDirectorUnreachable);

// A director, and an agent, that say what a test tells them to.
class Peer final : public v1::QueueService::Service {
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
    return wire::ToGrpc(refusal_);
  }
  grpc::Status GetTask(grpc::ServerContext*, const v1::GetTaskRequest* request,
                       v1::Task* response) override {
    base::MutexLock lock(mutex_);
    const auto found = states_.find(request->queue_id());
    if (found == states_.end()) return wire::ToGrpc(absl::NotFoundError("no such task"));
    response->set_queue_id(request->queue_id());
    response->set_state(found->second);
    if (found->second == v1::Task::STATE_FAILED) response->set_reason(v1::Task::REASON_TIMED_OUT);
    return wire::ToGrpc(refusal_);
  }

  void Refuse(absl::Status refusal) {
    base::MutexLock lock(mutex_);
    refusal_ = std::move(refusal);
  }
  void Has(const std::string& id, v1::Task::State state) {
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
  absl::Status refusal_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::SubmitTaskRequest> submitted_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> traces_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, v1::Task::State> states_ ABSL_GUARDED_BY(mutex_);
  const test::RunningService running_{{this, &agent_}};
};

// A port that nobody listens on, or that takes connections and says nothing.
class DeafPort {
 public:
  DeafPort() : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
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

core::Submission SubmissionOf(const std::string& request_id) {
  core::Submission submission;
  submission.spec.prompt = "do it";
  submission.spec.request_id = request_id;
  return submission;
}

// What `ask` is answered.
template <class T, class Ask>
absl::StatusOr<T> Answer(Ask ask) {
  std::promise<absl::StatusOr<T>> promise;
  ask([&promise](absl::StatusOr<T> answer) { promise.set_value(std::move(answer)); });
  return promise.get_future().get();
}

absl::StatusOr<Accepted> Submit(GrpcDirectorLink& link, const std::string& request_id) {
  return Answer<Accepted>(
      [&](auto reply) { link.Submit(SubmissionOf(request_id), std::move(reply)); });
}

class GrpcDirectorLinkTest : public testing::Test {
 protected:
  test::FakeClock clock_;
  test::FakeRandom random_;
  ports::NoTelemetry nobody_;
  const ports::Tracing tracing_{nobody_, clock_, random_};
};

TEST_F(GrpcDirectorLinkTest, SubmitBringsTheTaskAndTheAnswer) {
  Peer director;
  GrpcDirectorLink link(director.address(), tracing_);
  EXPECT_EQ(*Submit(link, "first"), (Accepted{"queue-1", false}));
  EXPECT_EQ(*Submit(link, "again"), (Accepted{"queue-1", true}));
  ASSERT_EQ(director.submitted().size(), 2u);
  EXPECT_EQ(director.submitted()[0].prompt(), "do it");
  EXPECT_EQ(director.submitted()[0].request_id(), "first");
}

TEST_F(GrpcDirectorLinkTest, SubmitCarriesItsTrace) {
  Peer director;
  GrpcDirectorLink link(director.address(), tracing_);
  core::Submission submission = SubmissionOf("a");
  submission.trace = core::NewTrace({1, 2, 3});
  ASSERT_THAT(Answer<Accepted>([&](auto reply) { link.Submit(submission, std::move(reply)); }),
              IsOk());
  ASSERT_THAT(Submit(link, "of no trace"), IsOk());
  EXPECT_THAT(director.traces(), testing::ElementsAre(core::FormatTraceparent(submission.trace)));
}

TEST_F(GrpcDirectorLinkTest, CallIsASpanBelowTheFireAndAboveTheServers) {
  Peer director;
  test::RecordedSpans spans;
  GrpcDirectorLink link(director.address(), {spans, clock_, random_});
  core::Submission submission = SubmissionOf("a");
  submission.trace = core::NewTrace({1, 2, 3});
  director.Refuse(base::WithReason(absl::ResourceExhaustedError("canary"), "QUEUE_FULL"));
  EXPECT_THAT(Answer<Accepted>([&](auto reply) { link.Submit(submission, std::move(reply)); }),
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

TEST_F(GrpcDirectorLinkTest, RefusalKeepsItsDetails) {
  Peer director;
  GrpcDirectorLink link(director.address(), tracing_);
  director.Refuse(base::WithReason(absl::FailedPreconditionError("one is live"), "OVERLAP",
                                   {{"queue_id", "queue-7"}}));
  const absl::Status refused = Submit(link, "a").status();
  EXPECT_THAT(refused, HasReason("OVERLAP"));
  EXPECT_EQ(base::DetailsOf(refused).metadata.at("queue_id"), "queue-7");
}

TEST_F(GrpcDirectorLinkTest, WhatNeverReachedAConnectionIsKnownNotToBeSent) {
  DeafPort port;
  GrpcDirectorLink link(port.address(), tracing_);
  // The first waits for the connection, the second finds that there is none.
  for (int i = 0; i < 2; ++i) {
    const absl::StatusOr<Accepted> answer = Submit(link, "a");
    EXPECT_THAT(answer, StatusIs(absl::StatusCode::kUnavailable));
    EXPECT_THAT(answer, HasReason(kUnreachable));
  }
}

TEST_F(GrpcDirectorLinkTest, DirectorThatIsBackAtItsAddressIsReachedAgain) {
  auto director = std::make_unique<Peer>();
  test::TcpProxy network(director->address());
  GrpcDirectorLink link(network.address(), tracing_);
  ASSERT_THAT(Submit(link, "before"), IsOk());
  network.Accept(false);
  network.Cut();
  director = std::make_unique<Peer>();
  EXPECT_THAT(Submit(link, "while it is away"), StatusIs(absl::StatusCode::kUnavailable));
  network.Forward(director->address());
  network.Accept(true);
  // Until it is reached.
  absl::StatusOr<Accepted> answer;
  do {
    answer = Submit(link, "after");
  } while (absl::IsUnavailable(answer.status()));
  EXPECT_THAT(answer, IsOk());
  EXPECT_THAT(director->submitted(), Not(IsEmpty()));
}

TEST_F(GrpcDirectorLinkTest, WhatWasCutOffMayHaveArrived) {
  DeafPort port;
  port.Listen();
  GrpcDirectorLink link(port.address(), tracing_);
  std::thread cutter([&port] {
    const base::Descriptor connection = port.Accept();
    // The preface and settings of a server that takes every call, and then nothing more.
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
  const absl::StatusOr<Accepted> answer = Submit(link, "a");
  cutter.join();
  EXPECT_THAT(answer, StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(answer, Not(HasReason(kUnreachable)));
}

TEST_F(GrpcDirectorLinkTest, EndsAreThoseOfTheTasksThatTheDirectorKnows) {
  Peer director;
  GrpcDirectorLink link(director.address(), tracing_);
  std::vector<std::string> ids = {"unknown"};
  for (int i = 0; i < 100; ++i) {
    ids.push_back(absl::StrCat("queue-", i));
    director.Has(ids.back(), i % 2 == 0 ? v1::Task::STATE_COMPLETED : v1::Task::STATE_FAILED);
  }
  const auto ends =
      Answer<std::vector<TaskEnd>>([&](auto reply) { link.AskEnds(ids, std::move(reply)); });
  ASSERT_THAT(ends, IsOk());
  EXPECT_EQ(ends->size(), 100u);
  for (const TaskEnd& end : *ends) {
    const bool failed = end.state == core::TaskState::kFailed;
    EXPECT_EQ(end.reason, failed ? std::optional(core::FailureReason::kTimedOut) : std::nullopt);
  }
}

TEST_F(GrpcDirectorLinkTest, EndsOfNoTasksAreNone) {
  Peer director;
  GrpcDirectorLink link(director.address(), tracing_);
  const auto ends =
      Answer<std::vector<TaskEnd>>([&](auto reply) { link.AskEnds({}, std::move(reply)); });
  ASSERT_THAT(ends, IsOk());
  EXPECT_THAT(*ends, IsEmpty());
}

TEST_F(GrpcDirectorLinkTest, EndsAreRefusedWhenOneCannotBeAskedFor) {
  Peer director;
  GrpcDirectorLink link(director.address(), tracing_);
  director.Has("queue-1", v1::Task::STATE_COMPLETED);
  director.Refuse(absl::UnavailableError("later"));
  const auto ends = Answer<std::vector<TaskEnd>>([&](auto reply) {
    link.AskEnds({"queue-1", "queue-2"}, std::move(reply));
  });
  EXPECT_THAT(ends, StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(GrpcDirectorLinkTest, EndsAreAnsweredOnceHoweverFastTheCallsFail) {
  DeafPort port;
  std::atomic<int> answers = 0;
  constexpr int kTimes = 200;
  {
    GrpcDirectorLink link(port.address(), tracing_);
    for (int i = 0; i < kTimes; ++i) {
      const auto ends = Answer<std::vector<TaskEnd>>([&](auto reply) {
        link.AskEnds({"queue-1", "queue-2"}, [&answers, reply](auto answer) {
          // A second one would be one too many for the test as well.
          if (++answers <= kTimes) reply(std::move(answer));
        });
      });
      EXPECT_THAT(ends, HasReason(kUnreachable));
    }
  }
  EXPECT_EQ(answers, kTimes);
}

TEST_F(GrpcDirectorLinkTest, ServerThatIsBackIsConnectedToWithinASecondAlsoUnderAnotherAddress) {
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
  Peer agent;
  GrpcDirectorLink link("127.0.0.1:1", tracing_);
  const auto answer = Answer<Accepted>([&](auto reply) {
    link.StartDirect("grpc://" + agent.address(), SubmissionOf("id"), std::move(reply));
  });
  EXPECT_EQ(*answer, (Accepted{"id:do it", false}));
}

TEST_F(GrpcDirectorLinkTest, WhatIsUnderWayAtItsEndIsNotAnswered) {
  DeafPort port;
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
}  // namespace callboard::adapters
