#include "libs/director/submit_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "libs/base/check.h"
#include "libs/director/engine.h"
#include "libs/testing/fake_environment.h"
#include "libs/testing/status_matchers.h"
#include "libs/testing/submissions.h"

namespace callboard::director {
namespace {

using test::HasReason;
using test::StatusIs;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

const Moment kNow = {.wall = absl::UnixEpoch() + absl::Hours(1), .monotonic = absl::Hours(1)};

SubmitStream::Item Task(const std::string& prompt = "echo") {
  core::Submission submission = test::SubmissionOf(prompt);
  submission.policy = core::QueuePolicy::kBlock;
  return MakeSubmitRequest("me", std::move(submission), kNow.wall);
}

std::vector<SubmitStream::Item> Tasks(int count) {
  std::vector<SubmitStream::Item> items;
  for (int i = 0; i < count; ++i) items.push_back(Task());
  return items;
}

// A stream into an engine whose turns the test runs. The queue has room for two tasks.
class SubmitStreamTest : public testing::Test {
 protected:
  SubmitStreamTest() {
    engine_.Begin(kNow);
    engine_.TakeOutcome();
    const auto post = [this](CommandPtr& command, std::function<void()> on_room) {
      if (!has_room_) {
        on_room_ = std::move(on_room);
        return false;
      }
      posted_.push_back(std::move(command));
      return true;
    };
    stream_ = std::make_shared<SubmitStream>(
        SubmitStream::Deps{CallId(1), post,
                           [this](CommandPtr command) { posted_.push_back(std::move(command)); }},
        SubmitStream::Callbacks{[this] { ++answer_notices_; }, [this] { ++room_notices_; }});
  }

  // Decides the posted commands, and sends their replies.
  void RunTurn() {
    std::vector<CommandPtr> replies;
    for (CommandPtr& command : std::exchange(posted_, {})) {
      if (command->Decide(engine_, waiters_, kNow) == Command::DecideResult::kReply) {
        replies.push_back(std::move(command));
      }
    }
    for (Outcome::Answer& answer : engine_.TakeAnswers()) {
      if (CommandPtr waiter = waiters_.Remove(answer.waiter)) {
        *waiter->decision() = std::move(answer.decision);
        replies.push_back(std::move(waiter));
      }
    }
    for (const CommandPtr& command : replies) command->SendReply();
  }
  // Frees a place in the queue.
  void CancelFirst() {
    const core::QueueId first = engine_.tasks().live_tasks().begin()->second->task.queue_id;
    CHECK_OK(engine_.Cancel(first, "me", "", kNow).status());
  }
  // Returns the indexes of new answers; for a failed item, -index - 1.
  std::vector<int> TakeIndexes(size_t most = 100) {
    std::vector<int> indexes;
    for (const SubmitStream::Answer& answer : stream_->TakeAnswers(most)) {
      const int index = static_cast<int>(answer.index);
      const auto* error = std::get_if<absl::Status>(&answer.decision);
      indexes.push_back(error == nullptr ? index : -index - 1);
      if (error != nullptr) last_error_ = *error;
    }
    return indexes;
  }

