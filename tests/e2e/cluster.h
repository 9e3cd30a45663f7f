#ifndef CALLBOARD_TESTS_E2E_CLUSTER_H_
#define CALLBOARD_TESTS_E2E_CLUSTER_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "libs/testing/process.h"
#include "libs/testing/tcp_proxy.h"
#include "tests/crash/disk.h"
#include "tests/crash/history_checker.h"
#include "tests/e2e/cluster_client.h"
#include "tests/e2e/run_checker.h"
#include "tests/e2e/run_record.h"

namespace callboard::e2e {

// A server that can be killed and restarted. Its folder and the address at which others reach it
// remain: all connections go through its network.
class ServerProcess {
 public:
  // `command` starts the server on a free port.
  explicit ServerProcess(std::vector<std::string> command) : command_(std::move(command)) {}

  // Starts the process. Returns true once it listens, and false if it ended before. REQUIRES: it is
  // not running.
  bool TryStart();
  void Start();
  bool is_alive();

  // Kills the process without notice, as a machine failure does.
  void Kill();
  // Waits until the process ends; returns the exit code as Process does.
  int WaitForEnd();
  // Sends SIGTERM and returns the exit code.
  int Terminate();
  // Stops all threads of the process; its sockets stay open.
  void Freeze();
  void Thaw();

  const std::string& address() const { return network_.address(); }
  test::TcpProxy& network() { return network_; }
  // The current or last process.
  test::Process& process() { return *process_; }
  uint16_t http_port() const { return http_port_; }
  // Returns the log of all processes of this server.
  std::string log() { return earlier_log_ + process_->Output(); }
  // Adds a flag for later starts, for flags that depend on the address.
  void AddFlag(const std::string& flag) { command_.push_back(flag); }

 private:
  std::vector<std::string> command_;
  test::TcpProxy network_ = test::TcpProxy("");
  std::optional<test::Process> process_;
  uint16_t http_port_ = 0;
  std::string earlier_log_;
};

struct ClusterOptions {
  size_t agents = 2;
  std::vector<std::string> director_flags = {};
  std::vector<std::string> agent_flags = {};
  // Environment of all processes, each as NAME=value.
  std::vector<std::string> environment = {};
  // A command prefix that runs the agents.
  std::vector<std::string> agent_wrapper = {};
  // The director gets the addresses of its agents as flags instead of waiting for them to register.
  bool are_listed = false;
  // The disk with the director's data; a disk without faults if null. Must outlive the cluster.
  crash::Disk* disk = nullptr;
};

// A lease that does not end during a test.
inline const std::vector<std::string>& LongLease() {
  static const std::vector<std::string>& flags = *new std::vector<std::string>{
      "--lease.heartbeat=15s", "--lease.self_fence=50s", "--lease.redispatch_after=75s"};
  return flags;
}

// The lease of other tests: an agent kills its tasks three seconds after the last acknowledged
// heartbeat, and the director dispatches them again eight seconds after it. The shortest lease for
// which a busy machine sends heartbeats in time.
inline constexpr int kSelfFenceSeconds = 3;
inline constexpr int kRedispatchSeconds = 8;

// A director and agents that run scripts, named agent-1, agent-2, and so on; ready for tasks once
// it is constructed.
class Cluster {
 public:
  // Works in `folder`.
  Cluster(const std::filesystem::path& folder, const ClusterOptions& options);

  ServerProcess& director() { return director_; }
  // Returns agent `i`, counted from 1.
  ServerProcess& agent(size_t i) { return *agents_[i - 1]; }
  size_t agents() const { return agents_.size(); }
  ClusterClient& client() { return client_; }
  const RunRecord& record() const { return record_; }
  std::filesystem::path AgentFolder(size_t i) const;

  // Returns a submit of a task that records its runs, does `work`, and may run again if its agent
  // is lost.
  v1::SubmitTaskRequest Task(const std::string& work);
  // Returns a script that waits for Open().
  std::string WaitForGate() const;
  void Open() const;
  // Waits until that dispatch of the task runs.
  RunLine WaitForRun(const std::string& queue_id, uint64_t dispatch);

  // Returns whether every task ends, with backoffs and cordons cut short.
  bool AllEndWithin(absl::Duration timeout);

  struct CheckResult {
    crash::CheckResult submits;
    RunCheckResult runs;

    bool ok() const { return submits.ok() && runs.ok(); }
    std::string ToString() const;
  };
  // Checks everything that happened. REQUIRES: all tasks have ended.
  CheckResult Check();

 private:
  void AddAgent(size_t i, const ClusterOptions& options);

  const std::filesystem::path folder_;
  ServerProcess director_;
  std::vector<std::unique_ptr<ServerProcess>> agents_;
  ClusterClient client_;
  const RunRecord record_;
  uint64_t requests_ = 0;
};

}  // namespace callboard::e2e

#endif  // CALLBOARD_TESTS_E2E_CLUSTER_H_
