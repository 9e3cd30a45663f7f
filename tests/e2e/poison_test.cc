// Tasks that kill their agents, and agents that cannot run any task.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/base/check.h"
#include "libs/testing/files.h"
#include "libs/testing/process.h"
#include "tests/e2e/cluster.h"
#include "tests/e2e/eventually.h"

namespace callboard::e2e {
namespace {

using ::testing::HasSubstr;

// A script that kills its agent: its ancestors are the supervisor and the launcher.
constexpr char kKillsItsAgent[] = R"sh(
parent() { read -r pid name state parent rest <"/proc/$1/stat"; echo "$parent"; }
kill -9 "$(parent "$(parent "$PPID")")"
sleep 1000
)sh";

// The process limit does not apply to root, so the agent runs as another user with access to the
// files.
std::vector<std::string> CommandWithProcessLimit() {
  if (getuid() != 0) return {};
  return {"/usr/bin/setpriv", "--reuid=61234", "--inh-caps=+dac_override",
          "--ambient-caps=+dac_override"};
}

pid_t LauncherOf(ServerProcess& agent) {
  for (const pid_t pid : test::ProcessesNaming("--callboard-launch-supervisors")) {
    if (test::ParentOf(pid) == agent.process().pid()) return pid;
  }
  CHECK(false) << "the agent has no launcher";
  return 0;
}

TEST(PoisonTest, TaskThatKillsTwoAgentsIsPoison) {
  Cluster cluster(test::NewFolder(), {.director_flags = LongLease()});
  ClusterClient& client = cluster.client();
  const std::string poison = client.Submit(cluster.Task(kKillsItsAgent));
  const std::string other = client.Submit(cluster.Task("true"));
  for (size_t i = 1; i <= 2; ++i) {
    EXPECT_EQ(cluster.agent(i).WaitForEnd(), 128 + SIGKILL);
    cluster.agent(i).Start();
  }
  const v1::Task task = client.WaitForEnd(poison);
  EXPECT_EQ(task.state(), v1::Task::STATE_FAILED);
  EXPECT_EQ(task.reason(), v1::Task::REASON_POISON);
  EXPECT_EQ(task.dispatch(), 2u);
  EXPECT_EQ(client.WaitForEnd(other).state(), v1::Task::STATE_COMPLETED);
  EXPECT_EQ(client.WaitForEnd(client.Submit(cluster.Task("true"))).state(),
            v1::Task::STATE_COMPLETED);
  const Cluster::CheckResult check_result = cluster.Check();
  EXPECT_TRUE(check_result.ok()) << check_result.ToString();
}

// The first agent gets three tasks and accepts each before it knows that it cannot start it.
void ExpectCordonAndRunsElsewhere(Cluster& cluster, const std::string& why) {
  ClusterClient& client = cluster.client();
  std::vector<std::string> ids;
  for (int i = 0; i < 3; ++i) {
    ids.push_back(client.Submit(cluster.Task("true")));
    // The first idle agent by name gets it.
    const v1::Task task = client.WaitFor(ids.back(), v1::Task::STATE_PENDING);
    EXPECT_EQ(task.attempts(), 1u);
    EXPECT_THAT(task.last_error(), HasSubstr(why));
  }
  EXPECT_EQ(client.Agents().front().state(), v1::Agent::STATE_CORDONED);
  client.Kick();
  for (const std::string& id : ids) {
    const v1::Task task = client.WaitForEnd(id);
    EXPECT_EQ(task.state(), v1::Task::STATE_COMPLETED) << task.last_error();
    EXPECT_EQ(task.dispatch(), 2u);
  }
}

// The operator repairs and restarts the agent.
Cluster::CheckResult CheckAfterRestart(Cluster& cluster) {
  cluster.agent(1).Start();
  EXPECT_TRUE(WaitUntilTrue(absl::Minutes(1), [&] {
    return cluster.client().Agents().front().state() == v1::Agent::STATE_IDLE;
  }));
  return cluster.Check();
}

TEST(PoisonTest, AgentThatCannotStartThreeTasksIsCordoned) {
  Cluster cluster(test::NewFolder(), {.director_flags = LongLease()});
  const std::filesystem::path runs = cluster.AgentFolder(1) / "runs";
  std::filesystem::remove_all(runs);
  std::ofstream(runs) << "in the way";
  ExpectCordonAndRunsElsewhere(cluster, runs.string());
  cluster.agent(1).Kill();
  std::filesystem::remove(runs);
  const Cluster::CheckResult check_result = CheckAfterRestart(cluster);
  EXPECT_TRUE(check_result.ok()) << check_result.ToString();
}

TEST(PoisonTest, AgentThatCannotForkIsCordoned) {
  std::vector<std::string> command = CommandWithProcessLimit();
  Cluster cluster(test::NewFolder(), {.director_flags = LongLease(), .agent_wrapper = command});
  command.insert(
      command.end(),
      {"/usr/bin/prlimit", "--nproc=0:", absl::StrCat("--pid=", LauncherOf(cluster.agent(1)))});
  ASSERT_EQ(test::RunToEnd(command).exit_code, 0);
  ExpectCordonAndRunsElsewhere(cluster, "Resource temporarily unavailable");
  cluster.agent(1).Kill();
  const Cluster::CheckResult check_result = CheckAfterRestart(cluster);
  EXPECT_TRUE(check_result.ok()) << check_result.ToString();
}

}  // namespace
}  // namespace callboard::e2e
