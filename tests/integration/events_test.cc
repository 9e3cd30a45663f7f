// Tests of the log and metrics of a real director with a scripted agent.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/base/error.h"
#include "libs/testing/files.h"
#include "libs/testing/http_client.h"
#include "libs/testing/process.h"
#include "libs/testing/running_server.h"
#include "libs/testing/scripted_agent.h"
#include "tests/integration/task_client.h"

namespace callboard {
namespace {

using core::FenceToken;
using core::StartRun;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kTraceId[] = "4bf92f3577b34da6a3ce929d0e0e4736";
constexpr char kTraceparent[] = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

// A director with a queue of one task and one agent with one slot.
class EventsTest : public testing::Test {
 protected:
  EventsTest() {
    agent_.WaitForSession();
    agent_.SendOpened("agent-1");
  }

  void ReportFree() { agent_.Send(core::LoadReport{{{"default", {.slots = 1}}}}); }
  // Returns the next log line of that event.
  std::string Line(const std::string& event) {
    return director_.process().WaitForLine(absl::StrCat(" queue=", event, " "));
  }
  std::string Metrics() { return test::HttpGet(director_.http_port(), "/metrics").body; }
  void WaitForMetric(const std::string& line) {
    while (!absl::StrContains(Metrics(), absl::StrCat("\n", line, "\n"))) {
    }
  }
  static v1::SubmitTaskRequest Task(const std::string& prompt) {
    v1::SubmitTaskRequest task;
    task.set_prompt(prompt);
    return task;
  }
  // Submits the tasks in one message of a stream, and ends the stream.
  void SubmitTogether(const std::vector<v1::SubmitTaskRequest>& tasks) {
    grpc::ClientContext context;
    context.AddMetadata("traceparent", kTraceparent);
    const auto stream = client_.stub().SubmitTasks(&context);
    v1::SubmitTasksRequest request;
    for (const v1::SubmitTaskRequest& task : tasks) *request.add_items() = task;
    EXPECT_TRUE(stream->Write(request) && stream->WritesDone());
    v1::SubmitTasksResponse response;
    while (stream->Read(&response)) {
    }
    EXPECT_TRUE(stream->Finish().ok());
  }
  // Starts a task that its agent accepts.
  std::string Run(FenceToken& token) {
    const std::string id = client_.Submit("task");
    token = agent_.NextMessage<StartRun>().token;
    agent_.Accept(token);
    client_.WaitFor(id, v1::Task::STATE_WORKING);
    return id;
  }

