#include "services/cli/task_board.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
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

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::Not;
using ::testing::StartsWith;

v1::Task DetailedTask(v1::Task::State state, const std::string& id) {
  v1::Task task;
  task.set_queue_id(id);
  task.set_state(state);
  task.set_prompt("fix the build");
  task.set_max_attempts(3);
  task.mutable_created_at()->set_seconds(1);
  return task;
}

v1::Task WithFinish(v1::Task task, int64_t second) {
  task.mutable_dispatched_at()->set_seconds(second - 2);
  task.mutable_finished_at()->set_seconds(second);
  return task;
}

v1::WatchTasksResponse::Change ChangeOf(const v1::Task& task, v1::TaskEvent::Kind kind,
                                        const std::string& why = "") {
  v1::WatchTasksResponse::Change change;
  *change.mutable_task() = task;
  v1::TaskEvent& event = *change.mutable_event();
  event.set_kind(kind);
  event.set_why(why);
  event.set_agent("agent-1");
  event.set_dispatch(2);
  event.mutable_at()->set_seconds(60);
  return change;
}

TEST(BoardTextTest, LineShowsTheStateAfterTheEvent) {
  v1::Task task = DetailedTask(v1::Task::STATE_FAILED, "queue-1");
  task.set_reason(v1::Task::REASON_EXEC_FAILED);
  task.set_attempts(2);
  task.set_dispatch(2);
  // The task has failed since, but the line shows the state after the event.
  EXPECT_EQ(ChangeLine(ChangeOf(task, v1::TaskEvent::KIND_RUNNING)),
            "1970-01-01T00:01:00.000Z  queue-1  working      agent-1       2");
  EXPECT_EQ(ChangeLine(ChangeOf(task, v1::TaskEvent::KIND_RETRY, "exited with 7")),
            "1970-01-01T00:01:00.000Z  queue-1  pending      agent-1       2  exited with 7; "
            "2 dispatches, 2 failed attempts of 3 allowed");
  EXPECT_EQ(ChangeLine(ChangeOf(task, v1::TaskEvent::KIND_FAILED, "exited with 7")),
            "1970-01-01T00:01:00.000Z  queue-1  failed       agent-1       2  EXEC_FAILED: "
            "exited with 7");
}

TEST(BoardTextTest, UncountedRetryIsNoFailedAttempt) {
  v1::Task task = DetailedTask(v1::Task::STATE_PENDING, "queue-1");
  task.set_dispatch(1);
  EXPECT_THAT(ChangeLine(ChangeOf(task, v1::TaskEvent::KIND_RETRY, "its agent is gone")),
              EndsWith("  its agent is gone; 1 dispatch, 0 failed attempts of 3 allowed"));
}

TEST(BoardTextTest, EachEventKindHasItsState) {
  const std::pair<v1::TaskEvent::Kind, std::string> states[] = {
      {v1::TaskEvent::KIND_ADMITTED, "pending"},
      {v1::TaskEvent::KIND_BUSY, "pending"},
      {v1::TaskEvent::KIND_DISPATCHING, "dispatching"},
      {v1::TaskEvent::KIND_DONE, "completed"},
      {v1::TaskEvent::KIND_TIMEOUT, "failed"},
      {v1::TaskEvent::KIND_CANCELED, "cancelled"},
      // These change nothing.
      {v1::TaskEvent::KIND_CANCEL_REQUESTED, "working"},
      {v1::TaskEvent::KIND_ORPHAN_RESULT, "working"},
  };
  for (const auto& [kind, state] : states) {
    EXPECT_THAT(ChangeLine(ChangeOf(DetailedTask(v1::Task::STATE_WORKING, "queue-1"), kind)),
                HasSubstr(absl::StrCat("  queue-1  ", state, " ")))
        << kind;
  }
  EXPECT_THAT(ChangeLine(ChangeOf(DetailedTask(v1::Task::STATE_WORKING, "queue-1"),
                                  v1::TaskEvent::KIND_CANCEL_REQUESTED, "by mistake")),
              EndsWith("  cancel requested: by mistake"));
}

TEST(BoardTextTest, LineWithoutAnEventShowsTheTimeOfTheState) {
  v1::WatchTasksResponse::Change change;
  *change.mutable_task() = DetailedTask(v1::Task::STATE_PENDING, "queue-1");
  EXPECT_EQ(ChangeLine(change), "1970-01-01T00:00:01.000Z  queue-1  pending      -             -");
  *change.mutable_task() = WithFinish(DetailedTask(v1::Task::STATE_FAILED, "queue-1"), 9);
  change.mutable_task()->set_reason(v1::Task::REASON_EXEC_FAILED);
  change.mutable_task()->set_last_error("exited with 7");
  change.mutable_task()->set_agent_url("grpc://127.0.0.1:7071");
  EXPECT_THAT(ChangeLine(change),
              AllOf(StartsWith("1970-01-01T00:00:09.000Z"), HasSubstr("  127.0.0.1:7071  "),
                    EndsWith("EXEC_FAILED: exited with 7")));
}

