#include "tests/crash/history_checker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace callboard::crash {
namespace {

using Answer = Call::Answer;
using State = FoundTask::State;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Builds a history, call by call: each ends before the next begins.
class HistoryCheckerTest : public testing::Test {
 protected:
  // A submit that is told to be the task "t<request id>".
  Call& Submits(const std::string& request_id, Answer answer = Answer::kDone) {
    Call call = {.request_id = request_id, .content = "content of " + request_id};
    if (answer == Answer::kDone) {
      call.queue_id = "t" + request_id;
      call.position = ++accepted_;
    }
    return Add(call, answer);
  }
  Call& Cancels(const std::string& request_id, Answer answer = Answer::kDone) {
    return Add({.kind = Call::Kind::kCancel, .queue_id = "t" + request_id}, answer);
  }
  void Lists(const std::vector<std::string>& line) {
    Add({.kind = Call::Kind::kList, .line = line}, Answer::kDone);
  }

  void Finds(const std::string& request_id, State state = State::kPending) {
    found_.push_back({.queue_id = "t" + request_id,
                      .request_id = request_id,
                      .content = "content of " + request_id,
                      .state = state,
                      .position = state == State::kPending ? ++pending_ : 0});
  }

  Verdict Check(const QueueRules& rules = {}) const {
    return CheckHistory(history_, found_, rules);
  }

  Call& Add(Call call, Answer answer) {
    call.invoked = ++tick_;
    call.answer = answer;
    if (answer != Answer::kUnknown) call.answered = ++tick_;
    history_.push_back(call);
    return history_.back();
  }