  test::ScriptedAgent agent_;
  test::RunningServer director_{
      "services/director/callboard-director",
      {absl::StrCat("--data_dir=", test::NewFolder().string()), "--queue.max_size=1",
       absl::StrCat("--fleet.agents=", agent_.address())}};
  test::TaskClient client_{director_};
};

TEST_F(EventsTest, TaskIsLoggedThroughBusyAcceptanceAndFailure) {
  v1::SubmitTaskRequest request = Task("canary-prompt");
  request.set_payload("canary-payload");
  (*request.mutable_env())["NAME"] = "canary-env";
  request.set_source("scheduler");
  const std::string id = client_.Submit(request);
  const std::string of_task = absl::StrCat(" queue_id=", id, " ");
  EXPECT_THAT(Line("task_added"), AllOf(HasSubstr(of_task), HasSubstr("depth=1 source=scheduler")));
  EXPECT_THAT(Line("dispatch"),
              AllOf(HasSubstr(of_task), HasSubstr("-1 agent=agent-1 dispatch=1 attempt=1/3")));

  agent_.Reject(agent_.NextMessage<StartRun>().token,
                base::WithReason(absl::AbortedError("busy"), "AGENT_BUSY"));
  EXPECT_THAT(Line("dispatch_failed"),
              AllOf(HasSubstr(of_task), HasSubstr("error=\"agent busy\" attempt=1/3 busy=1")));
  ReportFree();
  EXPECT_THAT(Line("dispatch"), HasSubstr("dispatch=2 attempt=1/3"))
      << "a busy answer is not an attempt";

  const FenceToken token = agent_.NextMessage<StartRun>().token;
  agent_.Accept(token);
  EXPECT_THAT(Line("dispatch_success"), AllOf(HasSubstr(of_task), HasSubstr("-2 agent=agent-1")));
  agent_.Finish(token,
                {.end = core::RunResult::End::kFailed, .exit_code = 7, .result = "canary-result"});
  EXPECT_THAT(Line("task_ended"),
              AllOf(HasSubstr(of_task),
                    HasSubstr("state=failed reason=exec_failed exit_code=7 run_seconds=")));

  WaitForMetric(R"(callboard_tasks_total{reason="exec_failed",state="failed"} 1)");
  WaitForMetric(R"(callboard_dispatch_total{outcome="busy"} 1)");
  WaitForMetric(R"(callboard_dispatch_total{outcome="accepted"} 1)");
  WaitForMetric("callboard_queue_waiting_seconds_count 1");
  WaitForMetric("callboard_queue_wait_seconds_count 2");
  WaitForMetric("callboard_queue_pending_seconds_count 2");
  WaitForMetric("callboard_dispatch_seconds_count 2");
  WaitForMetric("callboard_run_seconds_count 1");
  EXPECT_THAT(director_.process().Output(), Not(HasSubstr("canary")));
  EXPECT_THAT(Metrics(), Not(HasSubstr("canary")));
}

TEST_F(EventsTest, FailedDispatchLogsReasonAndNextStep) {
  v1::SubmitTaskRequest request = Task("task");
  request.set_max_attempts(1);
  client_.Submit(request);
  agent_.Reject(agent_.NextMessage<StartRun>().token, absl::UnavailableError("no memory"));
  EXPECT_THAT(Line("dispatch_failed"),
              HasSubstr("error=\"UNAVAILABLE: no memory\" attempt=1/1 final=true"));
  EXPECT_THAT(Line("task_ended"), HasSubstr("state=failed reason=max_attempts"));
  WaitForMetric(R"(callboard_dispatch_total{outcome="failed"} 1)");
}

TEST_F(EventsTest, RejectedSubmitsAreCountedAndLoggedWithTheirTrace) {
  FenceToken token;
  Run(token);
  client_.Submit("pending");
  const auto submit_one_more = [&](grpc::ClientContext& context) {
    v1::SubmitTaskResponse answer;
    EXPECT_FALSE(client_.stub().SubmitTask(&context, Task("one more"), &answer).ok());
  };
  grpc::ClientContext untraced;
  submit_one_more(untraced);
  EXPECT_THAT(Line("submit_rejected"),
              EndsWith("reason=queue_full depth=1 source=api identity=anonymous"));
  const std::string of_trace = absl::StrCat(" trace_id=", kTraceId);
  grpc::ClientContext traced;
  traced.AddMetadata("traceparent", kTraceparent);
  submit_one_more(traced);
  EXPECT_THAT(Line("submit_rejected"),
              EndsWith("reason=queue_full depth=1 source=api identity=anonymous" + of_trace));
  SubmitTogether({Task("one more"), Task("")});
  EXPECT_THAT(Line("submit_rejected"),
              EndsWith("reason=queue_full depth=1 source=api identity=anonymous" + of_trace));
  EXPECT_THAT(Line("submit_rejected"),
              EndsWith("reason=invalid_field source=api identity=anonymous" + of_trace));
  WaitForMetric(R"(callboard_submit_rejected_total{reason="queue_full"} 3)");
}

TEST_F(EventsTest, CancelIsLoggedAtRequestAndAtEnd) {
  FenceToken token;
  const std::string running = Run(token);
  const std::string pending = client_.Submit("pending");
  client_.Cancel(pending);
  EXPECT_THAT(Line("cancel_requested"), AllOf(HasSubstr(pending), HasSubstr("phase=queued")));
  EXPECT_THAT(Line("task_ended"), AllOf(HasSubstr(pending), HasSubstr("state=cancelled")));
  client_.Cancel(running);
  EXPECT_THAT(Line("cancel_requested"),
              AllOf(HasSubstr(running), HasSubstr("agent=agent-1 phase=in_flight")));
  agent_.Finish(token, {.end = core::RunResult::End::kCancelled, .signal = "SIGTERM"});
  EXPECT_THAT(Line("task_ended"),
              AllOf(HasSubstr(running), HasSubstr("state=cancelled signal=SIGTERM run_seconds=")));
  WaitForMetric(R"(callboard_tasks_total{reason="",state="cancelled"} 2)");
  WaitForMetric(R"(callboard_cancels_total{phase="queued"} 1)");
  WaitForMetric(R"(callboard_cancels_total{phase="in_flight"} 1)");
}

TEST_F(EventsTest, WaitingCallerThatLeavesIsLoggedAndCounted) {
  FenceToken token;
  Run(token);
  client_.Submit("pending");
  v1::SubmitTaskRequest request = Task("one more");
  request.set_policy(v1::QUEUE_POLICY_BLOCK);
  request.set_source("scheduler");
  request.set_source_job("nightly");
  grpc::ClientContext context;
  std::thread caller([&] {
    v1::SubmitTaskResponse answer;
    EXPECT_EQ(client_.stub().SubmitTask(&context, request, &answer).error_code(),
              grpc::StatusCode::CANCELLED);
  });
  WaitForMetric("callboard_queue_waiting 1");
  context.TryCancel();
  caller.join();
  EXPECT_THAT(Line("cancel_requested"), EndsWith("phase=waiting who=anonymous source=scheduler "
                                                 "job=nightly identity=anonymous"));
  WaitForMetric(R"(callboard_cancels_total{phase="waiting"} 1)");
}

TEST_F(EventsTest, CommandLineShowsTheEventsOfATask) {
  const std::string retried = client_.Submit("task");
  agent_.Reject(agent_.NextMessage<StartRun>().token, absl::UnavailableError("no\nmemory"));
  Line("dispatch_failed");
  client_.Kick();
  const FenceToken token = agent_.NextMessage<StartRun>().token;
  agent_.Accept(token);
  client_.WaitFor(retried, v1::Task::STATE_WORKING);
  const std::string cancelled = client_.Submit("pending");
  client_.Cancel(cancelled);
  agent_.Finish(token, {.exit_code = 0});
  client_.WaitFor(retried, v1::Task::STATE_COMPLETED);

  const auto shown = [this](const std::string& id) {
    return test::RunToEnd({test::BuiltBinary("services/cli/callboard"), "queue-status", id,
                           "--director.address=" + director_.grpc_address()})
        .output;
  };
  const std::string when = "[-0-9]+ [:.0-9]+ UTC +\\+[.0-9a-z]+ +";
  EXPECT_THAT(
      shown(retried),
      ContainsRegex(absl::StrCat(
          "\ntrace      [0-9a-f]{32}\n\n"
          "TIME +ELAPSED +EVENT +WHO +FAULT +POSITION +DISPATCH +AGENT +WHY\n",             //
          when, "SUBMITTED +anonymous +- +- +- +-\n",                                       //
          when, "ADMITTED +anonymous +- +- -> 1 +- +-\n",                                   //
          when, "DISPATCHING +director +- +1 -> - +1 +agent-1\n",                           //
          when, "RETRY +agent-1 +agent +- -> 1 +1 +agent-1  UNAVAILABLE: no\\\\nmemory\n",  //
          when, "DISPATCHING +director +- +1 -> - +2 +agent-1\n",                           //
          when, "RUNNING +agent-1 +- +- +2 +agent-1\n",                                     //
          when, "DONE +agent-1 +- +- +2 +agent-1\n$")));
  EXPECT_THAT(shown(cancelled), ContainsRegex(absl::StrCat(
                                    when, "CANCELED +anonymous +caller +1 -> - +- +- +.+\n$")));
}

TEST_F(EventsTest, GaugesAreCurrentWhenACallIsAnswered) {
  FenceToken token;
  Run(token);
  client_.Submit("pending");
  EXPECT_THAT(Metrics(), AllOf(HasSubstr("\ncallboard_queue_pending 1\n"),
                               HasSubstr("\ncallboard_queue_in_flight 1\n"),
                               HasSubstr("\ncallboard_queue_waiting 0\n"),
                               HasSubstr("\ncallboard_queue_max_size 1\n"),
                               HasSubstr("\ncallboard_queue_oldest_age_seconds ")));
  WaitForMetric(R"(callboard_agents{state="busy"} 1)");
}

}  // namespace
}  // namespace callboard
