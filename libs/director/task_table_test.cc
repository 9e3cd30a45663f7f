#include "libs/director/task_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "libs/testing/engine_fixture.h"
#include "libs/testing/fake_environment.h"

namespace callboard::director {
namespace {

using test::EngineFixture;
using ::testing::ElementsAreArray;

// Tasks in every state, with sessions, overlap keys, request ids and a successor.
std::vector<core::Record> ManyRecords() {
  EngineFixture director;
  std::vector<core::QueueId> tasks;
  for (int i = 0; i < 12; ++i) {
    core::Submission submission = EngineFixture::Prompt();
    submission.spec.request_id = "request-" + std::to_string(i);
    if (i % 3 == 0) submission.spec.session_id = "session";
    if (i % 4 == 0) submission.spec.terms.source = core::TaskSource::kScheduler;
    if (i % 5 == 0)
      submission.spec.terms.overlap = core::Overlap{"key", core::OverlapPolicy::kAllow, 0};
    tasks.push_back(director.Add(submission));
  }
  core::SessionOpened agent = EngineFixture::IdleAgent("a");
  agent.lanes["default"].slots = 3;
  director.Connect(agent);
  director.AcceptStart(tasks[0]);
  director.FinishRun(tasks[0]);
  director.AnswerBusy(tasks[1]);
  director.AnswerStart(tasks[2], absl::InvalidArgumentError(""));
  director.Redrive(tasks[2]);
  director.Cancel(tasks[7]);
  return director.Stored();
}

std::vector<core::QueueId> LiveTaskIds(const TaskTable& tasks) {
  std::vector<core::QueueId> ids;
  for (const auto& [sequence, entry] : tasks.live_tasks()) ids.push_back(entry->task.queue_id);
  return ids;
}

TEST(TaskTableTest, TasksMayBeLoadedInAnyOrder) {
  std::vector<core::Record> records = ManyRecords();
  TaskTable tasks;
  for (const core::Record& record : records) tasks.Apply(record);
  tasks.CheckIndexes();
  test::FakeRandom random;
  for (int round = 0; round < 20; ++round) {
    // Reorders whole tasks; the records of each task keep their order.
    std::map<core::QueueId, uint64_t> order;
    std::stable_sort(records.begin(), records.end(), [&](const auto& a, const auto& b) {
      const auto key = [&](const core::Record& record) -> uint64_t {
        const auto* task = std::get_if<core::TaskRecord>(&record);
        if (task == nullptr) return 0;
        return order.try_emplace(task->queue_id, random.Next()).first->second;
      };
      return key(a) < key(b);
    });
    TaskTable shuffled;
    for (const core::Record& record : records) shuffled.Apply(record);
    shuffled.CheckIndexes();
    ASSERT_THAT(LiveTaskIds(shuffled), ElementsAreArray(LiveTaskIds(tasks)));
    ASSERT_EQ(shuffled.counts(), tasks.counts());
    ASSERT_EQ(shuffled.next_sequence(), tasks.next_sequence());
    ASSERT_EQ(shuffled.OwnerOfSession("session"), tasks.OwnerOfSession("session"));
    ASSERT_EQ(shuffled.OldestFresh(true)->task, tasks.OldestFresh(true)->task);
    ASSERT_EQ(shuffled.FindOverlapGroup("key")->live.size(),
              tasks.FindOverlapGroup("key")->live.size());
  }
}

TEST(TaskTableTest, PositionCountsThePendingTasksAhead) {
  TaskTable tasks;
  for (const core::Record& record : ManyRecords()) tasks.Apply(record);
  uint64_t position = 0;
  for (const auto& [sequence, entry] : tasks.live_tasks()) {
    if (!entry->task.is_pending()) {
      EXPECT_EQ(tasks.Position(entry->task), 0u);
      continue;
    }
    EXPECT_EQ(tasks.Position(entry->task), ++position);
  }
  EXPECT_EQ(position, tasks.counts().pending);
}

TEST(TaskTableTest, ForgottenTaskLeavesNoIndexEntries) {
  TaskTable tasks;
  for (const core::Record& record : ManyRecords()) tasks.Apply(record);
  while (!tasks.ended().empty()) {
    const core::TaskState task = tasks.ended().begin()->second->task;
    tasks.Apply(core::TaskForgotten{task.queue_id, task.last_record});
    tasks.CheckIndexes();
    EXPECT_EQ(tasks.Find(task.queue_id), nullptr);
    EXPECT_EQ(tasks.FindRequest(task.terms->identity, task.request_id, task.finished_at),
              std::nullopt);
  }
  EXPECT_EQ(tasks.OwnerOfSession("session"), "");
}

TEST(TaskTableDeathTest, LiveTaskCannotBeForgotten) {
  TaskTable tasks;
  for (const core::Record& record : ManyRecords()) tasks.Apply(record);
  const core::QueueId live = LiveTaskIds(tasks).front();
  EXPECT_DEATH(tasks.Apply(core::TaskForgotten{live}), "check failed");
}

TEST(TaskTableDeathTest, EpochsOnlyGrow) {
  TaskTable tasks;
  tasks.Apply(core::EpochBegan{2});
  EXPECT_DEATH(tasks.Apply(core::EpochBegan{2}), "check failed");
}

}  // namespace
}  // namespace callboard::director
