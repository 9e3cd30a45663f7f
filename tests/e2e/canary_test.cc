// Checks that neither the inputs and outputs of tasks nor secrets of the setup appear in anything
// that a cluster shows to operators.
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "callboard/v1/queue.grpc.pb.h"
#include "libs/testing/files.h"
#include "libs/testing/http_client.h"
#include "libs/testing/otlp_collector.h"
#include "libs/testing/running_server.h"
#include "tests/e2e/cluster.h"
#include "tests/e2e/eventually.h"

namespace callboard::e2e {
namespace {

using test::ReceivedSpan;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::Pair;

constexpr absl::Duration kTimeout = absl::Minutes(1);
constexpr char kCanary[] = "canary-5f3a";

// Returns a text that must not appear anywhere; it names its source.
std::string Canary(absl::string_view of) { return absl::StrCat(kCanary, "-", of); }

// A script that writes all of its input to both outputs and to its result. It does not end while
// WAIT is set; the first dispatch exits with $CODE.
constexpr char kScript[] =
    "(cat; echo \"$SECRET $*\"; cat \"$CALLBOARD_PAYLOAD_FILE\") | tee /dev/stderr "
    "\"$CALLBOARD_RESULT_FILE\"; while [ \"$WAIT\" ]; do sleep 0.1; done; "
    "case $CALLBOARD_TASK_ID in *-1) exit $CODE;; esac";

class CanaryTest : public testing::Test {
 protected:
  ClusterOptions Options() const {
    ClusterOptions options = {.director_flags = LongLease(), .environment = environment_};
    for (const std::string& flag : flags_) {
      options.director_flags.push_back(flag);
      options.agent_flags.push_back(flag);
    }
    options.agent_flags.push_back("--runner.kind=exec");
    options.agent_flags.push_back(absl::StrCat("--runner.argv=/bin/sh,-c,", kScript, ",sh,--token=",
                                               Canary("argv"), ",{model},{session_id},{project}"));
    return options;
  }
  static v1::SubmitTaskRequest Task(const std::string& request_id) {
    v1::SubmitTaskRequest task;
    task.set_request_id(request_id);
    task.set_prompt(Canary("prompt"));
    task.set_payload(Canary("payload"));
    (*task.mutable_env())["SECRET"] = Canary("env");
    (*task.mutable_labels())["label"] = Canary("label");
    task.set_model(Canary("model"));
    task.mutable_project()->set_name(Canary("project"));
    task.mutable_project()->set_path(absl::StrCat("/", Canary("path")));
    task.set_on_agent_lost(v1::ON_AGENT_LOST_REQUEUE);
    return task;
  }
  void WriteJobs() const {
    std::ofstream(jobs_) << "jobs:\n"
                            "- name: once\n"
                            "  schedule: '* * * * * *'\n"
                            "  seconds: true\n"
                            "  max_runs: 1\n"
                            "  prompt: "
                         << Canary("prompt of a job") << "\n  env: {SECRET: " << Canary("env")
                         << "}\n  labels: {label: " << Canary("label")
                         << "}\n  model: " << Canary("model") << "\n";
  }
  ServerProcess& AgentOf(const v1::Task& task) {
    return absl::EndsWith(task.agent_url(), cluster_.agent(1).address()) ? cluster_.agent(1)
                                                                         : cluster_.agent(2);
  }
  void Cancel(const std::string& queue_id) {
    grpc::ClientContext context;
    v1::CancelTaskRequest request;
    request.set_queue_id(queue_id);
    request.set_why(Canary("why"));
    v1::CancelTaskResponse answer;
    EXPECT_TRUE(queue_->CancelTask(&context, request, &answer).ok());
  }
  // Submits an invalid task and returns the error message.
  std::string SubmitWrongTask() {
    grpc::ClientContext context;
    v1::SubmitTaskRequest task = Task("wrong");
    task.add_retry_on(Canary("field"));
    v1::SubmitTaskResponse answer;
    return queue_->SubmitTask(&context, task, &answer).error_message();
  }
  std::string WhyOf(const std::string& queue_id) {
    std::string why;
    for (const v1::TaskEvent& event : client_.Events(queue_id)) absl::StrAppend(&why, event.why());
    return why;
  }

  // Runs a task that fails, is retried by the next director, and completes.
  void RunTaskThatIsRetried() {
    v1::SubmitTaskRequest failing = Task("failing");
    failing.set_session_id(Canary("session"));
    (*failing.mutable_env())["CODE"] = "7";
    failing.add_retry_on("exit:7");
    const std::string retried = client_.Submit(failing);
    client_.WaitUntil(retried, [](const v1::Task& task) { return task.attempts() == 1; });
    cluster_.director().Kill();
    cluster_.director().Start();
    client_.Kick();
    const v1::Task completed = client_.WaitForEnd(retried);
    EXPECT_EQ(completed.state(), v1::Task::STATE_COMPLETED) << completed.last_error();
    for (const char* of : {"prompt", "payload", "env", "argv", "model", "session", "project"}) {
      EXPECT_THAT(completed.result(), HasSubstr(Canary(of)));
    }
  }
  // Runs a task whose agent is killed and which is cancelled on the next agent.
  void RunTaskThatIsLostAndCancelled() {
    v1::SubmitTaskRequest waiting = Task("waiting");
    (*waiting.mutable_env())["WAIT"] = "yes";
    const std::string cancelled = client_.Submit(waiting);
    ServerProcess& agent = AgentOf(client_.WaitFor(cancelled, v1::Task::STATE_WORKING));
    agent.Kill();
    agent.Start();
    client_.WaitUntil(cancelled, [](const v1::Task& task) {
      return task.dispatch() == 2 && task.state() == v1::Task::STATE_WORKING;
    });
    Cancel(cancelled);
    EXPECT_EQ(client_.WaitForEnd(cancelled).state(), v1::Task::STATE_CANCELLED);
    EXPECT_THAT(WhyOf(cancelled), HasSubstr(Canary("why")));
  }

