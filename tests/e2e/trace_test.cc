// Traces of tasks as a collector receives them, with a scheduler, a director that is killed in
// between, and two agents, as processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/testing/files.h"
#include "libs/testing/http_client.h"
#include "libs/testing/otlp_collector.h"
#include "libs/testing/running_server.h"
#include "tests/crash/disk.h"
#include "tests/e2e/cluster.h"
#include "tests/e2e/eventually.h"
#include "tests/e2e/trace.h"

namespace callboard::e2e {
namespace {

using opentelemetry::proto::trace::v1::Status;
using test::ReceivedSpan;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Not;

constexpr absl::Duration kTimeout = absl::Minutes(1);
constexpr char kSubmit[] = "callboard.v1.QueueService/SubmitTask";
// The spans below the submit of a retried task.
auto TwoDispatches() {
  return ElementsAre("callboard-director queue.wait", "callboard-director dispatch",
                     "callboard-director queue.wait", "callboard-director dispatch");
}

class TraceTest : public testing::Test {
 protected:
  ClusterOptions TracedCluster() {
    ClusterOptions options = {.director_flags = LongLease(), .disk = &disk_};
    options.director_flags.push_back(endpoint_);
    options.agent_flags.push_back(endpoint_);
    return options;
  }

  // Returns the spans of a trace once the collector has `count` of them.
  Trace WaitForTrace(const std::string& trace_id, size_t count) {
    const std::string bytes = absl::HexStringToBytes(trace_id);
    std::vector<ReceivedSpan> found;
    EXPECT_TRUE(WaitUntilTrue(kTimeout,
                              [&] {
                                found.clear();
                                for (ReceivedSpan& span :
                                     collector_.WaitForSpans(0, absl::ZeroDuration())) {
                                  if (span.span.trace_id() == bytes)
                                    found.push_back(std::move(span));
                                }
                                return found.size() >= count;
                              }))
        << found.size() << " of " << count;
    return Trace(std::move(found));
  }
  // Returns a script that writes its trace context to this file.
  std::string WriteTraceparent(const std::string& file) const {
    return absl::StrCat("printf %s \"$TRACEPARENT\" > \"", (folder_ / file).string(), "\"; ");
  }
  // The trace context that a process received.
  std::string Traceparent(const std::string& file) const { return test::FileText(folder_ / file); }
  static std::string Expected(const Span& span) {
    return absl::StrCat("00-", absl::BytesToHexString(span.trace_id()), "-",
                        absl::BytesToHexString(span.span_id()), "-01");
  }

  // Checks that each wait ends with a dispatch and begins where the dispatch before it ended: the
  // spans cover all of the task's time.
  static void ExpectNoGaps(const Trace& trace, const Span& submit, size_t dispatches) {
    const Span& first = trace.Get("queue.wait", 0);
    EXPECT_LE(submit.start_time_unix_nano(), first.start_time_unix_nano());
    EXPECT_LE(first.start_time_unix_nano(), submit.end_time_unix_nano());
    for (size_t i = 0; i < dispatches; ++i) {
      const Span& wait = trace.Get("queue.wait", i);
      const Span& dispatch = trace.Get("dispatch", i);
      EXPECT_EQ(wait.end_time_unix_nano(), dispatch.start_time_unix_nano()) << i;
      if (i == 0) continue;
      // A backoff is part of the wait.
      EXPECT_EQ(trace.Get("dispatch", i - 1).end_time_unix_nano(), wait.start_time_unix_nano())
          << i;
    }
  }

