// Directors that kill themselves at one of the calls with which they persist, answer and tell
// agents what follows: before it, halfway through, or after it. Between the first of them and the
// last lie all the moments in which a dispatch, a result, a requeue or a cancel is on disk, and
// nobody knows it yet.
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "libs/testing/new_folder.h"
#include "tests/crash/disk.h"
#include "tests/e2e/cluster.h"
#include "tests/e2e/eventually.h"

namespace callboard::e2e {
namespace {

class KillPointTest : public testing::Test {
 protected:
  static constexpr uint64_t kPoints = 9;

  // The director dies at one of the next calls.
  void Arm(uint64_t point) {
    disk_.DieAt(disk_.calls() + 1 + point, static_cast<crash::Death>(point % 3));
  }
  // The task ends, by way of as many directors as it takes; then one of them lives.
  v1::Task End(const std::string& id) {
    WaitUntilSeen(id, HasEnded);
    disk_.DieAt(0, crash::Death::kBefore);
    // Who answers now is not about to die: it would hold its disk.
    return WaitUntilSeen(id, HasEnded);
  }
  v1::Task WaitUntilSeen(const std::string& id, bool (*is_right)(const v1::Task&)) {
    std::optional<v1::Task> task;
    EXPECT_TRUE(Eventually(absl::Minutes(1), [&] {
      Revive();
      task = cluster_.client().TryGet(id);
      return task.has_value() && is_right(*task);
    })) << id;
    return task.value_or(v1::Task());
  }
  void Revive() {
    if (cluster_.director().is_alive()) return;
    ++deaths_;
    disk_.DieAt(0, crash::Death::kBefore);
    cluster_.director().Start();
  }
  void ExpectAllIsWell() {
    const Cluster::Verdict verdict = cluster_.Check();
    EXPECT_TRUE(verdict.ok()) << verdict.ToString();
    // The last points may lie behind all that is done.
    EXPECT_GE(deaths_, kPoints / 2);
  }

  crash::Disk disk_ = crash::Disk(test::NewFolder());
  Cluster cluster_ =
      Cluster(test::NewFolder(),
              {.agents = 1, .director_flags = LongLease(), .are_listed = true, .disk = &disk_});
  uint64_t deaths_ = 0;
};

TEST_F(KillPointTest, DispatchOfADirectorThatDiedOverItRunsOnce) {
  for (uint64_t point = 0; point < kPoints; ++point) {
    const v1::SubmitTaskRequest request = cluster_.Task("true");
    Arm(point);
    absl::StatusOr<std::string> id;
    ASSERT_TRUE(Eventually(absl::Minutes(1), [&] {
      Revive();
      id = cluster_.client().TrySubmit(request);
      return id.ok();
    })) << id.status();
    const v1::Task task = End(*id);
    EXPECT_EQ(task.state(), v1::Task::STATE_COMPLETED) << task.last_error();
    EXPECT_EQ(task.attempts(), 0u) << "nobody is to blame";
  }
  ExpectAllIsWell();
}

TEST_F(KillPointTest, ResultThatADirectorDiedOverIsAcceptedOnce) {
  for (uint64_t point = 0; point < kPoints; ++point) {
    const std::filesystem::path gate = test::NewFolder() / "gate";
    const std::string id = cluster_.client().Submit(
        cluster_.Task(absl::StrCat("while [ ! -e '", gate.string(), "' ]; do sleep 0.02; done")));
    cluster_.client().WaitFor(id, v1::Task::STATE_WORKING);
    Arm(point);
    std::filesystem::create_directory(gate);
    const v1::Task task = End(id);
    EXPECT_EQ(task.state(), v1::Task::STATE_COMPLETED) << task.last_error();
    EXPECT_EQ(task.dispatch(), 1u);
  }
  ExpectAllIsWell();
}

TEST_F(KillPointTest, RequeueThatADirectorDiedOverCountsOnceAndTheTaskRunsAgain) {
  Member& agent = cluster_.agent(1);
  uint64_t unheard = 0;
  // Some of the calls are those of the connection, and how many is not always the same: until one
  // died where the requeue was on disk and nobody knew it.
  for (uint64_t round = 0; round < 2 * kPoints || (unheard == 0 && round < 20 * kPoints); ++round) {
    const std::string id = cluster_.client().Submit(
        cluster_.Task("case $CALLBOARD_FENCE in */1/*) sleep 1000;; esac"));
    cluster_.WaitForRun(id, 1);
    cluster_.client().WaitFor(id, v1::Task::STATE_WORKING);
    agent.Kill();
    agent.network().Accept(false);
    agent.Start();
    Arm(round % (3 * kPoints));
    agent.network().Accept(true);
    const v1::Task task = End(id);
    EXPECT_EQ(task.state(), v1::Task::STATE_COMPLETED) << task.last_error();
    EXPECT_EQ(task.attempts(), 1u) << "for the run that was lost";
    if (task.dispatch() > 2) ++unheard;
  }
  ExpectAllIsWell();
  EXPECT_GT(unheard, 0u) << "none died between the sync of a requeue and the start that follows";
}

TEST_F(KillPointTest, CancelThatADirectorDiedOverIsCarriedOutOnceItWasAcknowledged) {
  for (uint64_t point = 0; point < kPoints; ++point) {
    const std::string id = cluster_.client().Submit(cluster_.Task("sleep 1000"));
    cluster_.WaitForRun(id, 1);
    cluster_.client().WaitFor(id, v1::Task::STATE_WORKING);
    Arm(point);
    // Nobody asks again who was answered.
    ASSERT_TRUE(Eventually(absl::Minutes(1), [&] {
      Revive();
      return cluster_.client().TryCancel(id).ok();
    }));
    EXPECT_EQ(End(id).state(), v1::Task::STATE_CANCELLED);
  }
  ExpectAllIsWell();
}

}  // namespace
}  // namespace callboard::e2e
