#include "tests/benchmarks/live_cluster.h"

#include <unistd.h>

#include <fstream>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "libs/base/check.h"
#include "libs/testing/http_client.h"
#include "libs/testing/process.h"
#include "tests/benchmarks/raw_grpc.h"

namespace callboard::benchmarks {
namespace {

std::vector<std::string> DirectorFlags(const LiveCluster::Options& options,
                                       const std::filesystem::path& folder) {
  std::vector<std::string> flags = options.flags;
  flags.insert(flags.end(), options.common_flags.begin(), options.common_flags.end());
  const std::filesystem::path store = options.store.empty() ? folder / "director" : options.store;
  flags.push_back(absl::StrCat("--data_dir=", store.string()));
  return flags;
}

double DroppedBy(const test::RunningServer& server) {
  const std::string page = test::HttpGet(server.http_port(), "/metrics").body;
  for (const absl::string_view line : absl::StrSplit(page, '\n')) {
    double dropped = 0;
    absl::string_view value = line;
    if (absl::ConsumePrefix(&value, "callboard_spans_dropped_total ")) {
      CHECK(absl::SimpleAtod(value, &dropped)) << line;
      return dropped;
    }
  }
  CHECK(false) << page;
  return 0;
}

}  // namespace

std::filesystem::path NewFolder() {
  static int count = 0;
  const std::filesystem::path path =
      std::filesystem::absolute(absl::StrCat("cluster-", getpid(), "-", ++count));
  std::filesystem::create_directories(path);
  return path;
}

v1::SubmitTaskRequest NewTask() {
  v1::SubmitTaskRequest request;
  request.set_prompt(std::string(kPayloadBytes, 'x'));
  return request;
}

LiveCluster::LiveCluster(const Options& options)
    : folder_(NewFolder()),
      director_("services/director/callboard-director", DirectorFlags(options, folder_)),
      stub_(v1::QueueService::NewStub(director_.NewChannel())) {
  std::vector<std::string> names;
  for (int i = 1; i <= options.agents; ++i) names.push_back(absl::StrCat("agent-", i));
  if (options.is_shared) {
    StartAgents("tests/benchmarks/agents", absl::StrJoin(names, ","), options);
  } else {
    for (const std::string& name : names)
      StartAgents("services/agent/callboard-agent", name, options);
  }
  while (Status().max_in_flight() < static_cast<uint32_t>(options.agents * options.slots)) {
    std::this_thread::yield();
  }
}

void LiveCluster::StartAgents(const std::string& binary, const std::string& names,
                              const Options& options) {
  std::vector<std::string> flags = {absl::StrCat("--director.address=", director_.grpc_address()),
                                    absl::StrCat("--agent.name=", names), "--runner.kind=noop",
                                    absl::StrCat("--lanes=default=", options.slots),
                                    absl::StrCat("--data_dir=", (folder_ / names).string())};
  flags.insert(flags.end(), options.common_flags.begin(), options.common_flags.end());
  agents_.push_back(std::make_unique<test::RunningServer>(binary, flags));
}

LiveCluster::~LiveCluster() {
  agents_.clear();
  std::filesystem::remove_all(folder_);
}

v1::QueueStatus LiveCluster::Status() {
  grpc::ClientContext context;
  v1::QueueStatus status;
  const grpc::Status got = stub_->GetQueueStatus(&context, {}, &status);
  CHECK(got.ok()) << got.error_message();
  return status;
}

Callers::Call LiveCluster::Submit() {
  return UnaryCall<v1::SubmitTaskRequest, v1::SubmitTaskResponse>(
      NewTask(), [this](auto&&... arguments) {
        stub_->async()->SubmitTask(std::forward<decltype(arguments)>(arguments)...);
      });
}

Callers::Call LiveCluster::SubmitAndCancel() {
  struct Flight {
    grpc::ClientContext submitting;
    grpc::ClientContext cancelling;
    v1::SubmitTaskResponse submitted;
    v1::CancelTaskRequest cancel;
    v1::CancelTaskResponse cancelled;
  };
  return [this, request = std::make_shared<const v1::SubmitTaskRequest>(NewTask())](
             const std::function<void()>& answered) {
    const auto flight = std::make_shared<Flight>();
    const auto then = [this, flight, answered](const grpc::Status& status) {
      CHECK(status.ok()) << status.error_message();
      flight->cancel.set_queue_id(flight->submitted.queue_id());
      stub_->async()->CancelTask(&flight->cancelling, &flight->cancel, &flight->cancelled,
                                 [flight, answered](const grpc::Status& cancelled) {
                                   CHECK(cancelled.ok()) << cancelled.error_message();
                                   answered();
                                 });
    };
    stub_->async()->SubmitTask(&flight->submitting, request.get(), &flight->submitted, then);
  };
}

std::unique_ptr<LiveCluster::SubmitStream> LiveCluster::Stream(int window, int batch,
                                                               Meter& meter) {
  const auto open = [this](auto... arguments) { stub_->async()->SubmitTasks(arguments...); };
  const auto fill = [](v1::SubmitTasksRequest& request, int items) {
    for (int i = 0; i < items; ++i) *request.add_items() = NewTask();
  };
  const auto answered = [](const v1::SubmitTasksResponse& response) {
    for (const auto& item : response.items()) {
      CHECK(item.has_accepted()) << item.refused().message();
    }
    return response.items_size();
  };
  return std::make_unique<SubmitStream>(
      open,
      SubmitStream::Options{.window = window, .batch = batch, .fill = fill, .answered = answered},
      meter);
}

double LiveCluster::CpuSeconds() {
  absl::Duration used = test::ProcessorTimeOf(director_.process().pid());
  for (const auto& agent : agents_) used += test::ProcessorTimeOf(agent->process().pid());
  return absl::ToDoubleSeconds(used);
}

double LiveCluster::SpansDropped() {
  double dropped = DroppedBy(director_);
  for (const auto& agent : agents_) dropped += DroppedBy(*agent);
  return dropped;
}

double LiveCluster::DirectorPssMib() {
  const pid_t pid = director_.process().pid();
  std::ifstream file(absl::StrCat("/proc/", pid, "/smaps_rollup"));
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("Pss:")) continue;
    const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    double kib = 0;
    CHECK(absl::SimpleAtod(words.at(1), &kib));
    return kib / 1024;
  }
  CHECK(false) << "no Pss of " << pid;
  return 0;
}

}  // namespace callboard::benchmarks
