// Tasks that run, with a real director, real agents and real processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "callboard/v1/agent.grpc.pb.h"
#include "libs/base/check.h"
#include "libs/testing/files.h"
#include "libs/testing/process.h"
#include "libs/testing/running_server.h"
#include "libs/testing/tcp_proxy.h"
#include "tests/integration/task_client.h"

namespace callboard {
namespace {

using test::FileText;
using test::RunningServer;
using ::testing::HasSubstr;
using ::testing::Optional;

// Flags of an agent that runs scripts.
const std::vector<std::string> kShell = {"--runner.kind=shell", "--runner.allow_shell"};

// Returns the status that the agent reports.
v1::AgentStatus StatusOf(const RunningServer& agent) {
  const auto stub = v1::AgentService::NewStub(agent.NewChannel());
  grpc::ClientContext context;
  v1::AgentStatus status;
  const grpc::Status answer = stub->GetAgentStatus(&context, {}, &status);
  CHECK(answer.ok()) << answer.error_message();
  return status;
}

// A director and one agent that runs scripts.
class TaskTest : public testing::Test {
 protected:
  static std::vector<std::string> AgentFlags(const RunningServer& director,
                                             const std::string& name) {
    std::vector<std::string> flags = kShell;
    flags.push_back(absl::StrCat("--director.address=", director.grpc_address()));
    flags.push_back(absl::StrCat("--agent.name=", name));
    flags.push_back(absl::StrCat("--data_dir=", test::NewFolder().string()));
    return flags;
  }
  std::string File(const std::string& name) const { return folder_ / name; }
  // Waits until a task has written its pid to this file.
  pid_t PidIn(const std::string& name) const {
    int pid = 0;
    while (!std::filesystem::exists(File(name)) || !absl::SimpleAtoi(FileText(File(name)), &pid)) {
      std::this_thread::yield();
    }
    return pid;
  }
  // Returns a script that waits for Open().
  std::string WaitForGate() const {
    return absl::StrCat("while [ ! -e ", File("gate"), " ]; do sleep 0.01; done; ");
  }
  void Open() const { std::ofstream(File("gate")) << "open"; }
  // Returns a script that writes its pid atomically.
  std::string WritePid(const std::string& name) const {
    return absl::StrCat("echo $$ >", File(name), ".w; mv ", File(name), ".w ", File(name), "; ");
  }

