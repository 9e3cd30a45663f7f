// Directors that die at one of the calls with which they persist a change, answer, and notify
// agents: before it, halfway through, or after it. The calls cover all moments in which a dispatch,
// a result, a requeue or a cancel is on disk and no other process knows it yet.
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "libs/testing/files.h"
#include "tests/crash/disk.h"
#include "tests/e2e/cluster.h"
#include "tests/e2e/eventually.h"

namespace callboard::e2e {
namespace {

class KillPointTest : public testing::Test {
 protected:
  static constexpr uint64_t kPoints = 9;

  // The director will die at call number `point` from now.
  void Arm(uint64_t point) {
    disk_.DieAt(disk_.calls() + 1 + point, static_cast<crash::DeathTime>(point % 3));
  }
  // Waits until the task ends, with as many directors as that takes; then one director keeps
  // running.
  v1::Task End(const std::string& id) {
    WaitUntilSeen(id, HasEnded);
    disk_.DieAt(0, crash::DeathTime::kBefore);
    // A director that answers now is not about to die: a dying one holds its disk.
    return WaitUntilSeen(id, HasEnded);
  }
  v1::Task WaitUntilSeen(const std::string& id, bool (*is_right)(const v1::Task&)) {
    std::optional<v1::Task> task;
    EXPECT_TRUE(WaitUntilTrue(absl::Minutes(1), [&] {
      Revive();
      task = cluster_.client().TryGet(id);
      return task.has_value() && is_right(*task);
    })) << id;
    return task.value_or(v1::Task());
  }
  void Revive() {
    if (cluster_.director().is_alive()) return;
    ++deaths_;
    disk_.DieAt(0, crash::DeathTime::kBefore);
    cluster_.director().Start();
  }
  void ExpectNoViolation() {
    const Cluster::CheckResult check_result = cluster_.Check();
    EXPECT_TRUE(check_result.ok()) << check_result.ToString();
    // The last kill points may come after the end of all work.
    EXPECT_GE(deaths_, kPoints / 2);
  }

  crash::Disk disk_ = crash::Disk(test::NewFolder());
  Cluster cluster_ =
      Cluster(test::NewFolder(),
              {.agents = 1, .director_flags = LongLease(), .are_listed = true, .disk = &disk_});
  uint64_t deaths_ = 0;
};

TEST_F(KillPointTest, DispatchInterruptedByACrashRunsOnce) {
  for (uint64_t point = 0; point < kPoints; ++point) {
    const v1::SubmitTaskRequest request = cluster_.Task("true");
    Arm(point);
    absl::StatusOr<std::string> id;
    ASSERT_TRUE(WaitUntilTrue(absl::Minutes(1), [&] {
      Revive();
      id = cluster_.client().TrySubmit(request);
      return id.ok();
    })) << id.status();
    const v1::Task task = End(*id);
    EXPECT_EQ(task.state(), v1::Task::STATE_COMPLETED) << task.last_error();
    EXPECT_EQ(task.attempts(), 0u) << "no attempt failed";
  }
  ExpectNoViolation();
}

TEST_F(KillPointTest, ResultInterruptedByACrashIsAcceptedOnce) {
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
  ExpectNoViolation();
}

TEST_F(KillPointTest, RequeueInterruptedByACrashCountsOnce) {
  ServerProcess& agent = cluster_.agent(1);
  uint64_t unsent = 0;
  // Some calls belong to the connection, and their number varies: repeat until a director died when
  // the requeue was on disk and nothing had been sent.
  for (uint64_t round = 0; round < 2 * kPoints || (unsent == 0 && round < 20 * kPoints); ++round) {
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
    if (task.dispatch() > 2) ++unsent;
  }
  ExpectNoViolation();
  EXPECT_GT(unsent, 0u) << "none died between the sync of a requeue and the start that follows";
}

TEST_F(KillPointTest, AcknowledgedCancelSurvivesACrash) {
  for (uint64_t point = 0; point < kPoints; ++point) {
    const std::string id = cluster_.client().Submit(cluster_.Task("sleep 1000"));
    cluster_.WaitForRun(id, 1);
    cluster_.client().WaitFor(id, v1::Task::STATE_WORKING);
    Arm(point);
    // An answered client does not ask again.
    ASSERT_TRUE(WaitUntilTrue(absl::Minutes(1), [&] {
      Revive();
      return cluster_.client().TryCancel(id).ok();
    }));
    EXPECT_EQ(End(id).state(), v1::Task::STATE_CANCELLED);
  }
  ExpectNoViolation();
}

}  // namespace
}  // namespace callboard::e2e
