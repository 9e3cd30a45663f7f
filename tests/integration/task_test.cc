// Tasks that run: a real director, real agents, real processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "libs/testing/file_text.h"
#include "libs/testing/new_folder.h"
#include "libs/testing/running_server.h"
#include "tests/integration/task_client.h"

namespace callboard {
namespace {

using test::FileText;
using test::RunningServer;
using ::testing::HasSubstr;
using ::testing::Optional;

// A director and one agent that runs scripts.
class TaskTest : public testing::Test {
 protected:
  static std::vector<std::string> AgentFlags(const RunningServer& director,
                                             const std::string& name) {
    return {absl::StrCat("--director.address=", director.grpc_address()),
            absl::StrCat("--agent.name=", name), "--runner.kind=shell", "--runner.allow_shell",
            absl::StrCat("--data_dir=", test::NewFolder().string())};
  }
  std::string File(const std::string& name) const { return folder_ / name; }
  // Waits until a task has written its number there.
  pid_t PidIn(const std::string& name) const {
    int pid = 0;
    while (!std::filesystem::exists(File(name)) || !absl::SimpleAtoi(FileText(File(name)), &pid)) {
      std::this_thread::yield();
    }
    return pid;
  }
  // The script that writes it, whole at once.
  std::string WritePid(const std::string& name) const {
    return absl::StrCat("echo $$ >", File(name), ".w; mv ", File(name), ".w ", File(name), "; ");
  }

  const std::filesystem::path folder_ = test::NewFolder();
  RunningServer director_{"services/director/callboard-director",
                          {absl::StrCat("--data_dir=", test::NewFolder().string())}};
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

TEST_F(TaskTest, TaskThatFailsSaysHow) {
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

TEST_F(TaskTest, OneAgentRunsTasksOneAtATimeInTheirOrder) {
  std::vector<std::string> ids;
  for (int i = 0; i < 10; ++i) {
    ids.push_back(client_.Submit(absl::StrCat("mkdir ", File("alone"), " && echo ", i, " >>",
                                              File("order"), " && rmdir ", File("alone"))));
  }
  for (const std::string& id : ids) {
    EXPECT_EQ(client_.WaitForEnd(id).state(), v1::Task::STATE_COMPLETED);
  }
  EXPECT_EQ(FileText(File("order")), "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n");
}

TEST_F(TaskTest, CancelledTaskIsGoneWithItsProcesses) {
  const std::string id = client_.Submit(WritePid("pid") + "sleep 1000 & wait");
  const pid_t pid = PidIn("pid");
  EXPECT_EQ(client_.Cancel(id).outcome(), v1::CancelTaskResponse::OUTCOME_REQUESTED);
  EXPECT_EQ(client_.WaitForEnd(id).state(), v1::Task::STATE_CANCELLED);
  EXPECT_NE(kill(pid, 0), 0) << "it is reported when nothing of it is left";
}

TEST_F(TaskTest, TasksOfASessionShareTheirFolderAndRunInOrder) {
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

TEST_F(TaskTest, AgentFinishesWhatItRunsBeforeItStops) {
  const std::string id =
      client_.Submit(WritePid("pid") + "while [ ! -e " + File("go") + " ]; do sleep 0.01; done");
  PidIn("pid");
  agent_->process().Signal(SIGTERM);
  agent_->process().WaitForLine("server=draining");
  const std::string next = client_.Submit("echo next");
  std::ofstream(File("go")) << "go";
  EXPECT_EQ(client_.WaitForEnd(id).state(), v1::Task::STATE_COMPLETED);
  EXPECT_THAT(agent_->process().WaitForExit(absl::Seconds(60)), Optional(0));
  EXPECT_EQ(client_.Get(next).state(), v1::Task::STATE_PENDING) << "it takes nothing more";
}

TEST_F(TaskTest, TaskOfAnAgentThatIsKilledIsLostWhenTheAgentIsBack) {
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

TEST_F(TaskTest, DirectorThatComesBackGetsTheResultOfWhatRanMeanwhile) {
  const std::string data_dir = test::NewFolder();
  std::optional<RunningServer> director(std::in_place, "services/director/callboard-director",
                                        std::vector<std::string>{"--data_dir=" + data_dir});
  const std::string address = director->grpc_address();
  RunningServer agent("services/agent/callboard-agent", AgentFlags(*director, "agent-1"));
  std::string id;
  {
    test::TaskClient client(*director);
    id = client.Submit(WritePid("pid") + "while [ ! -e " + File("go") +
                       " ]; do sleep 0.01; done; echo done");
    PidIn("pid");
  }
  director->process().Signal(SIGKILL);
  ASSERT_THAT(director->process().WaitForExit(absl::Seconds(60)), Optional(128 + SIGKILL));
  std::ofstream(File("go")) << "go";
  director.emplace("services/director/callboard-director",
                   std::vector<std::string>{"--data_dir=" + data_dir, "--grpc.listen=" + address});
  test::TaskClient client(*director);
  EXPECT_EQ(client.WaitForEnd(id).result(), "done\n");
}

}  // namespace
}  // namespace callboard
