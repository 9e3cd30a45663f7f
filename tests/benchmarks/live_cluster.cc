#include "tests/benchmarks/live_cluster.h"

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <unistd.h>

#include <fstream>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "libs/base/check.h"
#include "libs/system/system.h"
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

v1::SubmitTaskRequest NewTask() {
  v1::SubmitTaskRequest request;
  request.set_prompt(std::string(kPayloadBytes, 'x'));
  return request;
}

// Returns a text of kPayloadBytes that hardly compresses.
std::string RandomText(ports::Random& random) {
  std::string text;
  while (text.size() < kPayloadBytes) absl::StrAppend(&text, absl::Hex(random.Next()), " ");
  text.resize(kPayloadBytes);
  return text;
}

}  // namespace

const std::filesystem::path& WorkFolder() {
  static const auto* const folder =
      new std::filesystem::path(std::filesystem::absolute(absl::StrCat("cluster-", getpid())));
  return *folder;
}

std::filesystem::path NewFolder() {
  static int count = 0;
  std::filesystem::path path = WorkFolder() / absl::StrCat(++count);
  std::filesystem::create_directories(path);
  return path;
}

LiveCluster::LiveCluster(const Options& options)
    : folder_(NewFolder()),
      director_(std::make_unique<test::RunningServer>(
          (options.programs / kDirectorProgram).string(), DirectorFlags(options, folder_))),
      stub_(v1::QueueService::NewStub(director_->NewChannel())) {
  for (int i = 1; i <= options.agents; ++i) StartAgent(absl::StrCat("agent-", i), options);
  while (Status().max_in_flight() < static_cast<uint32_t>(options.agents * options.slots)) {
    std::this_thread::yield();
  }
}

void LiveCluster::StartAgent(const std::string& name, const Options& options) {
  std::vector<std::string> flags = {absl::StrCat("--director.address=", director_->grpc_address()),
                                    absl::StrCat("--agent.name=", name), "--runner.kind=noop",
                                    absl::StrCat("--lanes=default=", options.slots),
                                    absl::StrCat("--data_dir=", (folder_ / name).string())};
  flags.insert(flags.end(), options.common_flags.begin(), options.common_flags.end());
  agents_.push_back(
      std::make_unique<test::RunningServer>((options.programs / kAgentProgram).string(), flags));
}

LiveCluster::~LiveCluster() {
  agents_.clear();
  // While it runs, files appear and disappear.
  director_.reset();
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

std::unique_ptr<LiveCluster::SubmitStream> LiveCluster::Open(SubmitStream::Options options,
                                                             Meter& meter) {
  options.answered = [](const v1::SubmitTasksResponse& response) {
    for (const auto& item : response.items()) {
      CHECK(item.has_accepted()) << item.refused().message();
    }
    return response.items_size();
  };
  const auto open = [this](auto... arguments) { stub_->async()->SubmitTasks(arguments...); };
  return std::make_unique<SubmitStream>(open, std::move(options), meter);
}

std::unique_ptr<LiveCluster::SubmitStream> LiveCluster::Stream(int window, int batch,
                                                               Meter& meter) {
  const auto fill = [](v1::SubmitTasksRequest& request, int items) {
    for (int i = 0; i < items; ++i) *request.add_items() = NewTask();
  };
  return Open({.window = window, .batch = batch, .fill = fill}, meter);
}

void LiveCluster::Fill(uint64_t tasks) {
  system::SystemRandom random;
  uint64_t sent = 0;
  const auto fill = [&](v1::SubmitTasksRequest& request, int items) {
    for (int i = 0; i < items; ++i) {
      v1::SubmitTaskRequest& task = *request.add_items();
      task.set_prompt(RandomText(random));
      task.set_request_id(absl::StrCat("request-", ++sent));
    }
  };
  Meter meter;
  const auto stream = Open({.window = 1024, .batch = 256, .limit = tasks, .fill = fill}, meter);
  while (meter.count() < tasks) Wait(absl::Milliseconds(1));
}

double LiveCluster::CpuSeconds() {
  absl::Duration used = test::ProcessorTimeOf(director_->process().pid());
  for (const auto& agent : agents_) used += test::ProcessorTimeOf(agent->process().pid());
  return absl::ToDoubleSeconds(used);
}

double LiveCluster::SpansDropped() {
  double dropped = DroppedBy(*director_);
  for (const auto& agent : agents_) dropped += DroppedBy(*agent);
  return dropped;
}

double LiveCluster::DirectorPssMib() {
  const pid_t pid = director_->process().pid();
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

InstantAgent::InstantAgent() {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
  builder.RegisterService(static_cast<v1::AgentService::Service*>(this));
  server_ = builder.BuildAndStart();
  CHECK(server_ != nullptr);
}

InstantAgent::~InstantAgent() { server_->Shutdown(absl::ToChronoTime(absl::InfinitePast())); }

std::string InstantAgent::address() const { return absl::StrCat("127.0.0.1:", port_); }

void InstantAgent::WaitForStart() {
  base::MutexLock lock(mutex_);
  while (starts_ == 0) changed_.Wait(mutex_);
  --starts_;
}

grpc::Status InstantAgent::Session(grpc::ServerContext*, Stream* stream) {
  v1::SessionResponse hello;
  v1::SessionResponse::Opened& opened = *hello.add_items()->mutable_opened();
  opened.set_name("agent-1");
  opened.set_instance_id("agent-1/1");
  opened.set_agent_url(absl::StrCat("grpc://", address()));
  opened.mutable_agent_time()->set_seconds(1);
  v1::Lane& lane = *opened.add_lanes();
  lane.set_name("default");
  lane.set_slots(1);

  bool is_open = false;
  v1::SessionRequest request;
  while (stream->Read(&request)) {
    if (!std::exchange(is_open, true)) stream->Write(hello);
    for (const v1::SessionRequest::Item& item : request.items()) {
      if (!item.has_start()) continue;
      {
        base::MutexLock lock(mutex_);
        ++starts_;
        changed_.NotifyAll();
      }
      const v1::FenceToken& token = item.start().token();
      v1::SessionResponse answer;
      *answer.add_items()->mutable_start_answer()->mutable_token() = token;
      v1::SessionResponse::Result& result = *answer.add_items()->mutable_result();
      *result.mutable_token() = token;
      result.mutable_run()->set_state(v1::AgentRun::STATE_COMPLETED);
      result.mutable_run()->set_exit_code(0);
      stream->Write(answer);
    }
  }
  return grpc::Status::OK;
}

}  // namespace callboard::benchmarks