  test::FakeRandom random_;
  DirectorEngine engine_{{.queue = {.max_size = 2}}, random_};
  WaiterTable waiters_;
  std::vector<CommandPtr> posted_;
  bool has_room_ = true;
  std::function<void()> on_room_;
  std::shared_ptr<SubmitStream> stream_;
  int answer_notices_ = 0;
  int room_notices_ = 0;
  absl::Status last_error_;
};

TEST_F(SubmitStreamTest, ItemsOfOneMessageAreOneCommand) {
  EXPECT_TRUE(stream_->Submit(Tasks(2)));
  EXPECT_EQ(posted_.size(), 1u);
  EXPECT_EQ(posted_[0]->weight(), 2u);
  RunTurn();
  EXPECT_EQ(answer_notices_, 1);
  EXPECT_THAT(TakeIndexes(1), ElementsAre(0));
  EXPECT_THAT(TakeIndexes(), ElementsAre(1));
  EXPECT_THAT(TakeIndexes(), IsEmpty());
}

TEST_F(SubmitStreamTest, InvalidItemFailsInOrder) {
  std::vector<SubmitStream::Item> items = Tasks(2);
  items.insert(items.begin() + 1, absl::InvalidArgumentError("prompt is required"));
  stream_->Submit(std::move(items));
  RunTurn();
  EXPECT_THAT(TakeIndexes(), ElementsAre(0, -2, 2));
  EXPECT_THAT(last_error_, StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(SubmitStreamTest, WaitingItemBlocksLaterItems) {
  std::vector<SubmitStream::Item> items = Tasks(3);
  items.push_back(absl::InvalidArgumentError("wrong"));
  stream_->Submit(std::move(items));
  stream_->Submit(Tasks(1));
  RunTurn();
  EXPECT_THAT(TakeIndexes(), ElementsAre(0, 1));
  EXPECT_EQ(engine_.waiter_queue().size(), 1u) << "the item behind it does not wait in the queue";
  CancelFirst();
  RunTurn();
  EXPECT_THAT(TakeIndexes(), ElementsAre(2));
  RunTurn();
  EXPECT_THAT(TakeIndexes(), ElementsAre(-4))
      << "the next item has failed, and the one after it waits";
  EXPECT_EQ(engine_.waiter_queue().size(), 1u);
  CancelFirst();
  RunTurn();
  EXPECT_THAT(TakeIndexes(), ElementsAre(4));
}

TEST_F(SubmitStreamTest, StopCancelsTheWaitAndKeepsTheOwnerAlive) {
  auto owner = std::make_shared<int>();
  const std::weak_ptr<int> alive = owner;
  stream_->Submit(Tasks(4));
  RunTurn();
  stream_->Submit(Tasks(1));
  stream_->Stop(std::move(owner));
  EXPECT_FALSE(alive.expired());
  RunTurn();
  EXPECT_THAT(TakeIndexes(), ElementsAre(0, 1, -3)) << "the waiting item is cancelled";
  RunTurn();
  EXPECT_TRUE(alive.expired());
  EXPECT_EQ(engine_.waiter_queue().size(), 0u);
  EXPECT_EQ(engine_.tasks().counts().pending, 2u) << "accepted tasks stay";
  CancelFirst();
  RunTurn();
  EXPECT_EQ(engine_.tasks().counts().pending, 1u);
  EXPECT_THAT(posted_, IsEmpty());
  EXPECT_EQ(stream_.use_count(), 1);
}

TEST_F(SubmitStreamTest, FullInboxDelaysTheStreamUntilThereIsRoom) {
  has_room_ = false;
  EXPECT_FALSE(stream_->Submit(Tasks(1)));
  std::exchange(on_room_, nullptr)();
  EXPECT_EQ(room_notices_, 0) << "there is still no room";
  has_room_ = true;
  std::exchange(on_room_, nullptr)();
  EXPECT_EQ(room_notices_, 1);
  RunTurn();
  EXPECT_THAT(TakeIndexes(), ElementsAre(0));
}

TEST_F(SubmitStreamTest, FailedCommitFailsItsItems) {
  stream_->Submit(Tasks(2));
  CommandPtr command = std::move(std::exchange(posted_, {}).front());
  EXPECT_EQ(command->Decide(engine_, waiters_, kNow), Command::DecideResult::kReply);
  command->Fail(absl::UnavailableError("outcome unknown"));
  EXPECT_THAT(TakeIndexes(), ElementsAre(-1, -2));
}

TEST_F(SubmitStreamTest, FailedStoreKeepsTheOrderOfAnswers) {
  stream_->Submit(Tasks(4));
  RunTurn();
  EXPECT_THAT(TakeIndexes(), ElementsAre(0, 1));
  stream_->Submit(Tasks(1));
  std::exchange(posted_, {}).front()->Fail(absl::UnavailableError("store"));
  EXPECT_THAT(TakeIndexes(), IsEmpty()) << "earlier items come first";
  waiters_.FailAll(absl::UnavailableError("store"));
  EXPECT_THAT(TakeIndexes(), ElementsAre(-3));
  std::exchange(posted_, {}).front()->Fail(absl::UnavailableError("store"));
  EXPECT_THAT(TakeIndexes(), ElementsAre(-4, -5));
}

TEST_F(SubmitStreamTest, DrainAnswersTheWaitingItemAndLaterItems) {
  stream_->Submit(Tasks(4));
  RunTurn();
  engine_.Drain("me", "", kNow);
  RunTurn();
  RunTurn();
  EXPECT_THAT(TakeIndexes(), ElementsAre(0, 1, -3, -4));
  EXPECT_THAT(last_error_, HasReason("QUEUE_DRAINING"));
}

}  // namespace
}  // namespace callboard::director
