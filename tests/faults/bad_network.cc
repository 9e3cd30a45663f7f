#include "tests/faults/bad_network.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>

#include "absl/strings/str_cat.h"
#include "libs/base/check.h"
#include "libs/testing/files.h"
#include "libs/testing/running_server.h"
#include "libs/testing/tcp_proxy.h"
#include "tests/crash/director_process.h"
#include "tests/crash/load.h"
#include "tests/crash/queue_client.h"
#include "tests/faults/shell_agent.h"
#include "tests/faults/steady_load.h"

namespace callboard::faults {
namespace {

using crash::FoundTask;
using crash::QueueClient;
using test::RunningServer;
using test::TcpProxy;
using State = crash::FoundTask::State;

bool HasEnded(const FoundTask& task) {
  return task.state != State::kPending && task.state != State::kRunning;
}

// A director that reaches its agent only over a network that the test controls.
struct Cluster {
  explicit Cluster(std::vector<std::string> director_flags,
                   const std::vector<std::string>& agent_flags)
      : agent(kAgent, agent_flags), network(agent.grpc_address()) {
    director_flags.push_back("--fleet.agents=" + network.address());
    director.emplace(test::NewFolder(), director_flags);
    CHECK(director->is_listening()) << director->process().Output();
  }

  RunningServer agent;
  TcpProxy network;
  std::optional<crash::DirectorProcess> director;
};

}  // namespace

std::string NetworkReport::ToString() const {
  return absl::StrCat(check_result.ToString(), "; ", completed, " completed, ", cancelled,
                      " cancelled, ", again, " dispatched again");
}

NetworkReport RunOver(const BadNetwork& network, uint64_t acknowledged) {
  // The agent does not register: the director reaches it only over the bad network.
  Cluster cluster({"--queue.max_size=0"},
                  {"--runner.kind=noop", "--agent.name=agent-1", "--lanes=default=4",
                   absl::StrCat("--director.address=", kNowhere)});
  TcpProxy to_director(cluster.director->address());
  for (TcpProxy* const proxy : {&cluster.network, &to_director}) {
    proxy->SetDelay(network.delay);
    proxy->CutEveryNthPiece(network.cut_every);
  }
  SteadyLoad load({.clients = 8}, to_director.address());
  load.AwaitAcknowledged(acknowledged);
  const crash::History history = load.Stop();
  for (TcpProxy* const proxy : {&cluster.network, &to_director}) {
    proxy->SetDelay(absl::ZeroDuration());
    proxy->CutEveryNthPiece(0);
  }
  QueueClient client(cluster.director->address());
  std::vector<FoundTask> found = *client.FindAll();
  while (!std::all_of(found.begin(), found.end(), HasEnded)) found = *client.FindAll();
  NetworkReport report;
  report.check_result = crash::CheckHistory(history, found, {.runs = true});
  for (const FoundTask& task : found) {
    report.completed += task.state == State::kCompleted ? 1 : 0;
    report.cancelled += task.state == State::kCancelled ? 1 : 0;
    report.again += task.dispatches > 1 ? 1 : 0;
  }
  return report;
}

FlapReport RunOverFlappingLink(int flaps, absl::Duration up, absl::Duration down,
                               const std::vector<std::string>& lease) {
  const std::filesystem::path folder = test::NewFolder();
  Cluster cluster(lease, ShellAgentFlags(kNowhere));
  QueueClient client(cluster.director->address());
  const std::string id = client.Submit("run", WaitForGate(folder / "gate"))->queue_id;
  while (client.Get(id)->state != State::kRunning) {
  }
  test::Process& director = cluster.director->process();
  for (int i = 0; i < flaps; ++i) {
    CHECK(!director.WaitForExit(up).has_value()) << director.Output();
    cluster.network.Accept(false);
    cluster.network.Cut();
    CHECK(!director.WaitForExit(down).has_value()) << director.Output();
    cluster.network.Accept(true);
  }
  std::ofstream(folder / "gate") << "open";
  FoundTask task = *client.Get(id);
  while (!HasEnded(task)) task = *client.Get(id);
  return {.dispatches = task.dispatches, .completed = task.state == State::kCompleted};
}

}  // namespace callboard::faults