  const std::filesystem::path folder_ = test::NewFolder();
  RunningServer director_{
      "services/director/callboard-director",
      {absl::StrCat("--data_dir=", test::NewFolder().string()), "--lease.kill_grace=1s"}};
  std::optional<RunningServer> agent_{std::in_place, "services/agent/callboard-agent",
                                      AgentFlags(director_, "agent-1")};
  test::TaskClient client_{director_};
};

TEST_F(TaskTest, SubmittedTaskRunsAndItsOutputIsItsResult) {
  const v1::Task task = client_.WaitForEnd(client_.Submit("echo hello; echo oops >&2"));
  EXPECT_EQ(task.state(), v1::Task::STATE_COMPLETED) << task.last_error();
  EXPECT_EQ(task.exit_code(), 0);
  EXPECT_EQ(task.result(), "hello\n");
  EXPECT_EQ(task.dispatch(), 1u);
  EXPECT_EQ(task.agent_url(), absl::StrCat("grpc://", agent_->grpc_address()));
}

TEST_F(TaskTest, FailedTaskReportsItsCause) {
  const v1::Task exited = client_.WaitForEnd(client_.Submit("exit 7"));
  EXPECT_EQ(exited.state(), v1::Task::STATE_FAILED);
  EXPECT_EQ(exited.reason(), v1::Task::REASON_EXEC_FAILED);
  EXPECT_EQ(exited.exit_code(), 7);
  const v1::Task died = client_.WaitForEnd(client_.Submit("kill -SEGV $$"));
  EXPECT_EQ(died.signal(), "SIGSEGV");
  v1::SubmitTaskRequest slow;
  slow.set_prompt("sleep 1000");
  slow.set_timeout_seconds(1);
  EXPECT_EQ(client_.WaitForEnd(client_.Submit(slow)).reason(), v1::Task::REASON_TIMED_OUT);
}

TEST_F(TaskTest, WaitingTasksRunOneAtATimeInOrder) {
  std::vector<std::string> ids = {client_.Submit(WaitForGate())};
  client_.WaitFor(ids[0], v1::Task::STATE_WORKING);
  for (uint32_t i = 1; i <= 10; ++i) {
    ids.push_back(client_.Submit(absl::StrCat("mkdir ", File("alone"), " && echo ", i, " >>",
                                              File("order"), " && rmdir ", File("alone"))));
    EXPECT_EQ(client_.Get(ids[i]).position(), i);
    EXPECT_EQ(client_.Status().depth(), i);
  }
  Open();
  for (const std::string& id : ids) {
    EXPECT_EQ(client_.WaitForEnd(id).state(), v1::Task::STATE_COMPLETED);
  }
  EXPECT_EQ(FileText(File("order")), "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n");
  EXPECT_EQ(client_.Status().depth(), 0u);
}

TEST_F(TaskTest, CancelEndsAllProcessesOfATask) {
  const std::string id = client_.Submit(WritePid("pid") + "sleep 1000 & wait");
  const pid_t pid = PidIn("pid");
  EXPECT_EQ(client_.Cancel(id).outcome(), v1::CancelTaskResponse::OUTCOME_REQUESTED);
  EXPECT_EQ(client_.WaitForEnd(id).state(), v1::Task::STATE_CANCELLED);
  EXPECT_NE(kill(pid, 0), 0) << "reported after the process is gone";
}

// The task has children, and grandchildren in separate sessions; all ignore SIGTERM and write
// output until the end.
TEST_F(TaskTest, RunawayTaskEndsAfterItsGraceWithBoundedMemory) {
  const std::string write_pid = absl::StrCat("echo $$ >>", File("pids"), "; ");
  std::ofstream(File("child")) << "setsid sh " << File("grandchild") << " & " << write_pid
                               << "wait";
  std::ofstream(File("grandchild")) << write_pid << "exec sleep 1000";
  const std::vector<pid_t> servers = {director_.process().pid(), agent_->process().pid()};
  std::vector<uint64_t> before;
  for (const pid_t pid : servers) before.push_back(test::StatusOf(pid, "VmHWM"));
  const std::string id = client_.Submit(absl::StrCat(
      "trap '' TERM HUP INT; sh ", File("child"), " & setsid sh ", File("child"), " & ", write_pid,
      "head -c 400000000 /dev/zero; echo >", File("flooded"), "; exec yes"));
  const std::vector<pid_t> pids = test::WaitForPids(File("pids"), 5);
  while (!std::filesystem::exists(File("flooded"))) std::this_thread::yield();
  EXPECT_EQ(client_.Cancel(id).outcome(), v1::CancelTaskResponse::OUTCOME_REQUESTED);
  const v1::Task task = client_.WaitForEnd(id);
  for (const pid_t pid : pids) EXPECT_FALSE(test::IsAlive(pid)) << pid;
  EXPECT_EQ(task.state(), v1::Task::STATE_CANCELLED);
  EXPECT_EQ(task.signal(), "SIGKILL");
  // The documented limit: the grace period plus five seconds.
  EXPECT_LE(task.finished_at().seconds(), task.cancel_requested_at().seconds() + 1 + 5);
  for (size_t i = 0; i < servers.size(); ++i) {
    EXPECT_LE(test::StatusOf(servers[i], "VmHWM"), before[i] + 64 * 1024);
  }
}

TEST_F(TaskTest, TasksOfASessionShareAFolderAndRunInOrder) {
  RunningServer other("services/agent/callboard-agent", AgentFlags(director_, "agent-2"));
  v1::SubmitTaskRequest request;
  request.set_session_id("conversation");
  request.set_prompt("sleep 0.1; echo one >>notes");
  client_.Submit(request);
  request.set_prompt("echo two >>notes; cat notes");
  EXPECT_EQ(client_.WaitForEnd(client_.Submit(request)).result(), "one\ntwo\n");
}

TEST_F(TaskTest, TaskWaitsUntilThereIsAnAgent) {
  agent_.reset();
  const std::string id = client_.Submit("echo late");
  EXPECT_EQ(client_.Get(id).state(), v1::Task::STATE_PENDING);
  agent_.emplace("services/agent/callboard-agent", AgentFlags(director_, "agent-9"));
  EXPECT_EQ(client_.WaitForEnd(id).result(), "late\n");
}

TEST_F(TaskTest, AgentFinishesItsRunsBeforeItStops) {
  const std::string id = client_.Submit(WritePid("pid") + WaitForGate());
  PidIn("pid");
  agent_->process().Signal(SIGTERM);
  agent_->process().WaitForLine("server=draining");
  const std::string next = client_.Submit("echo next");
  Open();
  EXPECT_EQ(client_.WaitForEnd(id).state(), v1::Task::STATE_COMPLETED);
  EXPECT_THAT(agent_->process().WaitForExit(absl::Seconds(60)), Optional(0));
  EXPECT_EQ(client_.Get(next).state(), v1::Task::STATE_PENDING)
      << "a stopping agent accepts no tasks";
}

TEST_F(TaskTest, TaskOfAKilledAgentIsLostWhenItRestarts) {
  const std::vector<std::string> flags = AgentFlags(director_, "agent-7");
  agent_.reset();
  agent_.emplace("services/agent/callboard-agent", flags);
  const std::string id = client_.Submit(WritePid("pid") + "sleep 1000");
  const pid_t pid = PidIn("pid");
  agent_->process().Signal(SIGKILL);
  ASSERT_THAT(agent_->process().WaitForExit(absl::Seconds(60)), Optional(128 + SIGKILL));
  agent_.emplace("services/agent/callboard-agent", flags);
  const v1::Task task = client_.WaitForEnd(id);
  EXPECT_EQ(task.reason(), v1::Task::REASON_AGENT_LOST);
  EXPECT_NE(kill(pid, 0), 0);
}

TEST_F(TaskTest, RestartedDirectorGetsResultsFromItsDowntime) {
  const std::string data_dir = test::NewFolder();
  std::optional<RunningServer> director(std::in_place, "services/director/callboard-director",
                                        std::vector<std::string>{"--data_dir=" + data_dir});
  const std::string address = director->grpc_address();
  RunningServer agent("services/agent/callboard-agent", AgentFlags(*director, "agent-1"));
  std::string id;
  {
    test::TaskClient client(*director);
    id = client.Submit(WritePid("pid") + WaitForGate() + "echo done");
    PidIn("pid");
  }
  director->process().Signal(SIGKILL);
  ASSERT_THAT(director->process().WaitForExit(absl::Seconds(60)), Optional(128 + SIGKILL));
  Open();
  director.emplace("services/director/callboard-director",
                   std::vector<std::string>{"--data_dir=" + data_dir, "--grpc.listen=" + address});
  test::TaskClient client(*director);
  EXPECT_EQ(client.WaitForEnd(id).result(), "done\n");
}

TEST_F(TaskTest, RunSurvivesANetworkOutageAtItsEnd) {
  // The agent is known by the address of the proxy, and only to this director.
  RunningServer agent("services/agent/callboard-agent", [] {
    std::vector<std::string> flags = kShell;
    flags.push_back("--director.address=127.0.0.1:1");
    return flags;
  }());
  test::TcpProxy network(agent.grpc_address());
  RunningServer director("services/director/callboard-director",
                         {absl::StrCat("--data_dir=", test::NewFolder().string()),
                          absl::StrCat("--fleet.agents=", network.address())});
  test::TaskClient client(director);
  const std::string id = client.Submit(WritePid("pid") + WaitForGate() + "echo done");
  const pid_t pid = PidIn("pid");
  client.WaitFor(id, v1::Task::STATE_WORKING);
  network.Accept(false);
  network.Cut();
  Open();
  test::WaitUntilDead(pid);
  EXPECT_EQ(client.Get(id).state(), v1::Task::STATE_WORKING);
  network.Accept(true);
  const v1::Task task = client.WaitForEnd(id);
  EXPECT_EQ(task.result(), "done\n");
  EXPECT_EQ(task.dispatch(), 1u) << "it ran once";
}

TEST_F(TaskTest, ManyResultsArriveAfterANetworkOutage) {
  constexpr uint32_t kTasks = 100;
  RunningServer agent("services/agent/callboard-agent", [&] {
    std::vector<std::string> flags = kShell;
    flags.push_back("--director.address=127.0.0.1:1");
    flags.push_back(absl::StrCat("--lanes=default=", kTasks));
    return flags;
  }());
  test::TcpProxy network(agent.grpc_address());
  RunningServer director(
      "services/director/callboard-director",
      {absl::StrCat("--data_dir=", test::NewFolder().string()), "--queue.max_size=0",
       absl::StrCat("--fleet.agents=", network.address())});
  test::TaskClient client(director);
  // Each task waits for a separate line.
  ASSERT_EQ(mkfifo(File("lines").c_str(), 0600), 0);
  std::fstream lines(File("lines"));
  std::vector<std::string> ids;
  for (uint32_t i = 0; i < kTasks; ++i) {
    ids.push_back(client.Submit(
        absl::StrCat("read line <", File("lines"), "; head -c 65536 /dev/zero | tr '\\0' x")));
  }
  for (const std::string& id : ids) client.WaitFor(id, v1::Task::STATE_WORKING);
  network.Accept(false);
  network.Cut();
  lines << std::string(kTasks, '\n') << std::flush;
  while (StatusOf(agent).unacknowledged_results() < kTasks) std::this_thread::yield();
  network.Accept(true);
  for (const std::string& id : ids) {
    const v1::Task task = client.WaitForEnd(id);
    EXPECT_EQ(task.state(), v1::Task::STATE_COMPLETED) << task.last_error();
    EXPECT_EQ(task.result().size(), 65536u);
    EXPECT_EQ(task.dispatch(), 1u) << "it ran once";
  }
  while (StatusOf(agent).unacknowledged_results() > 0) std::this_thread::yield();
}

TEST_F(TaskTest, AgentThatCannotWriteItsJournalExits) {
  agent_.reset();
  const std::filesystem::path data_dir = test::NewFolder();
  std::vector<std::string> flags = AgentFlags(director_, "agent-1");
  flags.push_back(absl::StrCat("--data_dir=", data_dir.string()));
  agent_.emplace("services/agent/callboard-agent", flags);
  // Blocks the file that follows the journal when it is full, after 16 results.
  std::filesystem::create_directory(data_dir / "journal.new");
  std::string last;
  for (int i = 0; i < 40; ++i) last = client_.Submit("head -c 65536 /dev/zero | tr '\\0' x");
  EXPECT_THAT(agent_->process().WaitForExit(absl::Seconds(60)), Optional(1));
  EXPECT_THAT(agent_->process().Output(),
              HasSubstr(absl::StrCat("callboard-agent: cannot write ",
                                     (data_dir / "journal.new").string(), ": Is a directory")));
  EXPECT_EQ(client_.Get(last).state(), v1::Task::STATE_PENDING);
  // A new agent can write its journal.
  agent_.emplace("services/agent/callboard-agent", AgentFlags(director_, "agent-1"));
  EXPECT_EQ(client_.WaitForEnd(last).state(), v1::Task::STATE_COMPLETED);
}

TEST_F(TaskTest, SecondSigtermEndsTheRunsOfAnAgent) {
  const std::vector<std::string> flags = AgentFlags(director_, "agent-1");
  agent_.reset();
  agent_.emplace("services/agent/callboard-agent", flags);
  const std::string id = client_.Submit(WritePid("pid") + "trap '' TERM; sleep 1000 & wait");
  const pid_t pid = PidIn("pid");
  client_.WaitFor(id, v1::Task::STATE_WORKING);
  agent_->process().Signal(SIGTERM);
  while (!StatusOf(*agent_).draining()) std::this_thread::yield();
  EXPECT_TRUE(test::IsAlive(pid));
  agent_->process().Signal(SIGTERM);
  EXPECT_THAT(agent_->process().WaitForExit(absl::Seconds(60)), Optional(1));
  test::WaitUntilDead(pid);
  EXPECT_EQ(client_.Get(id).state(), v1::Task::STATE_WORKING) << "until the agent reports it";
  agent_.emplace("services/agent/callboard-agent", flags);
  const v1::Task task = client_.WaitForEnd(id);
  EXPECT_EQ(task.state(), v1::Task::STATE_FAILED);
  EXPECT_EQ(task.reason(), v1::Task::REASON_AGENT_LOST);
}

TEST_F(TaskTest, TaskThatStopsItsSupervisorTimesOut) {
  v1::SubmitTaskRequest hostile;
  // The fourth field of stat is the parent: the parent of the supervisor is the launcher.
  hostile.set_prompt(WritePid("pid") +
                     "kill -STOP $(cut -d' ' -f4 /proc/$PPID/stat) $PPID; trap '' TERM; "
                     "while :; do sleep 1000; done");
  hostile.set_timeout_seconds(1);
  const std::string id = client_.Submit(hostile);
  const pid_t pid = PidIn("pid");
  EXPECT_EQ(client_.WaitForEnd(id).reason(), v1::Task::REASON_TIMED_OUT);
  EXPECT_FALSE(test::IsAlive(pid));
  EXPECT_EQ(client_.WaitForEnd(client_.Submit("echo next")).result(), "next\n");
}

// The lease is long: only a report can end the task.
TEST_F(TaskTest, TaskKilledAtTheEndOfADrainIsReportedImmediately) {
  RunningServer director("services/director/callboard-director", {"--lease.redispatch_after=1h"});
  std::vector<std::string> flags = AgentFlags(director, "agent-1");
  flags.push_back("--agent.drain_timeout=0s");
  RunningServer agent("services/agent/callboard-agent", flags);
  test::TaskClient client(director);
  const std::string id = client.Submit(WritePid("pid") + "trap '' TERM; sleep 1000 & wait");
  const pid_t pid = PidIn("pid");
  client.WaitFor(id, v1::Task::STATE_WORKING);
  agent.process().Signal(SIGTERM);
  EXPECT_EQ(client.WaitForEnd(id).reason(), v1::Task::REASON_AGENT_LOST);
  EXPECT_FALSE(test::IsAlive(pid));
  EXPECT_THAT(agent.process().WaitForExit(absl::Seconds(60)), Optional(0));
}

TEST_F(TaskTest, TaskThatDiesWithItsProcessTreeIsLostAndNotBlamed) {
  RunningServer director("services/director/callboard-director", {"--lease.redispatch_after=1h"});
  RunningServer agent("services/agent/callboard-agent", AgentFlags(director, "agent-1"));
  test::TaskClient client(director);
  const std::string id = client.Submit(WritePid("pid") + "exec sleep 1000");
  const pid_t task = PidIn("pid");
  client.WaitFor(id, v1::Task::STATE_WORKING);
  const pid_t supervisor = test::ParentOf(task);
  for (const pid_t pid : {agent.process().pid(), test::ParentOf(supervisor), supervisor, task}) {
    ASSERT_EQ(kill(pid, SIGTERM), 0);
  }
  const v1::Task lost = client.WaitForEnd(id);
  EXPECT_EQ(lost.reason(), v1::Task::REASON_AGENT_LOST) << lost.last_error();
  EXPECT_THAT(agent.process().WaitForExit(absl::Seconds(60)), Optional(0));
}

TEST_F(TaskTest, AgentWithoutItsCommandIsCordoned) {
  const std::filesystem::path command = folder_ / "command";
  std::filesystem::copy_file("/bin/true", command);
  std::vector<std::string> flags = AgentFlags(director_, "agent-0");
  flags.push_back("--runner.kind=exec");
  flags.push_back(absl::StrCat("--runner.argv=", command.string()));
  RunningServer broken("services/agent/callboard-agent", flags);
  while (!StatusOf(broken).connected()) std::this_thread::yield();
  std::filesystem::remove(command);
  for (int i = 0; i < 10; ++i) {
    const v1::Task task = client_.WaitForEnd(client_.Submit("echo hello"));
    EXPECT_EQ(task.state(), v1::Task::STATE_COMPLETED) << task.last_error();
    EXPECT_EQ(task.attempts(), 0u);
  }
  EXPECT_THAT(broken.process().WaitForLine("agent=cannot_run"), HasSubstr("RUNNER_UNAVAILABLE"));
}

TEST(AgentSettingsTest, UnreachableDirectorIsLoggedWithTheNextStep) {
  RunningServer agent("services/agent/callboard-agent", {"--director.address=127.0.0.1:1"});
  EXPECT_THAT(agent.process().WaitForLine("agent=announce_failed"),
              HasSubstr("director.address is its gRPC port"));
}

TEST(AgentSettingsTest, UnusableRunnerIsASettingsError) {
  const auto run = [](const std::vector<std::string>& flags) {
    return test::RunToEnd(test::ServerCommand("services/agent/callboard-agent", flags));
  };
  const test::ProcessResult shell = run({"--runner.kind=shell"});
  EXPECT_THAT(shell.exit_code, Optional(2));
  EXPECT_THAT(shell.output, HasSubstr("runner.allow_shell"));
  const test::ProcessResult missing = run({"--runner.argv=/no/such/program"});
  EXPECT_THAT(missing.exit_code, Optional(2));
  EXPECT_THAT(missing.output, HasSubstr("runner.argv: cannot run /no/such/program"));
}

TEST_F(TaskTest, TaskSurvivesAnAnnouncedDirectorRestart) {
  const std::string data_dir = test::NewFolder();
  // Without a notice the agent would end its tasks three seconds after the last heartbeat.
  const std::vector<std::string> flags = {"--data_dir=" + data_dir, "--lease.heartbeat=1s",
                                          "--lease.self_fence=3s", "--lease.kill_grace=1s",
                                          "--lease.redispatch_after=9s"};
  std::optional<RunningServer> director(std::in_place, "services/director/callboard-director",
                                        flags);
  RunningServer agent("services/agent/callboard-agent", AgentFlags(*director, "agent-1"));
  std::string id;
  {
    test::TaskClient client(*director);
    id = client.Submit(absl::StrCat("while [ ! -e ", File("go"), " ]; do echo . >>", File("ticks"),
                                    "; sleep 0.1; done; echo done"));
    client.WaitFor(id, v1::Task::STATE_WORKING);
  }
  director->process().Signal(SIGTERM);
  ASSERT_THAT(director->process().WaitForExit(absl::Seconds(60)), Optional(0));
  std::filesystem::remove(File("ticks"));
  // Output of four seconds.
  while (!std::filesystem::exists(File("ticks")) ||
         std::filesystem::file_size(File("ticks")) < 2 * 40) {
    std::this_thread::yield();
  }
  std::vector<std::string> again = flags;
  again.push_back("--grpc.listen=" + director->grpc_address());
  director.emplace("services/director/callboard-director", again);
  std::ofstream(File("go")) << "go";
  test::TaskClient client(*director);
  const v1::Task task = client.WaitForEnd(id);
  EXPECT_EQ(task.state(), v1::Task::STATE_COMPLETED) << task.last_error();
  EXPECT_EQ(task.dispatch(), 1u);
}

}  // namespace
}  // namespace callboard
