#include "libs/director/redrive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libs/base/check.h"
#include "libs/director/engine.h"
#include "libs/testing/fake_environment.h"
#include "libs/testing/memory_event_store.h"
#include "libs/testing/status_matchers.h"
#include "libs/testing/submissions.h"

namespace callboard::director {
namespace {

using test::HasReason;
using test::IsOk;
using test::StatusIs;

const Moment kNow = {.wall = absl::UnixEpoch() + absl::Hours(1), .monotonic = absl::Hours(1)};

// An engine with a store. Turns run on the test's thread.
class RedriveTest : public testing::Test {
 protected:
  RedriveTest() {
    engine_.Begin(kNow);
    Commit();
  }
  core::QueueId AddEnded(const std::string& prompt) {
    core::Submission submission = test::SubmissionOf(prompt);
    const Decision decision =
        engine_.Submit(MakeSubmitRequest("me", std::move(submission), kNow.wall), kNow);
    const core::QueueId id = std::get<SubmitResult>(decision).queue_id;
    CHECK_OK(engine_.Cancel(id, "me", "", kNow).status());
    Commit();
    return id;
  }
  std::vector<RedriveResult> RedriveAll(const std::vector<core::QueueId>& tasks) {
    return RedriveNamed({tasks.begin(), tasks.end()});
  }
  std::vector<RedriveResult> RedriveNamed(const std::vector<absl::StatusOr<core::QueueId>>& tasks) {
    std::vector<RedriveResult> answers;
    const auto read = [this](const Redrive::ReadCallback& callback) {
      ++reads_;
      if (!read_error_.ok()) return callback(read_error_);
      callback(store_.get());
    };
    const auto post = [this](CommandPtr command) {
      ++turns_;
      if (!turn_error_.ok()) return command->Fail(turn_error_);
      command->Decide(engine_, waiters_, kNow);
      Commit();
      command->SendReply();
    };
    std::make_shared<Redrive>(Redrive::Deps{read, post}, tasks, "me", wire::MakeRedrive,
                              [&](std::vector<RedriveResult> given) { answers = std::move(given); })
        ->ReadGroup();
    return answers;
  }
  std::string PromptOf(core::QueueId id) { return test::ParseSpec(*store_->Spec(id)).prompt(); }

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
  WaiterTable waiters_;
};

TEST_F(RedriveTest, EachTaskIsSubmittedAgainWithItsSpec) {
  const core::QueueId first = AddEnded("first");
  const core::QueueId second = AddEnded("second");
  const std::vector<RedriveResult> redriven = RedriveAll({second, first});
  ASSERT_EQ(redriven.size(), 2u);
  EXPECT_EQ(PromptOf(*redriven[0]), "second");
  EXPECT_EQ(PromptOf(*redriven[1]), "first");
  EXPECT_EQ(turns_, 1) << "small tasks are one group";
}

TEST_F(RedriveTest, TaskIsRedrivenOnce) {
  const core::QueueId task = AddEnded("first");
  const std::vector<RedriveResult> both = RedriveAll({task, task});
  ASSERT_THAT(both[0], IsOk());
  EXPECT_EQ(*both[0], *both[1]);
  EXPECT_EQ(*RedriveAll({task})[0], *both[0]);
}

TEST_F(RedriveTest, UnknownTaskDoesNotStopTheOthers) {
  const core::QueueId task = AddEnded("first");
  const std::vector<RedriveResult> redriven = RedriveAll({core::QueueId(core::Ulid(1, 1)), task});
  EXPECT_THAT(redriven[0].status(), HasReason("TASK_NOT_FOUND"));
  EXPECT_THAT(redriven[1], IsOk());
}

TEST_F(RedriveTest, InvalidIdDoesNotStopTheOthers) {
  const std::vector<RedriveResult> redriven =
      RedriveNamed({absl::InvalidArgumentError("no id"), AddEnded("first")});
  EXPECT_THAT(redriven[0], StatusIs(absl::StatusCode::kInvalidArgument, "no id"));
  EXPECT_THAT(redriven[1], IsOk());
}

TEST_F(RedriveTest, LargeTasksAreReadInSmallGroups) {
  std::vector<core::QueueId> tasks;
  for (int i = 0; i < 4; ++i) tasks.push_back(AddEnded(std::string(600'000, 'x')));
  for (const RedriveResult& redriven : RedriveAll(tasks)) EXPECT_THAT(redriven, IsOk());
  EXPECT_EQ(reads_, 2);
  EXPECT_EQ(turns_, 2);
}

TEST_F(RedriveTest, ManyTasksTakeSeveralTurns) {
  std::vector<core::QueueId> tasks;
  for (int i = 0; i < 130; ++i) tasks.push_back(AddEnded("small"));
  EXPECT_EQ(RedriveAll(tasks).size(), 130u);
  EXPECT_EQ(turns_, 3);
}

TEST_F(RedriveTest, ErrorIsTheResultOfAllRemainingTasks) {
  const core::QueueId task = AddEnded("first");
  turn_error_ = absl::UnavailableError("overloaded");
  EXPECT_THAT(RedriveAll({task, task})[1].status(), StatusIs(absl::StatusCode::kUnavailable));
  read_error_ = absl::UnavailableError("closed");
  EXPECT_THAT(RedriveAll({task, task})[1].status(),
              StatusIs(absl::StatusCode::kUnavailable, "closed"));
}

TEST_F(RedriveTest, EmptyRedriveIsAnsweredImmediately) {
  EXPECT_TRUE(RedriveAll({}).empty());
  EXPECT_EQ(reads_, 0);
}

}  // namespace
}  // namespace callboard::director
