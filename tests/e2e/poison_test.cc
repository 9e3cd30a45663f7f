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

}  // namespace
}  // namespace callboard::e2e
