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

// Builds a history call by call: each call ends before the next one begins.
class HistoryCheckerTest : public testing::Test {
 protected:
  // Adds a submit whose answer is the task "t<request id>".
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
  void Lists(const std::vector<std::string>& queue) {
    Add({.kind = Call::Kind::kList, .queue = queue}, Answer::kDone);
  }

  void Finds(const std::string& request_id, State state = State::kPending) {
    found_.push_back({.queue_id = "t" + request_id,
                      .request_id = request_id,
                      .content = "content of " + request_id,
                      .state = state,
                      .position = state == State::kPending ? ++pending_ : 0});
  }

  CheckResult Check(const QueueRules& rules = {}) const {
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

TEST_F(HistoryCheckerTest, AcknowledgedTasksInOrderPass) {
  Submits("a");
  Submits("b");
  Cancels("a");
  Submits("c");
  Finds("a", State::kCancelled);
  Finds("b");
  Finds("c");
  const CheckResult check_result = Check();
  EXPECT_TRUE(check_result.ok()) << check_result.ToString();
  EXPECT_EQ(check_result.acknowledged, 3u);
  EXPECT_EQ(check_result.recovered, 0u);
}

TEST_F(HistoryCheckerTest, OnlyAgentsChangeTheState) {
  Submits("a");
  Finds("a", State::kOther);
  EXPECT_THAT(Check().altered, ElementsAre("a: is in a state without a cause"));
  const CheckResult check_result = Check({.runs = true});
  EXPECT_TRUE(check_result.ok()) << check_result.ToString();
}

TEST_F(HistoryCheckerTest, MissingAcknowledgedTaskIsLost) {
  Submits("a");
  Submits("b");
  Finds("b");
  EXPECT_THAT(Check().lost, ElementsAre("a: acknowledged as ta, but missing"));
}

TEST_F(HistoryCheckerTest, UnansweredTaskMayExistOrNot) {
  Submits("a", Answer::kUnknown);
  Submits("b", Answer::kUnknown);
  Finds("b");
  const CheckResult check_result = Check();
  EXPECT_TRUE(check_result.ok()) << check_result.ToString();
  EXPECT_EQ(check_result.acknowledged, 0u);
  EXPECT_EQ(check_result.recovered, 1u);
}

TEST_F(HistoryCheckerTest, TaskThatWasNeverSubmittedIsUnexpected) {
  Finds("a");
  EXPECT_THAT(Check().unexpected, ElementsAre("ta: was never requested"));
}

TEST_F(HistoryCheckerTest, RejectedTaskIsUnexpected) {
  Submits("a", Answer::kRejected);
  Finds("a");
  EXPECT_THAT(Check().unexpected, ElementsAre("a: was rejected"));
  // Another attempt may have been accepted.
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

TEST_F(HistoryCheckerTest, TwoIdsForOneRequestAreDuplicated) {
  Submits("a");
  Submits("a").queue_id = "tb";
  Finds("a");
  EXPECT_THAT(Check().duplicated, ElementsAre("a: is ta and tb"));
}

TEST_F(HistoryCheckerTest, OtherContentIsAltered) {
  Submits("a");
  Finds("a");
  found_.back().content.pop_back();
  EXPECT_THAT(Check().altered, ElementsAre("a: has another content than the request"));
}

TEST_F(HistoryCheckerTest, CancelledTaskThatIsPendingIsAltered) {
  Submits("a");
  Cancels("a");
  Finds("a");
  EXPECT_THAT(Check().altered, ElementsAre("a: was cancelled, but is pending"));
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

TEST_F(HistoryCheckerTest, CancelledTaskWithoutACancelIsAltered) {
  Submits("a");
  Finds("a", State::kCancelled);
  EXPECT_THAT(Check().altered, ElementsAre("a: is cancelled without a cancel request"));
}

TEST_F(HistoryCheckerTest, TasksInAnotherOrderThanSubmittedAreReordered) {
  Submits("a");
  Submits("b", Answer::kUnknown);
  Finds("b");
  Finds("a");
  EXPECT_THAT(Check().reordered, ElementsAre("b: is in front of a, which was accepted before it"));
}

TEST_F(HistoryCheckerTest, TasksInAnotherOrderThanTheirPositionsAreReordered) {
  // The calls overlap, so that only the positions show the order.
  Submits("a");
  Submits("b").invoked = history_.front().invoked;
  Finds("b");
  Finds("a");
  EXPECT_THAT(Check().reordered, ElementsAre("b: is in front of a, which was accepted before it"));
}

TEST_F(HistoryCheckerTest, DuplicatePositionIsReordered) {
  Submits("a");
  Submits("b").position = 1;
  Finds("a");
  Finds("b");
  EXPECT_THAT(Check().reordered, ElementsAre(HasSubstr("is in front of")));
}

TEST_F(HistoryCheckerTest, TasksInAnotherOrderThanListedAreReordered) {
  Submits("a", Answer::kUnknown);
  Submits("b", Answer::kUnknown);
  Lists({"tb", "gone", "ta"});
  Finds("a");
  Finds("b");
  EXPECT_THAT(Check().reordered,
              ElementsAre("ta: was listed behind another task, but is in front of it"));
}

TEST_F(HistoryCheckerTest, QueueWithAGapIsReordered) {
  Submits("a");
  Finds("a");
  found_.back().position = 2;
  EXPECT_THAT(Check().reordered, ElementsAre("a: is at position 2, behind 0"));
}

TEST_F(HistoryCheckerTest, OnlyTheFirstTaskMayBeEvicted) {
  Submits("a");
  Submits("b");
  Submits("c");
  Finds("a", State::kEvicted);
  Finds("b");
  Finds("c");
  EXPECT_TRUE(Check({.evicts = true}).ok()) << Check({.evicts = true}).ToString();
  EXPECT_THAT(Check().altered, ElementsAre("a: was evicted, but was not first in the queue"));
  found_[2].state = State::kEvicted;
  EXPECT_THAT(Check({.evicts = true}).altered,
              ElementsAre("c: was evicted, but was not first in the queue"));
}

TEST_F(HistoryCheckerTest, OnlyEndedTasksMayBeForgotten) {
  constexpr QueueRules kForgets = {.evicts = true, .forgets = true};
  Submits("a");
  Submits("b");
  Submits("c");
  Submits("d");
  Cancels("c");
  Finds("b");
  EXPECT_THAT(Check(kForgets).lost, ElementsAre("d: acknowledged as td, but missing"));
  EXPECT_THAT(Check({.evicts = true}).lost, testing::SizeIs(3));
}

TEST_F(HistoryCheckerTest, HistoryUntilRemovesLaterAnswers) {
  Submits("a");
  Submits("b");
  const History first = HistoryUntil(history_[1].invoked, history_);
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[0].answer, Answer::kDone);
  EXPECT_EQ(first[1].answer, Answer::kUnknown);
  EXPECT_THAT(first[1].queue_id, IsEmpty());
  EXPECT_EQ(HistoryUntil(history_[0].invoked, history_).size(), 1u);
}

}  // namespace
}  // namespace callboard::crash
