// What a collector gets to see of tasks: with a scheduler, a director that is killed in between,
// and two agents, as processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "libs/base/check.h"
#include "libs/testing/file_text.h"
#include "libs/testing/http_client.h"
#include "libs/testing/new_folder.h"
#include "libs/testing/otlp_collector.h"
#include "libs/testing/running_server.h"
#include "tests/crash/disk.h"
#include "tests/e2e/cluster.h"
#include "tests/e2e/eventually.h"

namespace callboard::e2e {
namespace {

using opentelemetry::proto::trace::v1::Span;
using opentelemetry::proto::trace::v1::Status;
using test::ReceivedSpan;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr absl::Duration kPatience = absl::Minutes(1);
// What nobody may find in a span, a log or a metric.
constexpr char kCanary[] = "canary-5f3a";

// The spans of one trace.
class Trace {
 public:
  explicit Trace(std::vector<ReceivedSpan> spans) : spans_(std::move(spans)) {}

  const std::vector<ReceivedSpan>& spans() const { return spans_; }

  // Below that span, or without a parent: what it is, and who sent it, in the order of beginning.
  std::vector<std::string> Below(const std::string& parent = "") const {
    std::map<uint64_t, std::string> found;
    for (const auto& [span, resource, headers] : spans_) {
      if (span.parent_span_id() != parent) continue;
      found[span.start_time_unix_nano()] =
          absl::StrCat(resource.at("service.name"), " ", span.name());
    }
    std::vector<std::string> texts;
    for (const auto& [start, text] : found) texts.push_back(text);
    return texts;
  }
  // Of that name, the i-th to begin. REQUIRES: there is one.
  const Span& Get(const std::string& name, size_t i = 0) const {
    std::map<uint64_t, const Span*> found;
    for (const auto& [span, resource, headers] : spans_) {
      if (span.name() == name) found[span.start_time_unix_nano()] = &span;
    }
    CHECK(i < found.size()) << name << " " << i;
    return *std::next(found.begin(), static_cast<ptrdiff_t>(i))->second;
  }

 private:
  const std::vector<ReceivedSpan> spans_;
};

std::string TextOf(const Span& span, const std::string& name) {
  for (const auto& attribute : span.attributes()) {
    if (attribute.key() == name) return attribute.value().string_value();
  }
  return "";
}

std::vector<std::string> EventsOf(const Span& span) {
  std::vector<std::string> events;
  for (const Span::Event& event : span.events()) events.push_back(event.name());
  return events;
}

constexpr char kSubmit[] = "callboard.v1.QueueService/SubmitTask";

class TraceTest : public testing::Test {
 protected:
  ClusterOptions TracedCluster() {
    ClusterOptions options = {.director_flags = LongLease(), .disk = &disk_};
    options.director_flags.push_back(endpoint_);
    options.agent_flags.push_back(endpoint_);
    return options;
  }

  // All that the collector has of a trace, once it has so many spans.
  Trace WaitForTrace(const std::string& trace_id, size_t count) {
    const std::string bytes = absl::HexStringToBytes(trace_id);
    std::vector<ReceivedSpan> found;
    EXPECT_TRUE(Eventually(kPatience,
                           [&] {
                             found.clear();
                             for (ReceivedSpan& span :
                                  collector_.WaitForSpans(0, absl::ZeroDuration())) {
                               if (span.span.trace_id() == bytes) found.push_back(std::move(span));
                             }
                             return found.size() >= count;
                           }))
        << found.size() << " of " << count;
    return Trace(std::move(found));
  }
  // A script that puts its trace context there.
  std::string NoteTraceparent(const std::string& file) const {
    return absl::StrCat("printf %s \"$TRACEPARENT\" > \"", (folder_ / file).string(), "\"; ");
  }
  // What a process was told of its trace, by the span that it is part of.
  std::string Traceparent(const std::string& file) const { return test::FileText(folder_ / file); }
  static std::string Expected(const Span& span) {
    return absl::StrCat("00-", absl::BytesToHexString(span.trace_id()), "-",
                        absl::BytesToHexString(span.span_id()), "-01");
  }

  static uint16_t HttpPort(test::Process& process) {
    const std::string log = process.Output();
    const std::string listening = log.substr(log.find("server=listening"));
    const std::string address = test::FieldOf(listening.substr(0, listening.find('\n')), "http");
    int port = 0;
    CHECK(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port)) << address;
    return static_cast<uint16_t>(port);
  }
  // In nothing that a server shows to everybody.
  static void ExpectNoCanary(test::Process& process) {
    EXPECT_FALSE(absl::StrContains(process.Output(), kCanary)) << process.Output();
    for (const char* path : {"/metrics", "/status", "/readyz"}) {
      const std::string page = test::HttpGet(HttpPort(process), path).body;
      EXPECT_FALSE(page.empty()) << path;
      EXPECT_FALSE(absl::StrContains(page, kCanary)) << page;
    }
  }

