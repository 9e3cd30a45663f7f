#include "tests/e2e/run_checker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace callboard::e2e {
namespace {

using Event = v1::TaskEvent;
using Kind = RunLine::Kind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using v1::Task;

// Builds a few tasks with their events, and the records of their runs.
class RunCheckerTest : public testing::Test {
 protected:
  // Adds an admitted task.
  ObservedTask& Has(const std::string& id) {
    ObservedTask& seen = tasks_.emplace_back();
    seen.task.set_queue_id(id);
    seen.task.set_max_attempts(3);
    seen.task.set_state(Task::STATE_PENDING);
    Happens(seen, Event::KIND_SUBMITTED);
    Happens(seen, Event::KIND_ADMITTED);
    return seen;
  }
  static void Happens(ObservedTask& seen, Event::Kind kind, uint64_t dispatch = 0) {
    Event& event = seen.events.emplace_back();
    event.set_number(seen.events.size());
    event.set_kind(kind);
    event.set_dispatch(dispatch);
  }
  static void Dispatches(ObservedTask& seen, uint64_t dispatch) {
    Happens(seen, Event::KIND_DISPATCHING, dispatch);
    Happens(seen, Event::KIND_RUNNING, dispatch);
    seen.task.set_dispatch(dispatch);
  }
  static void Completes(ObservedTask& seen, uint64_t dispatch) {
    Happens(seen, Event::KIND_DONE, dispatch);
    seen.task.set_state(Task::STATE_COMPLETED);
    seen.task.set_result(FenceToken{seen.task.queue_id(), dispatch, 1}.ToString() + "\n");
  }
  static void Returns(ObservedTask& seen, uint64_t dispatch) {
    Happens(seen, Event::KIND_RETRY, dispatch);
    seen.task.set_attempts(seen.task.attempts() + 1);
  }
  void Records(Kind kind, const std::string& id, uint64_t dispatch) {
    record_.push_back({.kind = kind, .token = {id, dispatch, 1}, .at = 1.0, .pid = 7});
  }
  void Runs(const std::string& id, uint64_t dispatch) {
    Records(Kind::kBegin, id, dispatch);
    Records(Kind::kEnd, id, dispatch);
  }
  // Adds a task that ran once and completed.
  ObservedTask& HasCompleted(const std::string& id) {
    ObservedTask& seen = Has(id);
    Dispatches(seen, 1);
    Runs(id, 1);
    Completes(seen, 1);
    return seen;
  }

  RunCheckResult Check() const { return CheckRuns(tasks_, record_); }

