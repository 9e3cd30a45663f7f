// Faults that last for a minute or more: `tests/run.sh soak`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/testing/files.h"
#include "libs/testing/http_client.h"
#include "libs/testing/process.h"
#include "libs/testing/running_server.h"
#include "libs/testing/tcp_proxy.h"
#include "tests/crash/director_process.h"
#include "tests/crash/disk.h"
#include "tests/crash/history_checker.h"
#include "tests/crash/load.h"
#include "tests/crash/queue_client.h"
#include "tests/faults/bad_network.h"
#include "tests/faults/http2_bytes.h"
#include "tests/faults/restart_loop.h"
#include "tests/faults/shell_agent.h"
#include "tests/faults/steady_load.h"

namespace callboard::faults {
namespace {

using crash::Call;
using crash::DirectorProcess;
using crash::FoundTask;
using crash::QueueClient;
using test::HttpConnection;
using test::TcpProxy;
using State = crash::FoundTask::State;

FoundTask WaitForEnd(QueueClient& client, const std::string& queue_id) {
  while (true) {
    FoundTask task = *client.Get(queue_id);
    if (task.state != State::kPending && task.state != State::kRunning) return task;
  }
}

void WaitUntilItRuns(QueueClient& client, const std::string& queue_id) {
  while (client.Get(queue_id)->state != State::kRunning) {
  }
}

TEST(SoakTest, KillsForAMinuteLoseAndDuplicateNothing) {
  const RestartReport report =
      KillRepeatedly(test::NewFolder(), /*kills=*/200, absl::Milliseconds(300));
  EXPECT_TRUE(report.ok()) << report.ToString();
  EXPECT_EQ(report.kills, 200u);
  std::cout << report.ToString() << "\n";
}

TEST(SoakTest, FlappingLinkForTwoMinutesDoesNotEndARun) {
  const FlapReport report = RunOverFlappingLink(/*flaps=*/30, absl::Seconds(2), absl::Seconds(2),
                                                /*lease=*/{});
  EXPECT_TRUE(report.completed);
  EXPECT_EQ(report.dispatches, 1u);
}

TEST(SoakTest, SlowCuttingNetworkLosesAndDuplicatesNothing) {
  const NetworkReport report =
      RunOver({.delay = absl::Milliseconds(250), .cut_every = 100}, /*acknowledged=*/500);
  EXPECT_TRUE(report.check_result.ok()) << report.ToString();
  EXPECT_GT(report.completed, 0u);
  std::cout << report.ToString() << "\n";
}

// The heartbeats of the agent get a fiftieth of a processor.
TEST(SoakTest, AgentOnABusyMachineKeepsItsLeases) {
  std::atomic<bool> done = false;
  std::vector<std::thread> burners;
  const std::filesystem::path folder = test::NewFolder();
  DirectorProcess director(test::NewFolder(), ShortLease());
  std::vector<std::string> command = {"/usr/bin/nice", "-n", "19"};
  for (const std::string& word : test::ServerCommand(kAgent, ShellAgentFlags(director.address()))) {
    command.push_back(word);
  }
  test::Process agent(command);
  QueueClient client(director.address());
  const std::string id = client.Submit("run", WaitForGate(folder / "gate"))->queue_id;
  WaitUntilItRuns(client, id);
  for (unsigned i = 0; i < 2 * std::thread::hardware_concurrency(); ++i) {
    burners.emplace_back([&done] {
      while (!done) {
      }
    });
  }
  // Ten times the self-fence time of the agent.
  EXPECT_FALSE(agent.WaitForExit(absl::Seconds(30)).has_value());
  EXPECT_EQ(client.Get(id)->state, State::kRunning);
  done = true;
  for (std::thread& burner : burners) burner.join();
  std::ofstream(folder / "gate") << "open";
  const FoundTask task = WaitForEnd(client, id);
  EXPECT_EQ(task.state, State::kCompleted);
  EXPECT_EQ(task.dispatches, 1u);
}

TEST(SoakTest, SlowDiskEndsNoRunAndLosesNothing) {
  const std::filesystem::path folder = test::NewFolder();
  crash::Disk disk(test::NewFolder());
  std::vector<std::string> flags = ShortLease();
  flags.push_back("--queue.max_size=0");
  DirectorProcess director(disk, flags);
  test::RunningServer agent(kAgent, ShellAgentFlags(director.address()));
  QueueClient client(director.address());
  const std::string gate = WaitForGate(folder / "gate");
  const std::string id = client.Submit("run", gate)->queue_id;
  WaitUntilItRuns(client, id);
  disk.control().sync_delay_ms = 200;
  disk.control().spike_every = 20;
  disk.control().spike_delay_ms = 5000;
  SteadyLoad load({}, director.address());
  load.AwaitAcknowledged(400);
  crash::History history = load.Stop();
  EXPECT_EQ(client.Get(id)->state, State::kRunning);
  disk.control().sync_delay_ms = 0;
  disk.control().spike_every = 0;
  std::ofstream(folder / "gate") << "open";
  EXPECT_EQ(WaitForEnd(client, id).dispatches, 1u);
  history.push_back({.answered = load.Tick(),
                     .answer = Call::Answer::kDone,
                     .request_id = "run",
                     .content = gate,
                     .queue_id = id});
  const crash::CheckResult check_result =
      crash::CheckHistory(history, *client.FindAll(), {.runs = true});
  EXPECT_TRUE(check_result.ok()) << check_result.ToString();
}

TEST(SoakTest, SlotOfAVanishedWaiterIsFreed) {
  DirectorProcess director(test::NewFolder(), {"--queue.max_size=1", "--queue.policy=block"});
  QueueClient client(director.address());
  const std::string first = client.Submit("first", "text")->queue_id;
  TcpProxy network(director.address());
  QueueClient far(network.address());
  std::thread waiter([&far] { EXPECT_FALSE(far.Submit("second", "text").ok()); });
  while (*client.Waiting() == 0) {
  }
  // The connection is not closed.
  network.Set(TcpProxy::Direction::kToServer, TcpProxy::Flow::kDropped);
  network.Set(TcpProxy::Direction::kToClient, TcpProxy::Flow::kDropped);
  while (*client.Waiting() != 0) {
  }
  network.Cut();
  waiter.join();
  ASSERT_TRUE(client.Cancel(first).ok());
  EXPECT_EQ(*client.Depth(), 0u) << "the waiter was not admitted";
  EXPECT_TRUE(client.Submit("third", "text").ok());
}

TEST(SoakTest, ThousandIdleConnectionsAreClosed) {
  DirectorProcess director(test::NewFolder());
  const size_t before = test::DescriptorsOf(director.process().pid());
  std::deque<std::unique_ptr<HttpConnection>> connections;
  for (int i = 0; i < 1000; ++i) {
    connections.push_back(std::make_unique<HttpConnection>(test::PortOf(director.address())));
    // Half of them begin with HTTP/2.
    if (i % 2 == 0) connections.back()->Send(Hello());
  }
  while (test::DescriptorsOf(director.process().pid()) < before + 900) {
  }
  while (test::DescriptorsOf(director.process().pid()) > before + 10) {
  }
  EXPECT_TRUE(QueueClient(director.address()).Submit("well", "text").ok());
}

}  // namespace
}  // namespace callboard::faults