  uint64_t tick_ = 0;
  uint64_t accepted_ = 0;
  uint64_t pending_ = 0;
  History history_;
  std::vector<FoundTask> found_;
};

TEST_F(HistoryCheckerTest, WhatWasAcknowledgedAndIsThereInOrderIsFine) {
  Submits("a");
  Submits("b");
  Cancels("a");
  Submits("c");
  Finds("a", State::kCancelled);
  Finds("b");
  Finds("c");
  const Verdict verdict = Check();
  EXPECT_TRUE(verdict.ok()) << verdict.ToString();
  EXPECT_EQ(verdict.acknowledged, 3u);
  EXPECT_EQ(verdict.recovered, 0u);
}

TEST_F(HistoryCheckerTest, OnlyAgentsBringTasksToOtherStates) {
  Submits("a");
  Finds("a", State::kOther);
  EXPECT_THAT(Check().altered, ElementsAre("a: is in a state that nobody brought it to"));
  const Verdict verdict = Check({.runs = true});
  EXPECT_TRUE(verdict.ok()) << verdict.ToString();
}

TEST_F(HistoryCheckerTest, MissingAcknowledgedTaskIsLost) {
  Submits("a");
  Submits("b");
  Finds("b");
  EXPECT_THAT(Check().lost, ElementsAre("a: acknowledged as ta, and not there"));
}

TEST_F(HistoryCheckerTest, UnansweredTaskMayBeThereOrNot) {
  Submits("a", Answer::kUnknown);
  Submits("b", Answer::kUnknown);
  Finds("b");
  const Verdict verdict = Check();
  EXPECT_TRUE(verdict.ok()) << verdict.ToString();
  EXPECT_EQ(verdict.acknowledged, 0u);
  EXPECT_EQ(verdict.recovered, 1u);
}

TEST_F(HistoryCheckerTest, TaskThatNobodySubmittedIsUnexpected) {
  Finds("a");
  EXPECT_THAT(Check().unexpected, ElementsAre("ta: nobody asked for it"));
}

TEST_F(HistoryCheckerTest, TaskThatWasRefusedIsUnexpected) {
  Submits("a", Answer::kRefused);
  Finds("a");
  EXPECT_THAT(Check().unexpected, ElementsAre("a: it was refused"));
  // Unless another try was not.
  Submits("a", Answer::kUnknown);
  EXPECT_TRUE(Check().ok());
}

TEST_F(HistoryCheckerTest, TwoTasksOfOneRequestAreDuplicated) {
  Submits("a", Answer::kUnknown);
  Finds("a");
  Finds("a");
  found_.back().queue_id = "tb";
  EXPECT_THAT(Check().duplicated, ElementsAre("a: is ta and tb"));
}

TEST_F(HistoryCheckerTest, TwoNamesToldForOneRequestAreDuplicated) {
  Submits("a");
  Submits("a").queue_id = "tb";
  Finds("a");
  EXPECT_THAT(Check().duplicated, ElementsAre("a: is ta and tb"));
}

TEST_F(HistoryCheckerTest, OtherContentIsAltered) {
  Submits("a");
  Finds("a");
  found_.back().content.pop_back();
  EXPECT_THAT(Check().altered, ElementsAre("a: is not what was asked for"));
}

TEST_F(HistoryCheckerTest, CancelledTaskThatWaitsAgainIsAltered) {
  Submits("a");
  Cancels("a");
  Finds("a");
  EXPECT_THAT(Check().altered, ElementsAre("a: was cancelled, and waits in line"));
}

TEST_F(HistoryCheckerTest, UnansweredCancelMayBeDoneOrNot) {
  Submits("a");
  Submits("b");
  Cancels("a", Answer::kUnknown);
  Cancels("b", Answer::kUnknown);
  Finds("a", State::kCancelled);
  Finds("b");
  EXPECT_TRUE(Check().ok()) << Check().ToString();
}

TEST_F(HistoryCheckerTest, TaskThatNobodyCancelledIsNotCancelled) {
  Submits("a");
  Finds("a", State::kCancelled);
  EXPECT_THAT(Check().altered, ElementsAre("a: is cancelled, and nobody asked for that"));
}

TEST_F(HistoryCheckerTest, TasksInAnotherOrderThanAskedForAreReordered) {
  Submits("a");
  Submits("b", Answer::kUnknown);
  Finds("b");
  Finds("a");
  EXPECT_THAT(Check().reordered, ElementsAre("b: is in front of a, which was accepted before it"));
}

TEST_F(HistoryCheckerTest, TasksInAnotherOrderThanTheirPositionsAreReordered) {
  // At the same time, so that only the positions tell.
  Submits("a");
  Submits("b").invoked = history_.front().invoked;
  Finds("b");
  Finds("a");
  EXPECT_THAT(Check().reordered, ElementsAre("b: is in front of a, which was accepted before it"));
}

TEST_F(HistoryCheckerTest, PositionToldTwiceIsReordered) {
  Submits("a");
  Submits("b").position = 1;
  Finds("a");
  Finds("b");
  EXPECT_THAT(Check().reordered, ElementsAre(HasSubstr("is in front of")));
}

TEST_F(HistoryCheckerTest, TasksInAnotherOrderThanShownAreReordered) {
  Submits("a", Answer::kUnknown);
  Submits("b", Answer::kUnknown);
  Lists({"tb", "gone", "ta"});
  Finds("a");
  Finds("b");
  EXPECT_THAT(Check().reordered, ElementsAre("ta: was shown behind, and is in front"));
}

TEST_F(HistoryCheckerTest, LineWithAGapIsReordered) {
  Submits("a");
  Finds("a");
  found_.back().position = 2;
  EXPECT_THAT(Check().reordered, ElementsAre("a: is at position 2, behind 0"));
}

TEST_F(HistoryCheckerTest, OnlyTheFirstInLineMayBeEvicted) {
  Submits("a");
  Submits("b");
  Submits("c");
  Finds("a", State::kEvicted);
  Finds("b");
  Finds("c");
  EXPECT_TRUE(Check({.evicts = true}).ok()) << Check({.evicts = true}).ToString();
  EXPECT_THAT(Check().altered, ElementsAre("a: is evicted, and not the first in line"));
  found_[2].state = State::kEvicted;
  EXPECT_THAT(Check({.evicts = true}).altered,
              ElementsAre("c: is evicted, and not the first in line"));
}

TEST_F(HistoryCheckerTest, OnlyEndedTasksMayBeForgotten) {
  constexpr QueueRules kForgets = {.evicts = true, .forgets = true};
  Submits("a");
  Submits("b");
  Submits("c");
  Submits("d");
  Cancels("c");
  Finds("b");
  EXPECT_THAT(Check(kForgets).lost, ElementsAre("d: acknowledged as td, and not there"));
  EXPECT_THAT(Check({.evicts = true}).lost, testing::SizeIs(3));
}

TEST_F(HistoryCheckerTest, LaterAnswersAreNoneYet) {
  Submits("a");
  Submits("b");
  const History first = UpTo(history_[1].invoked, history_);
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[0].answer, Answer::kDone);
  EXPECT_EQ(first[1].answer, Answer::kUnknown);
  EXPECT_THAT(first[1].queue_id, IsEmpty());
  EXPECT_EQ(UpTo(history_[0].invoked, history_).size(), 1u);
}

}  // namespace
}  // namespace callboard::crash
