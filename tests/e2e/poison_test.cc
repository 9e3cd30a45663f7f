// Tasks that take down their agents, and agents that are of no use to any task.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "libs/testing/new_folder.h"
#include "tests/e2e/cluster.h"
#include "tests/e2e/eventually.h"

namespace callboard::e2e {
namespace {

// A script that kills the agent that runs it: above it are its supervisor and the launcher.
constexpr char kKillsItsAgent[] = R"sh(
parent() { read -r pid name state parent rest <"/proc/$1/stat"; echo "$parent"; }
kill -9 "$(parent "$(parent "$PPID")")"
sleep 1000
)sh";

TEST(PoisonTest, TaskThatTakesDownTwoAgentsIsPoisonAndOthersGoOn) {
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
  const Cluster::Verdict verdict = cluster.Check();
  EXPECT_TRUE(verdict.ok()) << verdict.ToString();
}

// It accepts a task before it knows that it cannot begin it.
TEST(PoisonTest, AgentThatCannotBeginThreeTasksInARowIsCordonedAndTheyRunElsewhere) {
  Cluster cluster(test::NewFolder(), {.director_flags = LongLease()});
  ClusterClient& client = cluster.client();
  const std::filesystem::path runs = cluster.AgentFolder(1) / "runs";
  std::filesystem::remove_all(runs);
  std::ofstream(runs) << "in the way";
  std::vector<std::string> ids;
  for (int i = 0; i < 3; ++i) {
    ids.push_back(client.Submit(cluster.Task("true")));
    // The first that is idle, by name, gets it.
    EXPECT_EQ(client.WaitFor(ids.back(), v1::Task::STATE_PENDING).attempts(), 1u);
  }
  const auto state = [&client] { return client.Agents().front().state(); };
  EXPECT_EQ(state(), v1::Agent::STATE_CORDONED);
  client.Kick();
  for (const std::string& id : ids) {
    const v1::Task task = client.WaitForEnd(id);
    EXPECT_EQ(task.state(), v1::Task::STATE_COMPLETED) << task.last_error();
    EXPECT_EQ(task.dispatch(), 2u);
  }
  // Somebody repairs and restarts it.
  cluster.agent(1).Kill();
  std::filesystem::remove(runs);
  cluster.agent(1).Start();
  EXPECT_TRUE(Eventually(absl::Minutes(1), [&] { return state() == v1::Agent::STATE_IDLE; }));
  const Cluster::Verdict verdict = cluster.Check();
  EXPECT_TRUE(verdict.ok()) << verdict.ToString();
}

}  // namespace
}  // namespace callboard::e2e
