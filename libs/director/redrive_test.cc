#include "libs/director/redrive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libs/base/check.h"
#include "libs/testing/fake_random.h"
#include "libs/testing/memory_event_store.h"
#include "libs/testing/status_matchers.h"

namespace callboard::director {
namespace {

using test::HasReason;
using test::IsOk;
using test::StatusIs;

const Moment kNow = {.wall = absl::UnixEpoch() + absl::Hours(1), .monotonic = absl::Hours(1)};

// An engine over its store, turn by turn on the test's own thread.
class RedriveTest : public testing::Test {
 protected:
  RedriveTest() {
    engine_.Begin(kNow);
    Commit();
  }
  core::QueueId AddEnded(const std::string& prompt) {
    core::Submission submission;
    submission.spec.prompt = prompt;
    const Decision decision =
        engine_.Submit(Submitter("me", std::move(submission), kNow.wall), kNow);
    const core::QueueId id = std::get<Submitted>(decision).queue_id;
    CHECK_OK(engine_.Cancel(id, "me", "", kNow).status());
    Commit();
    return id;
  }
  std::vector<Redriven> RedriveAll(const std::vector<core::QueueId>& tasks) {
    return RedriveNamed({tasks.begin(), tasks.end()});
  }
  std::vector<Redriven> RedriveNamed(const std::vector<absl::StatusOr<core::QueueId>>& tasks) {
    std::vector<Redriven> answers;
    const auto read = [this](const Redrive::Reading& reading) {
      ++reads_;
      if (!read_error_.ok()) return reading(read_error_);
      reading(store_.get());
    };
    const auto post = [this](CommandPtr command) {
      ++turns_;
      if (!turn_error_.ok()) return command->Refuse(turn_error_);
      command->Decide(engine_, desk_, kNow);
      Commit();
      command->Say();
    };
    std::make_shared<Redrive>(Redrive::Desk{read, post}, tasks, "me",
                              [&](std::vector<Redriven> given) { answers = std::move(given); })
        ->ReadGroup();
    return answers;
  }
  std::string PromptOf(core::QueueId id) { return (*store_->TaskSpec(id))->prompt; }

  int reads_ = 0;
  int turns_ = 0;
  absl::Status read_error_;
  absl::Status turn_error_;

 private:
  void Commit() { CHECK_OK(store_->Commit(engine_.TakeOutcome().records)); }

  test::FakeRandom random_;
  test::MemoryEventStores stores_;
  std::unique_ptr<ports::EventStore> store_ = *stores_.Open(ports::StoreAccess::kReadWrite);
  DirectorEngine engine_{{.queue = {.max_size = 0}}, random_};
  WaiterDesk desk_;
};

TEST_F(RedriveTest, EachTaskIsSubmittedAgainAsItWasAskedFor) {
  const core::QueueId first = AddEnded("first");
  const core::QueueId second = AddEnded("second");
  const std::vector<Redriven> redriven = RedriveAll({second, first});
  ASSERT_EQ(redriven.size(), 2u);
  EXPECT_EQ(PromptOf(*redriven[0]), "second");
  EXPECT_EQ(PromptOf(*redriven[1]), "first");
  EXPECT_EQ(turns_, 1) << "small ones go together";
}

TEST_F(RedriveTest, NobodyIsRedrivenTwice) {
  const core::QueueId task = AddEnded("first");
  const std::vector<Redriven> both = RedriveAll({task, task});
  ASSERT_THAT(both[0], IsOk());
  EXPECT_EQ(*both[0], *both[1]);
  EXPECT_EQ(*RedriveAll({task})[0], *both[0]);
}

TEST_F(RedriveTest, OneThatIsUnknownDoesNotStopTheOthers) {
  const core::QueueId task = AddEnded("first");
  const std::vector<Redriven> redriven = RedriveAll({core::QueueId(core::Ulid(1, 1)), task});
  EXPECT_THAT(redriven[0].status(), HasReason("TASK_NOT_FOUND"));
  EXPECT_THAT(redriven[1], IsOk());
}

TEST_F(RedriveTest, OneThatIsNamedWrongDoesNotStopTheOthers) {
  const std::vector<Redriven> redriven =
      RedriveNamed({absl::InvalidArgumentError("no id"), AddEnded("first")});
  EXPECT_THAT(redriven[0], StatusIs(absl::StatusCode::kInvalidArgument, "no id"));
  EXPECT_THAT(redriven[1], IsOk());
}

TEST_F(RedriveTest, LargeTasksAreReadAFewAtATime) {
  std::vector<core::QueueId> tasks;
  for (int i = 0; i < 4; ++i) tasks.push_back(AddEnded(std::string(600'000, 'x')));
  for (const Redriven& redriven : RedriveAll(tasks)) EXPECT_THAT(redriven, IsOk());
  EXPECT_EQ(reads_, 2);
  EXPECT_EQ(turns_, 2);
}

TEST_F(RedriveTest, ManyTasksTakeSeveralTurns) {
  std::vector<core::QueueId> tasks;
  for (int i = 0; i < 130; ++i) tasks.push_back(AddEnded("small"));
  EXPECT_EQ(RedriveAll(tasks).size(), 130u);
  EXPECT_EQ(turns_, 3);
}

TEST_F(RedriveTest, TroubleIsTheAnswerToAllThatHaveNone) {
  const core::QueueId task = AddEnded("first");
  turn_error_ = absl::UnavailableError("overloaded");
  EXPECT_THAT(RedriveAll({task, task})[1].status(), StatusIs(absl::StatusCode::kUnavailable));
  read_error_ = absl::UnavailableError("closed");
  EXPECT_THAT(RedriveAll({task, task})[1].status(),
              StatusIs(absl::StatusCode::kUnavailable, "closed"));
}

TEST_F(RedriveTest, NothingIsAnsweredAtOnce) {
  EXPECT_TRUE(RedriveAll({}).empty());
  EXPECT_EQ(reads_, 0);
}

}  // namespace
}  // namespace callboard::director