TEST(BoardTextTest, ControlCharactersAreEscaped) {
  const std::string line = ChangeLine(ChangeOf(DetailedTask(v1::Task::STATE_FAILED, "queue-1"),
                                               v1::TaskEvent::KIND_FAILED,
                                               "a\x1b[2Jb\nc\xc2\x9b"
                                               "d ü"));
  EXPECT_THAT(line, EndsWith(R"(a\u001b[2Jb\nc\u009bd ü)"));
}

class BoardLinesTest : public testing::Test {
 protected:
  void Show(const std::vector<v1::Task>& tasks) {
    v1::WatchTasksResponse message;
    for (const v1::Task& task : tasks) *message.add_changes()->mutable_task() = task;
    board_.Update(message);
  }
  void ShowMany(int pending, int ended) {
    std::vector<v1::Task> tasks;
    for (int i = 1; i <= pending; ++i) {
      tasks.push_back(DetailedTask(v1::Task::STATE_PENDING, absl::StrFormat("pending-%03d", i)));
      tasks.back().set_position(static_cast<uint64_t>(i));
    }
    for (int i = 1; i <= ended; ++i) {
      tasks.push_back(
          WithFinish(DetailedTask(v1::Task::STATE_COMPLETED, absl::StrCat("ended-", i)), i));
    }
    Show(tasks);
  }
  std::vector<std::string> Lines(const Frame& frame, const std::string& note = "") {
    return BoardLines(board_, status_, note, frame);
  }

  TaskBoard board_;
  v1::QueueStatus status_;
};

TEST_F(BoardLinesTest, ViewShowsTheQueueAndItsTasks) {
  status_.set_depth(3);
  status_.set_max_size(50);
  status_.set_in_flight(1);
  status_.set_max_in_flight(2);
  status_.set_waiting(4);
  v1::Task working = DetailedTask(v1::Task::STATE_WORKING, "queue-1");
  working.set_agent_url("grpc://127.0.0.1:7071");
  working.set_dispatch(2);
  working.mutable_dispatched_at()->set_seconds(90);
  v1::Task failed = WithFinish(DetailedTask(v1::Task::STATE_FAILED, "queue-2"), 50);
  failed.set_reason(v1::Task::REASON_EXEC_FAILED);
  failed.set_last_error("exited with 7");
  Show({working, failed});
  const std::vector<std::string> lines =
      Lines({.columns = 200, .rows = 24, .now = absl::FromUnixSeconds(100)});
  ASSERT_THAT(lines, SizeIs(4));
  EXPECT_EQ(lines[0], "queue  3 of 50 pending, 1 of 2 running, 4 waiting");
  EXPECT_EQ(lines[2],
            "queue-1                          working     127.0.0.1:7071          2     10s  "
            "\"fix the build\"");
  EXPECT_EQ(lines[3],
            "queue-2                          failed                              0      2s  "
            "EXEC_FAILED: exited with 7  \"fix the build\"");
}

TEST_F(BoardLinesTest, ViewFitsTheWindow) {
  ShowMany(100, 100);
  for (size_t rows = 0; rows < 40; ++rows) {
    for (const size_t columns : {1, 20, 40, 80}) {
      const std::vector<std::string> lines = Lines({.columns = columns, .rows = rows});
      EXPECT_LE(lines.size(), rows == 0 ? 0 : rows - 1);
      // The ellipsis is one character of three bytes.
      for (const std::string& line : lines) EXPECT_LE(line.size(), columns + 2);
    }
  }
}

TEST_F(BoardLinesTest, ViewCountsHiddenTasksAndShowsTheNewestEndedOnes) {
  ShowMany(10, 10);
  const std::vector<std::string> lines = Lines({.columns = 80, .rows = 12});
  ASSERT_THAT(lines, SizeIs(11));
  EXPECT_THAT(lines[2], StartsWith("pending-001 "));
  EXPECT_THAT(lines[6], StartsWith("pending-005 "));
  EXPECT_EQ(lines[7], "and 5 more");
  EXPECT_THAT(lines[8], StartsWith("ended-10 "));
  EXPECT_THAT(lines[10], StartsWith("ended-8 "));
}

TEST_F(BoardLinesTest, EndedTasksFillTheRemainingRows) {
  ShowMany(1, 10);
  const std::vector<std::string> lines = Lines({.columns = 80, .rows = 12});
  ASSERT_THAT(lines, SizeIs(11));
  EXPECT_THAT(lines[10], StartsWith("ended-3 "));
}

TEST_F(BoardLinesTest, ColourIsOptional) {
  Show({WithFinish(DetailedTask(v1::Task::STATE_COMPLETED, "queue-1"), 9)});
  EXPECT_THAT(Lines({.has_colour = true})[2], HasSubstr("\x1b[32mcompleted  \x1b[0m"));
  EXPECT_THAT(Lines({.has_colour = false})[2], Not(HasSubstr("\x1b")));
  EXPECT_THAT(Lines({.columns = 40, .has_colour = true})[2], Not(HasSubstr("\x1b")))
      << "where it would be cut";
}

TEST_F(BoardLinesTest, NoteIsShown) {
  EXPECT_THAT(Lines({}, "the director is gone")[0], EndsWith("  the director is gone"));
}

}  // namespace
}  // namespace callboard::cli
