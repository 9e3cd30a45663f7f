#ifndef CALLBOARD_TESTS_BENCHMARKS_LIVE_CLUSTER_H_
#define CALLBOARD_TESTS_BENCHMARKS_LIVE_CLUSTER_H_

#include <sys/types.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "callboard/v1/queue.grpc.pb.h"
#include "libs/testing/running_server.h"
#include "tests/benchmarks/calls.h"

namespace callboard::benchmarks {

// Creates a folder below the working directory, which is on disk: /tmp may be in memory. The caller
// removes it.
std::filesystem::path NewFolder();

// Returns a task of kPayloadBytes.
v1::SubmitTaskRequest NewTask();

// A director, on a new store unless one is given, and agents that run `noop` tasks.
class LiveCluster {
 public:
  struct Options {
    int agents = 0;
    int slots = 1;
    // Whether agents share a process, as in `callboard dev`.
    bool is_shared = false;
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

  v1::QueueService::Stub& stub() { return *stub_; }
  v1::QueueStatus Status();
  // Submits a task.
  Callers::Call Submit();
  // Submits a task and cancels it.
  Callers::Call SubmitAndCancel();
  std::unique_ptr<SubmitStream> Stream(int window, int batch, Meter& meter);

  // Processor time of the director and the agents so far.
  double CpuSeconds();
  // Spans of the director and the agents that did not reach the collector so far.
  double SpansDropped();
  // Memory of the director: its share of the pages that it maps.
  double DirectorPssMib();

 private:
  // Starts one process of that binary.
  void StartAgents(const std::string& binary, const std::string& names, const Options& options);

  const std::filesystem::path folder_;
  test::RunningServer director_;
  std::vector<std::unique_ptr<test::RunningServer>> agents_;
  std::unique_ptr<v1::QueueService::Stub> stub_;
};

}  // namespace callboard::benchmarks

#endif  // CALLBOARD_TESTS_BENCHMARKS_LIVE_CLUSTER_H_
