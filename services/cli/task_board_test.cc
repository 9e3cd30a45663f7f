#include "services/cli/task_board.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "libs/testing/status_matchers.h"

namespace callboard::cli {
namespace {

using test::IsOk;
using test::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Change = v1::WatchTasksResponse::Change;

v1::Task TaskIn(v1::Task::State state, const std::string& id) {
  v1::Task task;
  task.set_queue_id(id);
  task.set_state(state);
  return task;
}

v1::Task Pending(const std::string& id, uint64_t position) {
  v1::Task task = TaskIn(v1::Task::STATE_PENDING, id);
  task.set_position(position);
  return task;
}

v1::Task Working(const std::string& id) { return TaskIn(v1::Task::STATE_WORKING, id); }

v1::Task Ended(const std::string& id, int64_t second,
               v1::Task::State state = v1::Task::STATE_COMPLETED) {
  v1::Task task = TaskIn(state, id);
  task.mutable_finished_at()->set_seconds(second);
  return task;
}

// A message with the current state of tasks.
v1::WatchTasksResponse StateOf(const std::vector<v1::Task>& tasks, bool reset = false) {
  v1::WatchTasksResponse message;
  message.set_reset(reset);
  for (const v1::Task& task : tasks) *message.add_changes()->mutable_task() = task;
  return message;
}

// A message with an event of a task.
v1::WatchTasksResponse EventOf(v1::TaskEvent::Kind kind, const v1::Task& task,
                               const std::string& agent = "") {
  v1::WatchTasksResponse message = StateOf({task});
  v1::TaskEvent& event = *message.mutable_changes(0)->mutable_event();
  event.set_kind(kind);
  event.set_agent(agent);
  event.set_dispatch(task.dispatch());
  return message;
}

std::vector<std::string> Names(const std::vector<const v1::Task*>& tasks) {
  std::vector<std::string> names;
  for (const v1::Task* task : tasks) names.push_back(task->queue_id());
  return names;
}

std::vector<std::string> Names(const std::vector<Change>& changes) {
  std::vector<std::string> names;
  for (const Change& change : changes) names.push_back(change.task().queue_id());
  return names;
}

TEST(TaskBoardTest, LiveTasksAreRunningFirstAndEndedOnesNewestFirst) {
  TaskBoard board;
  board.Update(StateOf({Pending("third", 2), Pending("second", 1), Working("first"),
                        Ended("old", 1), Ended("new", 2)}));
  EXPECT_THAT(Names(board.Live()), ElementsAre("first", "second", "third"));
  EXPECT_THAT(Names(board.Ended()), ElementsAre("new", "old"));
}

TEST(TaskBoardTest, PendingTasksAreInTheOrderOfSubmission) {
  TaskBoard board;
  board.Update(StateOf({Pending("1", 1), Pending("2", 2), Pending("3", 3)}));
  board.Update(StateOf({Working("1"), Ended("2", 1)}));
  board.Update(StateOf({Pending("4", 2)}));
  EXPECT_THAT(Names(board.Live()), ElementsAre("1", "3", "4"));
}

TEST(TaskBoardTest, TaskMovesFromLiveToEnded) {
  TaskBoard board;
  board.Update(StateOf({Pending("task", 1)}));
  board.Update(EventOf(v1::TaskEvent::KIND_DONE, Ended("task", 1)));
  EXPECT_THAT(board.Live(), IsEmpty());
  EXPECT_THAT(Names(board.Ended()), ElementsAre("task"));
}

TEST(TaskBoardTest, EveryEventIsNew) {
  TaskBoard board;
  EXPECT_THAT(board.Update(EventOf(v1::TaskEvent::KIND_ADMITTED, Working("task"))), SizeIs(1));
  EXPECT_THAT(board.Update(EventOf(v1::TaskEvent::KIND_RUNNING, Working("task"))), SizeIs(1));
}

TEST(TaskBoardTest, OldEndedTasksAreNewOnlyIfNamed) {
  const v1::WatchTasksResponse message = StateOf({Working("live"), Ended("over", 1)});
  EXPECT_THAT(Names(TaskBoard().Update(message)), ElementsAre("live"));
  EXPECT_THAT(Names(TaskBoard({"live", "over"}).Update(message)), ElementsAre("live", "over"));
}

TEST(TaskBoardTest, ResetReportsOnlyChangedTasks) {
  TaskBoard board;
  board.Update(
      StateOf({Working("runs on"), Working("ends"), Pending("starts", 1), Ended("old", 5)}));
  v1::Task starts = Working("starts");
  starts.set_dispatch(1);
  EXPECT_THAT(Names(board.Update(StateOf(
                  {Working("runs on"), starts, Pending("came", 1), Ended("came and went", 8),
                   Ended("ends", 7), Ended("old", 5), Ended("older", 4)},
                  /*reset=*/true))),
              ElementsAre("starts", "came", "came and went", "ends"));
}

TEST(TaskBoardTest, ResetRemovesMissingTasks) {
  TaskBoard board;
  board.Update(StateOf({Working("lost"), Ended("forgotten", 1)}));
  board.Update(StateOf({Working("there")}, /*reset=*/true));
  EXPECT_THAT(Names(board.Live()), ElementsAre("there"));
  EXPECT_THAT(board.Ended(), IsEmpty());
}

TEST(TaskBoardTest, InterruptedSnapshotIsNotReportedTwice) {
  TaskBoard board;
  board.Update(StateOf({Working("live"), Ended("new", 9)}));
  EXPECT_THAT(board.Update(StateOf({Working("live"), Ended("new", 9), Ended("old", 8)},
                                   /*reset=*/true)),
              IsEmpty());
}

TEST(TaskBoardTest, OnlyTheNewestEndedTasksAreKeptUnlessNamed) {
  std::vector<v1::Task> tasks;
  std::vector<std::string> names;
  for (int i = 0; i < 200; ++i) {
    names.push_back(absl::StrCat("task-", i));
    tasks.push_back(Ended(names.back(), i));
  }
  TaskBoard all;
  all.Update(StateOf(tasks));
  EXPECT_THAT(all.Ended(), SizeIs(TaskBoard::kEndedMax));
  EXPECT_EQ(all.Ended().front()->queue_id(), "task-199");
  TaskBoard named(names);
  named.Update(StateOf(tasks));
  EXPECT_THAT(named.Ended(), SizeIs(200));
  EXPECT_THAT(named.CompletionStatus(), IsOk());
}

TEST(TaskBoardTest, NextStreamResumesAfterTheLastMessage) {
  TaskBoard board({"a", "b"});
  EXPECT_EQ(board.Request().resume_token(), "");
  v1::WatchTasksResponse message;
  message.set_resume_token("7/12");
  board.Update(message);
  EXPECT_EQ(board.Request().resume_token(), "7/12");
  EXPECT_THAT(board.Request().queue_ids(), ElementsAre("a", "b"));
}

TEST(TaskBoardTest, AgentNameReplacesTheAddressOnceKnown) {
  v1::Task task = Working("task");
  task.set_agent_url("grpc://127.0.0.1:7071");
  task.set_dispatch(2);
  TaskBoard board;
  board.Update(StateOf({task}));
  EXPECT_EQ(board.AgentOf(task), "127.0.0.1:7071");
  board.Update(EventOf(v1::TaskEvent::KIND_RUNNING, task, "agent-1"));
  EXPECT_EQ(board.AgentOf(task), "agent-1");
  // An event of an earlier dispatch, to another agent.
  v1::WatchTasksResponse earlier = EventOf(v1::TaskEvent::KIND_RETRY, task, "agent-2");
  earlier.mutable_changes(0)->mutable_event()->set_dispatch(1);
  board.Update(earlier);
  EXPECT_EQ(board.AgentOf(task), "agent-1");
}

TEST(TaskBoardTest, CompletionStatusNamesTasksThatDidNotComplete) {
  TaskBoard board({"good", "bad", "gone"});
  board.Update(StateOf({Ended("good", 1), Ended("bad", 1, v1::Task::STATE_FAILED),
                        Ended("gone", 1, v1::Task::STATE_CANCELLED)}));
  EXPECT_THAT(board.CompletionStatus(),
              StatusIs(absl::StatusCode::kAborted,
                       HasSubstr("2 of 3 tasks did not complete: bad failed, gone cancelled")));
}

}  // namespace
}  // namespace callboard::cli
