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

// A new folder below the working directory, where the disk is: /tmp may be memory. Whoever asks for
// it removes it.
std::filesystem::path NewFolder();

// A task of kPayloadBytes.
v1::SubmitTaskRequest NewTask();

// A director, on a new store unless there is one, and agents of its that run `noop` tasks.
class LiveCluster {
 public:
  struct Shape {
    int agents = 0;
    int slots = 1;
    // Whether agents share a process, as those of `callboard dev` do.
    bool is_shared = false;
    std::vector<std::string> flags = {};
    // Of the director and of the agents.
    std::vector<std::string> common_flags = {};
    // The director's data folder; stays as it is left.
    std::filesystem::path store = {};
  };
  using SubmitStream = Streamer<v1::SubmitTasksRequest, v1::SubmitTasksResponse>;

  // Returns once every slot is known.
  explicit LiveCluster(const Shape& shape);
  ~LiveCluster();

  v1::QueueService::Stub& stub() { return *stub_; }
  v1::QueueStatus Status();
  // Submits a task.
  Callers::Call Submit();
  // Submits a task and cancels it.
  Callers::Call SubmitAndCancel();
  std::unique_ptr<SubmitStream> Stream(int window, int batch, Meter& meter);

  // Spent so far by the director and the agents.
  double CpuSeconds();
  // Spans that did not get to the collector so far, of the director and the agents.
  double SpansDropped();
  // What the director has in memory: its share of the pages it maps.
  double DirectorPssMib();

 private:
  // One process of that binary.
  void StartAgents(const std::string& binary, const std::string& names, const Shape& shape);

  const std::filesystem::path folder_;
  test::RunningServer director_;
  std::vector<std::unique_ptr<test::RunningServer>> agents_;
  std::unique_ptr<v1::QueueService::Stub> stub_;
};

}  // namespace callboard::benchmarks

#endif  // CALLBOARD_TESTS_BENCHMARKS_LIVE_CLUSTER_H_