  std::vector<ObservedTask> tasks_;
  std::vector<RunLine> record_;
};

TEST_F(RunCheckerTest, SequentialAttemptsWithOneEndPass) {
  HasCompleted("a");
  ObservedTask& b = Has("b");
  Dispatches(b, 1);
  Records(Kind::kBegin, "b", 1);
  Returns(b, 1);
  Dispatches(b, 2);
  Runs("b", 2);
  Completes(b, 2);
  Happens(b, Event::KIND_ORPHAN_RESULT, 1);
  ObservedTask& c = Has("c");
  Happens(c, Event::KIND_CANCELED);
  c.task.set_state(Task::STATE_CANCELLED);
  const RunCheckResult check_result = Check();
  EXPECT_TRUE(check_result.ok()) << check_result.ToString();
  EXPECT_EQ(check_result.ended, 3u);
  EXPECT_EQ(check_result.runs, 3u);
  EXPECT_EQ(check_result.orphaned, 1u);
}

TEST_F(RunCheckerTest, TaskInFlightHasNotEnded) {
  Dispatches(Has("a"), 1);
  EXPECT_THAT(Check().unended, ElementsAre("a: is STATE_PENDING"));
}

TEST_F(RunCheckerTest, SecondEndIsAViolation) {
  Happens(HasCompleted("a"), Event::KIND_FAILED, 1);
  EXPECT_THAT(Check().unended, ElementsAre("a: ended twice"));
}

TEST_F(RunCheckerTest, EventAfterTheEndIsAViolation) {
  Happens(HasCompleted("a"), Event::KIND_DISPATCHING, 2);
  EXPECT_THAT(Check().inconsistent, ElementsAre(HasSubstr("KIND_DISPATCHING) came after the end")));
}

TEST_F(RunCheckerTest, StateMatchesTheEndEvent) {
  HasCompleted("a").task.set_state(Task::STATE_FAILED);
  EXPECT_THAT(Check().inconsistent, ElementsAre("a: is STATE_FAILED after KIND_DONE"));
}

TEST_F(RunCheckerTest, ProcessesOfAnotherDispatchOverlap) {
  HasCompleted("a");
  Records(Kind::kOverlap, "a", 1);
  EXPECT_THAT(Check().overlapping,
              ElementsAre("a/1/1: started while another dispatch had processes"));
}

TEST_F(RunCheckerTest, RunThatEndsAfterTheNextStartOverlaps) {
  ObservedTask& a = Has("a");
  Dispatches(a, 1);
  Records(Kind::kBegin, "a", 1);
  Returns(a, 1);
  Dispatches(a, 2);
  Records(Kind::kBegin, "a", 2);
  Records(Kind::kEnd, "a", 1);
  Completes(a, 2);
  EXPECT_THAT(Check().overlapping,
              ElementsAre("a/1/1: ended after another run of its task had started"));
}

TEST_F(RunCheckerTest, DispatchRunsOnce) {
  HasCompleted("a");
  Runs("a", 1);
  EXPECT_THAT(Check().overlapping, ElementsAre("a/1/1: started twice"));
}

TEST_F(RunCheckerTest, ResultOfAnotherDispatchIsStale) {
  ObservedTask& a = Has("a");
  Dispatches(a, 1);
  Runs("a", 1);
  Returns(a, 1);
  Dispatches(a, 2);
  Runs("a", 2);
  Completes(a, 2);
  a.task.set_result("a/1/1\n");
  EXPECT_THAT(Check().stale,
              ElementsAre(HasSubstr("dispatch 2 ended it with the result of 'a/1/1")));
}

TEST_F(RunCheckerTest, ResultOfAnotherTaskIsStale) {
  HasCompleted("a").task.set_result("b/1/1\n");
  EXPECT_THAT(Check().stale, ElementsAre(HasSubstr("'b/1/1")));
}

TEST_F(RunCheckerTest, CompletedTaskNeedsAResultAndAFinishedRun) {
  ObservedTask& a = Has("a");
  Dispatches(a, 1);
  Records(Kind::kBegin, "a", 1);
  Completes(a, 1);
  a.task.set_result("");
  const RunCheckResult check_result = Check();
  EXPECT_THAT(check_result.stale, ElementsAre(HasSubstr("the result of ''")));
  EXPECT_THAT(check_result.inconsistent,
              ElementsAre("a: is completed, but dispatch 1 did not finish its run"));
}

TEST_F(RunCheckerTest, ConcurrentDispatchIsAViolation) {
  ObservedTask& a = HasCompleted("a");
  a.events.clear();
  Dispatches(a, 1);
  Dispatches(a, 2);
  Runs("a", 2);
  Completes(a, 2);
  EXPECT_THAT(Check().inconsistent,
              ElementsAre(HasSubstr("came while another dispatch was in flight")));
}

TEST_F(RunCheckerTest, ReusedDispatchNumberIsAViolation) {
  ObservedTask& a = Has("a");
  Dispatches(a, 1);
  Returns(a, 1);
  Dispatches(a, 1);
  Runs("a", 1);
  Completes(a, 1);
  EXPECT_THAT(Check().inconsistent, ElementsAre(HasSubstr("has a number that was used before")));
}

TEST_F(RunCheckerTest, EndBelongsToTheLastDispatch) {
  ObservedTask& a = Has("a");
  Dispatches(a, 1);
  Returns(a, 1);
  Dispatches(a, 2);
  Runs("a", 1);
  Completes(a, 1);
  EXPECT_THAT(Check().inconsistent, ElementsAre(HasSubstr("is of dispatch 1 and not of 2")));
}

TEST_F(RunCheckerTest, AttemptsAreBoundedByDispatchesAndLimit) {
  HasCompleted("a").task.set_attempts(2);
  EXPECT_THAT(Check().inconsistent,
              ElementsAre("a: 2 attempts and 0 busy answers in 1 dispatches"));
  ObservedTask& b = HasCompleted("b");
  b.task.set_attempts(1);
  b.task.set_max_attempts(0);
  EXPECT_THAT(Check().inconsistent, testing::Contains("b: 1 attempts, and at most 0"));
}

TEST_F(RunCheckerTest, DispatchCountMatchesTheEvents) {
  HasCompleted("a").task.set_dispatch(2);
  EXPECT_THAT(Check().inconsistent, ElementsAre("a: has dispatch 2; its events have 1"));
}

TEST_F(RunCheckerTest, RunOfAnUnknownDispatchIsAViolation) {
  HasCompleted("a");
  Runs("a", 2);
  EXPECT_THAT(Check().inconsistent, ElementsAre("a: dispatch 2 ran but does not exist"));
}

TEST_F(RunCheckerTest, EarlierDispatchCannotStartAfterALaterOne) {
  ObservedTask& a = Has("a");
  Dispatches(a, 1);
  Returns(a, 1);
  Dispatches(a, 2);
  Runs("a", 2);
  Runs("a", 1);
  Completes(a, 2);
  EXPECT_THAT(Check().inconsistent, ElementsAre("a: dispatch 1 started after dispatch 2"));
}

TEST_F(RunCheckerTest, RunOfAnUnknownTaskIsAViolation) {
  Runs("ghost", 1);
  const RunCheckResult check_result = Check();
  EXPECT_THAT(check_result.inconsistent, ElementsAre("ghost: ran, but is unknown to the director"));
  EXPECT_THAT(check_result.overlapping, IsEmpty());
}

}  // namespace
}  // namespace callboard::e2e
