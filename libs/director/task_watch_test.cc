#include "libs/director/task_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libs/base/check.h"
#include "libs/testing/fake_random.h"
#include "libs/testing/memory_event_store.h"
#include "libs/testing/status_matchers.h"

namespace callboard::director {
namespace {

using core::TaskEventKind;
using test::HasReason;
using test::IsOk;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const Moment kNow = {.wall = absl::UnixEpoch() + absl::Hours(1), .monotonic = absl::Hours(1)};

// An engine over its store, turn by turn on the test's own thread, and somebody who watches.
class TaskWatchTest : public testing::Test {
 protected:
  TaskWatchTest() {
    engine_.Begin(kNow);
    Commit();
    feed_.Begin(engine_.epoch());
  }

  core::QueueId Add(const std::string& prompt = "echo") {
    core::Submission submission;
    submission.spec.prompt = prompt;
    const Decision decision =
        engine_.Submit(Submitter("me", std::move(submission), kNow.wall), kNow);
    Commit();
    return std::get<Submitted>(decision).queue_id;
  }
  void Cancel(core::QueueId id) {
    CHECK_OK(engine_.Cancel(id, "me", "", kNow).status());
    Commit();
  }

  // What one who watches has seen.
  struct Seen {
    std::shared_ptr<TaskWatch> watch = {};
    std::vector<Watched> pieces = {};
    std::optional<absl::Status> end = {};
    bool fell_behind = false;
  };
  std::unique_ptr<Seen> Watch(WatchQuery query = {}) {
    auto seen = std::make_unique<Seen>();
    const auto read = [this](const TaskWatch::Reading& reading) {
      if (!read_error_.ok()) return reading(read_error_);
      reading(store_.get());
    };
    const auto post = [this](CommandPtr command) {
      command->Decide(engine_, desk_, kNow);
      Commit();
      command->Say();
    };
    TaskWatch::Viewer viewer = {
        .show = [seen = seen.get()](Watched watched) { seen->pieces.push_back(watched); },
        .end = [seen = seen.get()](absl::Status status) { seen->end = status; },
        .fall_behind = [seen = seen.get()] { seen->fell_behind = true; }};
    seen->watch = std::make_shared<TaskWatch>(TaskWatch::Desk{feed_, read, post}, std::move(query),
                                              std::move(viewer));
    seen->watch->Begin();
    return seen;
  }
  // Lets him see all that there is.
  static void SeeAll(Seen& seen) {
    for (size_t shown = 0; shown < seen.pieces.size() && !seen.end.has_value(); ++shown) {
      if (shown + 1 == seen.pieces.size()) seen.watch->GoOn();
    }
  }
  static std::vector<TaskEventKind> Kinds(const Watched& watched) {
    std::vector<TaskEventKind> kinds;
    for (const Watched::Item& item : watched.items) kinds.push_back(item.event->kind);
    return kinds;
  }

  absl::Status read_error_;
  ChangeFeed feed_{8};

 private:
  void Commit() {
    const Outcome outcome = engine_.TakeOutcome();
    CHECK_OK(store_->Commit(outcome.records));
    feed_.Publish(outcome.records);
  }

