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

// A server in one life after the other. Its folder outlives it, and so does the address at which
// others reach it: everybody goes through its network.
class Member {
 public:
  // `command` starts it, on a free port.
  explicit Member(std::vector<std::string> command) : command_(std::move(command)) {}

  // Begins its next life. Returns once it listens; false when it ended before. REQUIRES: it is not
  // alive.
  bool TryStart();
  void Start();
  bool is_alive();

  // As a machine that is gone: nobody is told.
  void Kill();
  // Waits for the end that is near; returns as Process does.
  int WaitForEnd();
  // Ends it as SIGTERM does.
  int Terminate();
  // Nothing of it goes on, and its sockets stay open.
  void Freeze();
  void Thaw();

  const std::string& address() const { return network_.address(); }
  test::TcpProxy& network() { return network_; }
  // Of the current or last life.
  test::Process& process() { return *process_; }
  uint16_t http_port() const { return http_port_; }
  // All that it has logged, in all of its lives.
  std::string log() { return earlier_log_ + process_->Output(); }
  // For flags that need to know who it is.
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
  // NAME=value, of all processes.
  std::vector<std::string> environment = {};
  // A command that runs an agent's, which follows it.
  std::vector<std::string> agent_wrapper = {};
  // The director is told where its agents are and does not wait for them to announce themselves.
  bool are_listed = false;
  // Where the director's data is; a disk without faults when null. Outlives the cluster.
  crash::Disk* disk = nullptr;
};

// A lease that does not end while a test lasts.
inline const std::vector<std::string>& LongLease() {
  static const std::vector<std::string>& flags = *new std::vector<std::string>{
      "--lease.heartbeat=15s", "--lease.self_fence=50s", "--lease.redispatch_after=75s"};
  return flags;
}

// The lease of other tests: an agent kills its tasks three seconds after the last heartbeat that
// was acknowledged, and the director gives them to another one eight seconds after it. The shortest
// for which a busy machine beats in time.
inline constexpr int kSelfFenceSeconds = 3;
inline constexpr int kRedispatchSeconds = 8;

// A director and agents that run scripts, named agent-1, agent-2 …; ready for tasks once it is
// constructed.
class Cluster {
 public:
  // Works in `folder`.
  Cluster(const std::filesystem::path& folder, const ClusterOptions& options);

  Member& director() { return director_; }
  // The i-th, from 1 on.
  Member& agent(size_t i) { return *agents_[i - 1]; }
  size_t agents() const { return agents_.size(); }
  ClusterClient& client() { return client_; }
  const RunRecord& record() const { return record_; }
  std::filesystem::path AgentFolder(size_t i) const;

  // A submit of a task that records its runs, does `work`, and may run again when its agent is
  // lost.
  v1::SubmitTaskRequest Task(const std::string& work);
  // A script that waits for Open().
  std::string WaitForGate() const;
  void Open() const;
  // Waits until that dispatch of the task runs.
  RunLine WaitForRun(const std::string& queue_id, uint64_t dispatch);

  // Whether every task ends, with backoffs and cordons cut short.
  bool AllEndWithin(absl::Duration patience);

  struct Verdict {
    crash::Verdict submits;
    RunVerdict runs;

    bool ok() const { return submits.ok() && runs.ok(); }
    std::string ToString() const;
  };
  // Of everything that happened. REQUIRES: nothing happens any more.
  Verdict Check();

 private:
  void AddAgent(size_t i, const ClusterOptions& options);

  const std::filesystem::path folder_;
  Member director_;
  std::vector<std::unique_ptr<Member>> agents_;
  ClusterClient client_;
  const RunRecord record_;
  uint64_t requests_ = 0;
};

}  // namespace callboard::e2e

#endif  // CALLBOARD_TESTS_E2E_CLUSTER_H_