  const std::filesystem::path folder_ = test::NewFolder();
  test::OtlpCollector collector_;
  const std::string endpoint_ = absl::StrCat("--telemetry.otlp_endpoint=", collector_.address());
  // The disk sets the director's clock.
  crash::Disk disk_ = crash::Disk(test::NewFolder());
  Cluster cluster_{folder_, TracedCluster()};
  ClusterClient& client_ = cluster_.client();
};

TEST_F(TraceTest, CronTaskIsOneTreeDespiteADirectorCrash) {
  std::ofstream(folder_ / "jobs.yaml")
      << "jobs:\n"
         "- name: once\n"
         "  schedule: '* * * * * *'\n"
         "  seconds: true\n"
         "  max_runs: 1\n"
         "  prompt: |\n"
         "    "
      << WriteTraceparent("seen") << cluster_.WaitForGate() << "\n";
  test::RunningServer scheduler(
      "services/scheduler/callboard-scheduler",
      {endpoint_, absl::StrCat("--director.address=", cluster_.director().address()),
       absl::StrCat("--data_dir=", (folder_ / "scheduler").string()),
       absl::StrCat("--jobs_file=", (folder_ / "jobs.yaml").string())});
  std::vector<ObservedTask> tasks;
  ASSERT_TRUE(WaitUntilTrue(kTimeout, [&] {
    tasks = client_.FindAll();
    return !tasks.empty();
  }));
  const std::string id = tasks[0].task.queue_id();
  const std::string trace_id = client_.WaitFor(id, v1::Task::STATE_WORKING).trace_id();
  // The finished spans: fire, both sides of the submit, and the wait in the queue.
  WaitForTrace(trace_id, 4);
  cluster_.director().Kill();
  cluster_.director().Start();
  cluster_.Open();
  EXPECT_EQ(client_.WaitForEnd(id).state(), v1::Task::STATE_COMPLETED);

  const Trace trace = WaitForTrace(trace_id, 6);
  ASSERT_THAT(trace.Roots(), ElementsAre("callboard-scheduler scheduler.fire"));
  const Span& fire = trace.Root();
  EXPECT_EQ(TextOf(fire, "callboard.job.name"), "once");
  ASSERT_THAT(trace.Below(fire), ElementsAre(absl::StrCat("callboard-scheduler ", kSubmit)));
  const Span& call = trace.OnlyBelow(fire);
  EXPECT_EQ(call.kind(), Span::SPAN_KIND_CLIENT);
  EXPECT_TRUE(IsInside(call, fire));
  ASSERT_THAT(trace.Below(call), ElementsAre(absl::StrCat("callboard-director ", kSubmit)));
  const Span& submit = trace.OnlyBelow(call);
  EXPECT_EQ(submit.kind(), Span::SPAN_KIND_SERVER);
  EXPECT_TRUE(IsInside(submit, call));
  ASSERT_THAT(trace.Below(submit),
              ElementsAre("callboard-director queue.wait", "callboard-director dispatch"));
  EXPECT_THAT(EventsOf(trace.Get("queue.wait")), IsSupersetOf({"waiting", "pending"}));
  // The restarted director ended the span.
  const Span& dispatch = trace.Get("dispatch");
  ExpectNoGaps(trace, submit, 1);
  EXPECT_EQ(TextOf(dispatch, "callboard.dispatch.outcome"), "accepted");
  EXPECT_EQ(TextOf(dispatch, "callboard.task.state"), "completed");
  EXPECT_EQ(TextOf(dispatch, "messaging.message.id"), id);
  EXPECT_THAT(EventsOf(dispatch), Contains("accepted"));
  ASSERT_THAT(trace.Below(dispatch), ElementsAre("callboard-agent agent.run"));
  const Span& run = trace.OnlyBelow(dispatch);
  EXPECT_TRUE(IsInside(run, dispatch));
  EXPECT_EQ(TextOf(run, "callboard.run.end"), "completed");
  EXPECT_EQ(Traceparent("seen"), Expected(run));
  EXPECT_THAT(trace.Below(run), IsEmpty());
  // The metric has the trace id as exemplar.
  test::HttpConnection connection(cluster_.director().http_port());
  connection.Send(
      "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: application/openmetrics-text\r\n\r\n");
  EXPECT_THAT(connection.ReadResponse(),
              testing::ContainsRegex(
                  absl::StrCat("\ncallboard_run_seconds_bucket.* # .trace_id=\"", trace_id, "\"")));
}

TEST_F(TraceTest, RetriedTaskHasSpansForEachWaitAndDispatch) {
  v1::SubmitTaskRequest request = cluster_.Task(absl::StrCat(
      WriteTraceparent("run-$CALLBOARD_TASK_ID"), "case $CALLBOARD_TASK_ID in *-1) exit 7;; esac"));
  request.add_retry_on("exit:7");
  const std::string id = client_.Submit(request);
  const std::string trace_id = client_.Get(id).trace_id();
  // The submit, the first wait in the queue, the dispatch and its run.
  WaitForTrace(trace_id, 4);
  cluster_.director().Kill();
  cluster_.director().Start();
  client_.Kick();
  const v1::Task task = client_.WaitForEnd(id);
  EXPECT_EQ(task.state(), v1::Task::STATE_COMPLETED);
  EXPECT_EQ(task.trace_id(), trace_id);

  const Trace trace = WaitForTrace(trace_id, 7);
  ASSERT_THAT(trace.Roots(), ElementsAre(absl::StrCat("callboard-director ", kSubmit)));
  ASSERT_THAT(trace.Below(trace.Root()), TwoDispatches());
  ExpectNoGaps(trace, trace.Root(), 2);
  EXPECT_THAT(EventsOf(trace.Get("queue.wait", 0)), IsSupersetOf({"waiting", "pending"}));
  EXPECT_THAT(EventsOf(trace.Get("queue.wait", 1)), Contains("pending"));
  EXPECT_THAT(EventsOf(trace.Get("queue.wait", 1)), Not(Contains("waiting")));
  const Span& first = trace.Get("dispatch", 0);
  const Span& second = trace.Get("dispatch", 1);
  EXPECT_EQ(first.status().code(), Status::STATUS_CODE_ERROR);
  EXPECT_EQ(second.status().code(), Status::STATUS_CODE_UNSET);
  EXPECT_THAT(second.links(), IsEmpty());
  // Both agents accepted the start, although the first run failed.
  EXPECT_EQ(TextOf(first, "callboard.dispatch.outcome"), "accepted");
  EXPECT_EQ(TextOf(second, "callboard.dispatch.outcome"), "accepted");
  EXPECT_EQ(TextOf(first, "callboard.task.state"), "");
  EXPECT_EQ(TextOf(second, "callboard.task.state"), "completed");
  for (const size_t i : {0, 1}) {
    const Span& dispatch = trace.Get("dispatch", i);
    EXPECT_EQ(NumberOf(dispatch, "callboard.dispatch.number"), static_cast<int64_t>(i + 1));
    ASSERT_THAT(trace.Below(dispatch), ElementsAre("callboard-agent agent.run"));
    const Span& run = trace.OnlyBelow(dispatch);
    EXPECT_TRUE(IsInside(run, dispatch));
    EXPECT_EQ(TextOf(run, "callboard.run.end"), i == 0 ? "failed" : "completed");
    EXPECT_EQ(Traceparent(absl::StrCat("run-", TextOf(run, "callboard.task.id"))), Expected(run));
  }
}

TEST_F(TraceTest, TaskOfAKilledAgentContinuesItsTrace) {
  const std::string id = client_.Submit(cluster_.Task(
      absl::StrCat(WriteTraceparent("run-$CALLBOARD_TASK_ID"), cluster_.WaitForGate())));
  const v1::Task running = client_.WaitFor(id, v1::Task::STATE_WORKING);
  cluster_.WaitForRun(id, 1);
  const std::string lost_run = absl::StrCat("run-", running.task_id());
  ASSERT_TRUE(WaitUntilTrue(kTimeout, [&] { return !Traceparent(lost_run).empty(); }));
  ServerProcess& agent = absl::EndsWith(running.agent_url(), cluster_.agent(1).address())
                             ? cluster_.agent(1)
                             : cluster_.agent(2);
  agent.Kill();
  agent.Start();
  cluster_.WaitForRun(id, 2);
  cluster_.Open();
  const v1::Task task = client_.WaitForEnd(id);
  EXPECT_EQ(task.state(), v1::Task::STATE_COMPLETED) << task.last_error();
  EXPECT_EQ(task.trace_id(), running.trace_id());

  // A run that ends with its agent may have no span.
  const Trace trace = WaitForTrace(task.trace_id(), 6);
  ASSERT_THAT(trace.Roots(), ElementsAre(absl::StrCat("callboard-director ", kSubmit)));
  ASSERT_THAT(trace.Below(trace.Root()), TwoDispatches());
  ExpectNoGaps(trace, trace.Root(), 2);
  const Span& first = trace.Get("dispatch", 0);
  const Span& second = trace.Get("dispatch", 1);
  EXPECT_EQ(TextOf(first, "callboard.dispatch.outcome"), "accepted");
  EXPECT_THAT(EventsOf(first), Contains("accepted"));
  EXPECT_EQ(first.status().code(), Status::STATUS_CODE_ERROR);
  EXPECT_EQ(TextOf(first, "callboard.task.state"), "");
  EXPECT_EQ(TextOf(second, "callboard.dispatch.outcome"), "accepted");
  EXPECT_EQ(TextOf(second, "callboard.task.state"), "completed");
  ASSERT_THAT(trace.Below(second), ElementsAre("callboard-agent agent.run"));
  const Span& run = trace.OnlyBelow(second);
  EXPECT_TRUE(IsInside(run, second));
  EXPECT_EQ(Traceparent(absl::StrCat("run-", TextOf(run, "callboard.task.id"))), Expected(run));
  EXPECT_TRUE(absl::StartsWith(Traceparent(lost_run), absl::StrCat("00-", task.trace_id(), "-")));
}

TEST_F(TraceTest, LateDispatchIsALinkedTrace) {
  v1::SubmitTaskRequest request = cluster_.Task("case $CALLBOARD_TASK_ID in *-1) exit 7;; esac");
  request.add_retry_on("exit:7");
  const std::string id = client_.Submit(request);
  const std::string trace_id = client_.Get(id).trace_id();
  const auto is_back = [](const v1::Task& task) { return task.attempts() == 1; };
  client_.WaitUntil(id, is_back);
  disk_.SetWallClock(absl::Minutes(6));
  client_.Kick();
  const v1::Task task = client_.WaitForEnd(id);
  EXPECT_EQ(task.state(), v1::Task::STATE_COMPLETED);
  EXPECT_EQ(task.trace_id(), trace_id);

  // All spans except the second dispatch and its run.
  const Trace trace = WaitForTrace(trace_id, 5);
  EXPECT_THAT(trace.Below(trace.Root()),
              ElementsAre("callboard-director queue.wait", "callboard-director dispatch",
                          "callboard-director queue.wait"));
  const Span& submit = trace.Get(kSubmit);
  Span dispatch;
  ASSERT_TRUE(WaitUntilTrue(kTimeout, [&] {
    for (const ReceivedSpan& span : collector_.WaitForSpans(0, absl::ZeroDuration())) {
      if (span.span.links_size() > 0) dispatch = span.span;
    }
    return dispatch.links_size() > 0;
  }));
  EXPECT_EQ(dispatch.name(), "dispatch");
  EXPECT_EQ(dispatch.parent_span_id(), "");
  EXPECT_EQ(dispatch.links(0).trace_id(), submit.trace_id());
  EXPECT_EQ(dispatch.links(0).span_id(), submit.span_id());
  const Trace late = WaitForTrace(absl::BytesToHexString(dispatch.trace_id()), 2);
  EXPECT_THAT(late.Below(dispatch), ElementsAre("callboard-agent agent.run"));
}

}  // namespace
}  // namespace callboard::e2e