  test::FakeRandom random_;
  test::MemoryEventStores stores_;
  std::unique_ptr<ports::EventStore> store_ = *stores_.Open(ports::StoreAccess::kReadWrite);
  DirectorEngine engine_{{.queue = {.max_size = 0}}, random_};
  WaiterDesk desk_;
};

TEST_F(TaskWatchTest, AllTasksAreShownAsTheyAreAndThenEachChange) {
  const core::QueueId first = Add("first");
  Add("second");
  const auto seen = Watch();
  ASSERT_THAT(seen->pieces, SizeIs(1));
  ASSERT_THAT(seen->pieces[0].items, SizeIs(2));
  EXPECT_EQ(seen->pieces[0].items[1].task->spec.prompt, "second");
  EXPECT_EQ(seen->pieces[0].items[1].task->position, 2u);
  EXPECT_EQ(seen->pieces[0].items[1].event, std::nullopt);
  EXPECT_FALSE(seen->pieces[0].reset);
  EXPECT_TRUE(seen->pieces[0].place.has_value());
  seen->watch->GoOn();
  ASSERT_THAT(seen->pieces, SizeIs(1)) << "there is nothing else yet";
  Cancel(first);
  ASSERT_THAT(seen->pieces, SizeIs(2));
  EXPECT_THAT(Kinds(seen->pieces[1]), ElementsAre(TaskEventKind::kCanceled));
  EXPECT_EQ(seen->pieces[1].items[0].task->state, core::TaskState::kCancelled);
}

TEST_F(TaskWatchTest, EmptyQueueIsShownSoThatThereIsAPlaceToGoOnFrom) {
  const auto seen = Watch();
  ASSERT_THAT(seen->pieces, SizeIs(1));
  EXPECT_THAT(seen->pieces[0].items, IsEmpty());
  EXPECT_TRUE(seen->pieces[0].place.has_value());
}

TEST_F(TaskWatchTest, FirstRecordIsShownAsTwoEvents) {
  const auto seen = Watch();
  seen->watch->GoOn();
  Add();
  ASSERT_THAT(seen->pieces, SizeIs(2));
  EXPECT_THAT(
      Kinds(seen->pieces[1]),
      ElementsAre(TaskEventKind::kSubmitted, TaskEventKind::kAdmitted, TaskEventKind::kDenied));
  EXPECT_EQ(seen->pieces[1].items[1].task->position, 1u);
}

TEST_F(TaskWatchTest, NothingIsReadWhileThereIsNoRoom) {
  const auto seen = Watch();
  for (int i = 0; i < 3; ++i) Add();
  EXPECT_THAT(seen->pieces, SizeIs(1));
  seen->watch->GoOn();
  EXPECT_THAT(seen->pieces, SizeIs(2)) << "the rest comes together";
}

TEST_F(TaskWatchTest, WatchGoesOnFromItsPlace) {
  const auto before = Watch();
  const core::QueueId task = Add();
  const auto seen = Watch({.resumes = true, .from = before->pieces[0].place});
  ASSERT_THAT(seen->pieces, SizeIs(1));
  EXPECT_FALSE(seen->pieces[0].reset);
  EXPECT_EQ(seen->pieces[0].items[0].task->queue_id, task);
  EXPECT_EQ(seen->pieces[0].items[0].event->kind, TaskEventKind::kSubmitted);
}

TEST_F(TaskWatchTest, PlaceThatIsForgottenIsAReset) {
  const auto before = Watch();
  for (int i = 0; i < 9; ++i) Add();
  EXPECT_TRUE(before->fell_behind);
  for (const std::optional<FeedPlace>& from : {before->pieces[0].place, {}}) {
    const auto seen = Watch({.resumes = true, .from = from});
    ASSERT_THAT(seen->pieces, SizeIs(1));
    EXPECT_TRUE(seen->pieces[0].reset);
    EXPECT_THAT(seen->pieces[0].items, SizeIs(9));
  }
}

TEST_F(TaskWatchTest, StoreThatIsOpenedAnewIsAReset) {
  const auto seen = Watch();
  Add();
  SeeAll(*seen);
  feed_.Begin(9);
  ASSERT_THAT(seen->pieces, SizeIs(3));
  EXPECT_TRUE(seen->pieces[2].reset);
  EXPECT_THAT(seen->pieces[2].items, SizeIs(1));
  EXPECT_EQ(seen->pieces[2].place->epoch, 9u);
}

TEST_F(TaskWatchTest, NamedTasksAreWatchedUntilAllHaveEnded) {
  const core::QueueId first = Add();
  const core::QueueId second = Add();
  const auto seen = Watch({.tasks = {first, second}});
  EXPECT_THAT(seen->pieces[0].items, SizeIs(2));
  SeeAll(*seen);
  for (int i = 0; i < 20; ++i) Add();
  EXPECT_THAT(seen->pieces, SizeIs(1)) << "others are none of its business";
  EXPECT_FALSE(seen->fell_behind);
  Cancel(first);
  SeeAll(*seen);
  EXPECT_FALSE(seen->end.has_value());
  Cancel(second);
  SeeAll(*seen);
  ASSERT_TRUE(seen->end.has_value());
  EXPECT_THAT(*seen->end, IsOk());
  EXPECT_THAT(seen->pieces, SizeIs(3));
}

TEST_F(TaskWatchTest, WatchOfEndedTasksThatGoesOnShowsWhatWasMissedAndEnds) {
  const core::QueueId task = Add();
  const auto before = Watch({.tasks = {task}});
  Cancel(task);
  const auto seen = Watch({.tasks = {task}, .resumes = true, .from = before->pieces[0].place});
  ASSERT_THAT(seen->pieces, SizeIs(1));
  EXPECT_THAT(Kinds(seen->pieces[0]), ElementsAre(TaskEventKind::kCanceled));
  SeeAll(*seen);
  EXPECT_THAT(*seen->end, IsOk());
}

TEST_F(TaskWatchTest, UnknownTaskEndsTheWatch) {
  const auto seen = Watch({.tasks = {core::QueueId(core::Ulid(1, 1))}});
  EXPECT_THAT(*seen->end, HasReason("TASK_NOT_FOUND"));
}

TEST_F(TaskWatchTest, LargeTasksAreShownAFewAtATimeAndOnlyTheLastPieceHasAPlace) {
  for (int i = 0; i < 3; ++i) Add(std::string(40'000, 'x'));
  const auto seen = Watch();
  SeeAll(*seen);
  ASSERT_THAT(seen->pieces, SizeIs(2));
  EXPECT_THAT(seen->pieces[0].items, SizeIs(2));
  EXPECT_FALSE(seen->pieces[0].place.has_value());
  EXPECT_THAT(seen->pieces[1].items, SizeIs(1));
  EXPECT_TRUE(seen->pieces[1].place.has_value());
}

TEST_F(TaskWatchTest, ManyTasksAreShownPageByPage) {
  for (int i = 0; i < 600; ++i) Add();
  const auto seen = Watch();
  SeeAll(*seen);
  size_t tasks = 0;
  for (const Watched& piece : seen->pieces) {
    tasks += piece.items.size();
    EXPECT_LE(piece.items.size(), 64u);
  }
  EXPECT_EQ(tasks, 600u);
}

TEST_F(TaskWatchTest, WhoLeavesIsShownNothingMore) {
  const auto seen = Watch();
  seen->watch->GoOn();
  seen->watch->Stop();
  Add();
  EXPECT_THAT(seen->pieces, SizeIs(1));
  EXPECT_EQ(seen->watch.use_count(), 1);
}

TEST_F(TaskWatchTest, StoreThatCannotBeReadEndsTheWatch) {
  const auto seen = Watch();
  seen->watch->GoOn();
  read_error_ = absl::UnavailableError("closed");
  Add();
  EXPECT_EQ(*seen->end, read_error_);
}

}  // namespace
}  // namespace callboard::director
