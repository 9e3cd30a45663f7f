// A director and agents as processes, and an agent in this process. All clients use the public API
// only, so the programs may be those of another version.
#ifndef CALLBOARD_TESTS_BENCHMARKS_LIVE_CLUSTER_H_
#define CALLBOARD_TESTS_BENCHMARKS_LIVE_CLUSTER_H_

#include <grpcpp/server.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "callboard/v1/agent.grpc.pb.h"
#include "callboard/v1/queue.grpc.pb.h"
#include "libs/base/mutex.h"
#include "libs/testing/running_server.h"
#include "tests/benchmarks/calls.h"

namespace callboard::benchmarks {

// Returns the folder of this process below the working directory, which is on disk: /tmp may be in
// memory. The caller removes it in the end.
const std::filesystem::path& WorkFolder();
// Creates a folder in WorkFolder().
std::filesystem::path NewFolder();

// The path of a program below the folder `programs`, which has the layout of bazel-bin.
inline constexpr char kDirectorProgram[] = "services/director/callboard-director";
inline constexpr char kAgentProgram[] = "services/agent/callboard-agent";

// A director, on a new store unless one is given, and agents that run `noop` tasks.
class LiveCluster {
 public:
  struct Options {
    // Has kDirectorProgram and kAgentProgram. Relative to the working directory.
    std::filesystem::path programs = ".";
    int agents = 0;
    int slots = 1;
    // Flags of the director.
    std::vector<std::string> flags = {};
    // Flags of the director and the agents.
    std::vector<std::string> common_flags = {};
    // The director's data folder; it is not removed.
    std::filesystem::path store = {};
  };
  using SubmitStream = Streamer<v1::SubmitTasksRequest, v1::SubmitTasksResponse>;

  // Returns once the director knows every slot.
  explicit LiveCluster(const Options& options);
  ~LiveCluster();

  v1::QueueStatus Status();
  // Submits a task of kPayloadBytes.
  Callers::Call Submit();
  // Submits a task and cancels it.
  Callers::Call SubmitAndCancel();
  std::unique_ptr<SubmitStream> Stream(int window, int batch, Meter& meter);
  // Submits this number of tasks with request ids and prompts that hardly compress.
  void Fill(uint64_t tasks);

  // Processor time of the director and the agents so far.
  double CpuSeconds();
  // Spans of the director and the agents that did not reach the collector so far.
  double SpansDropped();
  // Memory of the director: its share of the pages that it maps.
  double DirectorPssMib();

 private:
  void StartAgent(const std::string& name, const Options& options);
  std::unique_ptr<SubmitStream> Open(SubmitStream::Options options, Meter& meter);

  const std::filesystem::path folder_;
  std::unique_ptr<test::RunningServer> director_;
  std::vector<std::unique_ptr<test::RunningServer>> agents_;
  std::unique_ptr<v1::QueueService::Stub> stub_;
};

// An agent in this process, with one slot, that accepts and completes each task when it starts. It
// opens Sessions as an agent without any feature, as a director of any version allows.
class InstantAgent final : private v1::AgentService::Service {
 public:
  InstantAgent();
  ~InstantAgent() override;

  // host:port
  std::string address() const;
  // Waits for the next start.
  void WaitForStart();

 private:
  using Stream = grpc::ServerReaderWriter<v1::SessionResponse, v1::SessionRequest>;

  grpc::Status Session(grpc::ServerContext* context, Stream* stream) override;

  int port_ = 0;
  base::Mutex mutex_;
  base::CondVar changed_;
  int starts_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace callboard::benchmarks

#endif  // CALLBOARD_TESTS_BENCHMARKS_LIVE_CLUSTER_H_