  // Returns everything that an HTTP port serves, with metrics in both formats.
  static std::string Pages(uint16_t port) {
    std::string pages;
    for (const char* path : {"/metrics", "/status", "/readyz", "/livez"}) {
      const std::string page = test::HttpGet(port, path).body;
      EXPECT_FALSE(page.empty()) << path;
      pages += page;
    }
    test::HttpConnection connection(port);
    connection.Send(
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\n"
        "Accept: application/openmetrics-text\r\n\r\n");
    const std::string open_metrics = connection.ReadResponse();
    EXPECT_THAT(open_metrics, HasSubstr("# EOF"));
    return pages + open_metrics;
  }
  // Returns the span and its sender as text.
  static std::string TextOf(const ReceivedSpan& received) {
    return absl::StrCat(received.span.SerializeAsString(),
                        absl::StrJoin(received.resource, " ", absl::PairFormatter("=")));
  }

  const std::filesystem::path folder_ = test::NewFolder();
  const std::string jobs_ = folder_ / "jobs.yaml";
  test::OtlpCollector collector_;
  const std::vector<std::string> environment_ = {
      absl::StrCat("OTEL_EXPORTER_OTLP_HEADERS=x-token=", Canary("token"))};
  const std::vector<std::string> flags_ = {
      absl::StrCat("--telemetry.otlp_endpoint=", collector_.address()), "--log.level=debug"};
  Cluster cluster_{folder_, Options()};
  ClusterClient& client_ = cluster_.client();
  const std::unique_ptr<v1::QueueService::Stub> queue_ = v1::QueueService::NewStub(
      grpc::CreateChannel(cluster_.director().address(), grpc::InsecureChannelCredentials()));
};

TEST_F(CanaryTest, OperatorsSeeNoTaskDataAndNoTokens) {
  RunTaskThatIsRetried();
  RunTaskThatIsLostAndCancelled();
  // Three more tasks: the agent rejects one, the director rejects one, and one belongs to a job.
  v1::SubmitTaskRequest option = Task("option");
  option.set_model(absl::StrCat("-", Canary("model")));
  EXPECT_EQ(client_.WaitForEnd(client_.Submit(option)).reason(), v1::Task::REASON_AGENT_REJECTED);
  EXPECT_THAT(SubmitWrongTask(), HasSubstr("retry_on[0]"));
  WriteJobs();
  std::vector<std::string> flags = flags_;
  flags.push_back(absl::StrCat("--director.address=", cluster_.director().address()));
  flags.push_back(absl::StrCat("--data_dir=", (folder_ / "scheduler").string()));
  flags.push_back(absl::StrCat("--jobs_file=", jobs_));
  test::RunningServer scheduler("services/scheduler/callboard-scheduler", flags, environment_);
  ASSERT_TRUE(WaitUntilTrue(kTimeout, [&] {
    for (const ObservedTask& seen : client_.FindAll()) {
      if (seen.task.source_job() == "once" && HasEnded(seen.task)) return true;
    }
    return false;
  }));

  std::vector<ServerProcess*> members = {&cluster_.director(), &cluster_.agent(1),
                                         &cluster_.agent(2)};
  for (ServerProcess* member : members)
    EXPECT_THAT(Pages(member->http_port()), Not(HasSubstr(kCanary)));
  EXPECT_THAT(Pages(scheduler.http_port()), Not(HasSubstr(kCanary)));
  // The processes write their last lines and spans when they stop.
  scheduler.process().Signal(SIGTERM);
  EXPECT_EQ(scheduler.process().WaitForExit(kTimeout), 0);
  EXPECT_THAT(scheduler.process().Output(), HasSubstr("schedule=fired"));
  EXPECT_THAT(scheduler.process().Output(), Not(HasSubstr(kCanary)));
  for (ServerProcess* member : members) {
    EXPECT_EQ(member->Terminate(), 0);
    EXPECT_THAT(member->log(), Not(HasSubstr(kCanary)));
  }
  // The log has the lines of both directors.
  EXPECT_THAT(cluster_.director().log(), HasSubstr("error=\"exited with 7\""));
  for (const char* event :
       {"run_failed", "dispatch_failed", "submit_rejected", "cancel_requested"}) {
    EXPECT_THAT(cluster_.director().log(), HasSubstr(absl::StrCat(" queue=", event, " ")));
  }
  std::vector<std::string> names;
  for (const ReceivedSpan& received : collector_.WaitForSpans(0, absl::ZeroDuration())) {
    EXPECT_THAT(received.headers, Contains(Pair("x-token", Canary("token"))));
    EXPECT_THAT(TextOf(received), Not(HasSubstr(kCanary)));
    names.push_back(received.span.name());
  }
  EXPECT_THAT(names, IsSupersetOf({"scheduler.fire", "queue.wait", "dispatch", "agent.run"}));
}

}  // namespace
}  // namespace callboard::e2e