  void ExpectNoCanaryInSpans() {
    for (const ReceivedSpan& span : collector_.WaitForSpans(0, absl::ZeroDuration())) {
      EXPECT_FALSE(absl::StrContains(span.span.SerializeAsString(), kCanary)) << span.span.name();
    }
  }

  const std::filesystem::path folder_ = test::NewFolder();
  test::OtlpCollector collector_;
  const std::string endpoint_ = absl::StrCat("--telemetry.otlp_endpoint=", collector_.address());
  // For its clock.
  crash::Disk disk_ = crash::Disk(test::NewFolder());
  Cluster cluster_{folder_, TracedCluster()};
  ClusterClient& client_ = cluster_.client();
};

TEST_F(TraceTest, CronTaskIsOneTreeFromTheFireToTheProcessAlsoWhenTheDirectorIsKilled) {
  std::ofstream(folder_ / "jobs.yaml") << "jobs:\n"
                                          "- name: once\n"
                                          "  schedule: '* * * * * *'\n"
                                          "  seconds: true\n"
                                          "  max_runs: 1\n"
                                          "  prompt: |\n"
                                          "    # "
                                       << kCanary
                                       << "\n"
                                          "    "
                                       << NoteTraceparent("seen") << cluster_.WaitForGate()
                                       << "\n"
                                          "  env: {SECRET: "
                                       << kCanary << "}\n";
  test::RunningServer scheduler(
      "services/scheduler/callboard-scheduler",
      {endpoint_, absl::StrCat("--director.address=", cluster_.director().address()),
       absl::StrCat("--data_dir=", (folder_ / "scheduler").string()),
       absl::StrCat("--jobs_file=", (folder_ / "jobs.yaml").string())});
  std::vector<SeenTask> tasks;
  ASSERT_TRUE(Eventually(kPatience, [&] {
    tasks = client_.FindAll();
    return !tasks.empty();
  }));
  const std::string id = tasks[0].task.queue_id();
  const std::string trace_id = client_.WaitFor(id, v1::Task::STATE_WORKING).trace_id();
  // All that is over: fire, both sides of the submit, the stay in line.
  WaitForTrace(trace_id, 4);
  cluster_.director().Kill();
  cluster_.director().Start();
  cluster_.Open();
  EXPECT_EQ(client_.WaitForEnd(id).state(), v1::Task::STATE_COMPLETED);

  const Trace trace = WaitForTrace(trace_id, 6);
  ASSERT_EQ(trace.spans().size(), 6u);
  EXPECT_THAT(trace.Below(), ElementsAre("callboard-scheduler scheduler.fire"));
  const Span& fire = trace.Get("scheduler.fire");
  EXPECT_EQ(TextOf(fire, "callboard.job.name"), "once");
  EXPECT_THAT(trace.Below(fire.span_id()),
              ElementsAre(absl::StrCat("callboard-scheduler ", kSubmit)));
  const Span& call = trace.Get(kSubmit, 0);
  EXPECT_EQ(call.kind(), Span::SPAN_KIND_CLIENT);
  EXPECT_THAT(trace.Below(call.span_id()),
              ElementsAre(absl::StrCat("callboard-director ", kSubmit)));
  const Span& submit = trace.Get(kSubmit, 1);
  EXPECT_EQ(submit.kind(), Span::SPAN_KIND_SERVER);
  EXPECT_THAT(trace.Below(submit.span_id()),
              ElementsAre("callboard-director queue.wait", "callboard-director dispatch"));
  const Span& wait = trace.Get("queue.wait");
  EXPECT_THAT(EventsOf(wait), ElementsAre("waiting", "pending"));
  // By the director that came after the one that began it.
  const Span& dispatch = trace.Get("dispatch");
  EXPECT_EQ(dispatch.start_time_unix_nano(), wait.end_time_unix_nano());
  EXPECT_EQ(TextOf(dispatch, "callboard.dispatch.outcome"), "accepted");
  EXPECT_EQ(TextOf(dispatch, "callboard.task.state"), "completed");
  EXPECT_EQ(TextOf(dispatch, "messaging.message.id"), id);
  EXPECT_THAT(EventsOf(dispatch), ElementsAre("accepted"));
  EXPECT_THAT(trace.Below(dispatch.span_id()), ElementsAre("callboard-agent agent.run"));
  const Span& run = trace.Get("agent.run");
  EXPECT_EQ(TextOf(run, "callboard.run.end"), "completed");
  EXPECT_EQ(Traceparent("seen"), Expected(run));
  ExpectNoCanaryInSpans();
  for (test::Process* process : {&cluster_.director().process(), &cluster_.agent(1).process(),
                                 &cluster_.agent(2).process(), &scheduler.process()}) {
    ExpectNoCanary(*process);
  }
  // The time that it took is shown with it.
  test::HttpConnection connection(HttpPort(cluster_.director().process()));
  connection.Send(
      "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: application/openmetrics-text\r\n\r\n");
  EXPECT_THAT(connection.ReadResponse(),
              testing::ContainsRegex(
                  absl::StrCat("\ncallboard_run_seconds_bucket.* # .trace_id=\"", trace_id, "\"")));
}

TEST_F(TraceTest, RetriedTaskHasASpanForEachStayInLineAndForEachDispatch) {
  v1::SubmitTaskRequest request = cluster_.Task(absl::StrCat(
      NoteTraceparent("run-$CALLBOARD_TASK_ID"), "case $CALLBOARD_TASK_ID in *-1) echo ", kCanary,
      " | tee /dev/stderr; exit 7;; esac"));
  request.add_retry_on("exit:7");
  const std::string id = client_.Submit(request);
  const std::string trace_id = client_.Get(id).trace_id();
  // The submit, the first stay in line, the dispatch and its run.
  WaitForTrace(trace_id, 4);
  cluster_.director().Kill();
  cluster_.director().Start();
  client_.Kick();
  const v1::Task task = client_.WaitForEnd(id);
  EXPECT_EQ(task.state(), v1::Task::STATE_COMPLETED);
  EXPECT_EQ(task.trace_id(), trace_id);

  const Trace trace = WaitForTrace(trace_id, 7);
  ASSERT_EQ(trace.spans().size(), 7u);
  EXPECT_THAT(trace.Below(), ElementsAre(absl::StrCat("callboard-director ", kSubmit)));
  EXPECT_THAT(trace.Below(trace.Get(kSubmit).span_id()),
              ElementsAre("callboard-director queue.wait", "callboard-director dispatch",
                          "callboard-director queue.wait", "callboard-director dispatch"));
  const Span& first = trace.Get("dispatch", 0);
  const Span& second = trace.Get("dispatch", 1);
  EXPECT_EQ(first.status().code(), Status::STATUS_CODE_ERROR);
  EXPECT_EQ(second.status().code(), Status::STATUS_CODE_UNSET);
  EXPECT_THAT(second.links(), IsEmpty());
  EXPECT_EQ(trace.Get("queue.wait", 0).end_time_unix_nano(), first.start_time_unix_nano());
  EXPECT_EQ(first.end_time_unix_nano(), trace.Get("queue.wait", 1).start_time_unix_nano());
  EXPECT_EQ(trace.Get("queue.wait", 1).end_time_unix_nano(), second.start_time_unix_nano());
  for (const size_t i : {0, 1}) {
    const Span& dispatch = trace.Get("dispatch", i);
    const Span& run = trace.Get("agent.run", i);
    EXPECT_EQ(run.parent_span_id(), dispatch.span_id());
    EXPECT_EQ(TextOf(run, "callboard.run.end"), i == 0 ? "failed" : "completed");
    EXPECT_EQ(Traceparent(absl::StrCat("run-", TextOf(run, "callboard.task.id"))), Expected(run));
  }
  ExpectNoCanaryInSpans();
  ExpectNoCanary(cluster_.director().process());
  ExpectNoCanary(cluster_.agent(1).process());
  ExpectNoCanary(cluster_.agent(2).process());
}

TEST_F(TraceTest, DispatchLongAfterTheOneBeforeIsATraceOfItsOwnWithALink) {
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

  // But for the second dispatch and its run.
  const Trace trace = WaitForTrace(trace_id, 5);
  EXPECT_EQ(trace.spans().size(), 5u);
  const Span& submit = trace.Get(kSubmit);
  Span dispatch;
  ASSERT_TRUE(Eventually(kPatience, [&] {
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
  EXPECT_THAT(late.Below(dispatch.span_id()), ElementsAre("callboard-agent agent.run"));
}

}  // namespace
}  // namespace callboard::e2e
