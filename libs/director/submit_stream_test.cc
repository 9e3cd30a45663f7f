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
#include "libs/testing/fake_random.h"
#include "libs/testing/status_matchers.h"

namespace callboard::director {
namespace {

using test::HasReason;
using test::StatusIs;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

const Moment kNow = {.wall = absl::UnixEpoch() + absl::Hours(1), .monotonic = absl::Hours(1)};

SubmitStream::Item Task(const std::string& prompt = "echo") {
  core::Submission submission;
  submission.spec.prompt = prompt;
  submission.policy = core::QueuePolicy::kBlock;
  return Submitter("me", std::move(submission), kNow.wall);
}

std::vector<SubmitStream::Item> Tasks(int count) {
  std::vector<SubmitStream::Item> items;
  for (int i = 0; i < count; ++i) items.push_back(Task());
  return items;
}

// A stream to an engine whose turns a test takes, with room for two tasks in the queue.
class SubmitStreamTest : public testing::Test {
 protected:
  SubmitStreamTest() {
    engine_.Begin(kNow);
    engine_.TakeOutcome();
    const auto post = [this](CommandPtr& command, std::function<void()> when_room) {
      if (!has_room_) {
        when_room_ = std::move(when_room);
        return false;
      }
      posted_.push_back(std::move(command));
      return true;
    };
    stream_ = std::make_shared<SubmitStream>(
        SubmitStream::Desk{CallId(1), post,
                           [this](CommandPtr command) { posted_.push_back(std::move(command)); }},
        SubmitStream::Owner{[this] { ++told_; }, [this] { ++rooms_; }});
  }

  // Decides what was posted, and says it.
  void Turn() {
    std::vector<CommandPtr> said;
    for (CommandPtr& command : std::exchange(posted_, {})) {
      if (command->Decide(engine_, desk_, kNow) == Command::Then::kSay) {
        said.push_back(std::move(command));
      }
    }
    for (Outcome::Answer& answer : engine_.TakeAnswers()) {
      if (std::unique_ptr<DoorCommand> seated = desk_.Take(answer.waiter)) {
        seated->SetDecision(std::move(answer.decision));
        said.push_back(std::move(seated));
      }
    }
    for (const CommandPtr& command : said) command->Say();
  }
  // Makes room in the queue.
  void CancelFirst() {
    const core::QueueId first = engine_.book().line().begin()->second->life.queue_id;
    CHECK_OK(engine_.Cancel(first, "me", "", kNow).status());
  }
  // The indexes of what is answered now; of a refused one, negative and less one.
  std::vector<int> Answered(size_t most = 100) {
    std::vector<int> indexes;
    for (const SubmitStream::Answer& answer : stream_->Take(most)) {
      const int index = static_cast<int>(answer.index);
      const auto* refused = std::get_if<absl::Status>(&answer.decision);
      indexes.push_back(refused == nullptr ? index : -index - 1);
      if (refused != nullptr) refusal_ = *refused;
    }
    return indexes;
  }

  test::FakeRandom random_;
  DirectorEngine engine_{{.queue = {.max_size = 2}}, random_};
  WaiterDesk desk_;
  std::vector<CommandPtr> posted_;
  bool has_room_ = true;
  std::function<void()> when_room_;
  std::shared_ptr<SubmitStream> stream_;
  int told_ = 0;
  int rooms_ = 0;
  absl::Status refusal_;
};

TEST_F(SubmitStreamTest, ItemsThatComeTogetherAreOneCommandAndAnsweredInOrder) {
  EXPECT_TRUE(stream_->Submit(Tasks(2)));
  EXPECT_EQ(posted_.size(), 1u);
  EXPECT_EQ(posted_[0]->weight(), 2u);
  Turn();
  EXPECT_EQ(told_, 1);
  EXPECT_THAT(Answered(1), ElementsAre(0));
  EXPECT_THAT(Answered(), ElementsAre(1));
  EXPECT_THAT(Answered(), IsEmpty());
}

TEST_F(SubmitStreamTest, ItemThatIsNoTaskIsRefusedInItsPlace) {
  std::vector<SubmitStream::Item> items = Tasks(2);
  items.insert(items.begin() + 1, absl::InvalidArgumentError("prompt is required"));
  stream_->Submit(std::move(items));
  Turn();
  EXPECT_THAT(Answered(), ElementsAre(0, -2, 2));
  EXPECT_THAT(refusal_, StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(SubmitStreamTest, ItemThatWaitsHoldsUpThoseBehindIt) {
  std::vector<SubmitStream::Item> items = Tasks(3);
  items.push_back(absl::InvalidArgumentError("wrong"));
  stream_->Submit(std::move(items));
  stream_->Submit(Tasks(1));
  Turn();
  EXPECT_THAT(Answered(), ElementsAre(0, 1));
  EXPECT_EQ(engine_.waiting_line().size(), 1u) << "the one behind it is not at the door";
  CancelFirst();
  Turn();
  EXPECT_THAT(Answered(), ElementsAre(2));
  Turn();
  EXPECT_THAT(Answered(), ElementsAre(-4)) << "what it held up; and the next waits";
  EXPECT_EQ(engine_.waiting_line().size(), 1u);
  CancelFirst();
  Turn();
  EXPECT_THAT(Answered(), ElementsAre(4));
}

TEST_F(SubmitStreamTest, CallerThatLeavesEndsItsWaitAndItsOwnerLivesUntilThen) {
  auto owner = std::make_shared<int>();
  const std::weak_ptr<int> alive = owner;
  stream_->Submit(Tasks(4));
  Turn();
  stream_->Submit(Tasks(1));
  stream_->Stop(std::move(owner));
  EXPECT_FALSE(alive.expired());
  Turn();
  EXPECT_THAT(Answered(), ElementsAre(0, 1, -3)) << "the one that waited is cancelled";
  Turn();
  EXPECT_TRUE(alive.expired());
  EXPECT_EQ(engine_.waiting_line().size(), 0u);
  EXPECT_EQ(engine_.book().counts().pending, 2u) << "what was accepted stays";
  CancelFirst();
  Turn();
  EXPECT_EQ(engine_.book().counts().pending, 1u);
  EXPECT_THAT(posted_, IsEmpty());
  EXPECT_EQ(stream_.use_count(), 1);
}

TEST_F(SubmitStreamTest, WithoutRoomItWaitsAndIsToldWhenItMayGoOn) {
  has_room_ = false;
  EXPECT_FALSE(stream_->Submit(Tasks(1)));
  std::exchange(when_room_, nullptr)();
  EXPECT_EQ(rooms_, 0) << "there is still none";
  has_room_ = true;
  std::exchange(when_room_, nullptr)();
  EXPECT_EQ(rooms_, 1);
  Turn();
  EXPECT_THAT(Answered(), ElementsAre(0));
}

TEST_F(SubmitStreamTest, WhatIsNotOnDiskIsNotAccepted) {
  stream_->Submit(Tasks(2));
  CommandPtr command = std::move(std::exchange(posted_, {}).front());
  EXPECT_EQ(command->Decide(engine_, desk_, kNow), Command::Then::kSay);
  command->Refuse(absl::UnavailableError("outcome unknown"));
  EXPECT_THAT(Answered(), ElementsAre(-1, -2));
}

TEST_F(SubmitStreamTest, AnswersKeepTheirOrderWhenTheStoreFailsWhileAnItemWaits) {
  stream_->Submit(Tasks(4));
  Turn();
  EXPECT_THAT(Answered(), ElementsAre(0, 1));
  stream_->Submit(Tasks(1));
  std::exchange(posted_, {}).front()->Refuse(absl::UnavailableError("store"));
  EXPECT_THAT(Answered(), IsEmpty()) << "others come before it";
  desk_.RefuseAll(absl::UnavailableError("store"));
  EXPECT_THAT(Answered(), ElementsAre(-3));
  std::exchange(posted_, {}).front()->Refuse(absl::UnavailableError("store"));
  EXPECT_THAT(Answered(), ElementsAre(-4, -5));
}

TEST_F(SubmitStreamTest, DrainAnswersTheOneThatWaitsAndThoseBehindIt) {
  stream_->Submit(Tasks(4));
  Turn();
  engine_.Drain("me", "", kNow);
  Turn();
  Turn();
  EXPECT_THAT(Answered(), ElementsAre(0, 1, -3, -4));
  EXPECT_THAT(refusal_, HasReason("QUEUE_DRAINING"));
}

}  // namespace
}  // namespace callboard::director
