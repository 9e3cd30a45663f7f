#include "libs/director/task_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
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

using core::TaskEventKind;
using test::HasReason;
using test::IsOk;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const Moment kNow = {.wall = absl::UnixEpoch() + absl::Hours(1), .monotonic = absl::Hours(1)};

// An engine with a store, whose turns run on the test's thread, and a watching client.
class TaskWatchTest : public testing::Test {
 protected:
  TaskWatchTest() {
    engine_.Begin(kNow);
    Commit();
    feed_.Begin(engine_.epoch());
  }

  core::QueueId Add(const std::string& prompt = "echo") {
    core::Submission submission = test::SubmissionOf(prompt);
    const Decision decision =
        engine_.Submit(MakeSubmitRequest("me", std::move(submission), kNow.wall), kNow);
    Commit();
    return std::get<SubmitResult>(decision).queue_id;
  }
  void Cancel(core::QueueId id) {
    CHECK_OK(engine_.Cancel(id, "me", "", kNow).status());
    Commit();
  }

  // Everything that one client has received.
  struct Client {
    std::shared_ptr<TaskWatch> watch = {};
    std::vector<WatchUpdate> updates = {};
    std::optional<absl::Status> end = {};
    bool fell_behind = false;
  };
  std::unique_ptr<Client> Watch(WatchQuery query = {}) {
    auto client = std::make_unique<Client>();
    const auto read = [this](const TaskWatch::ReadCallback& callback) {
      if (!read_error_.ok()) return callback(read_error_);
      callback(store_.get());
    };
    const auto post = [this](CommandPtr command) {
      command->Decide(engine_, waiters_, kNow);
      Commit();
      command->SendReply();
    };
    TaskWatch::Callbacks callbacks = {
        .on_update = [client =
                          client.get()](WatchUpdate update) { client->updates.push_back(update); },
        .on_end = [client = client.get()](absl::Status status) { client->end = status; },
        .on_fell_behind = [client = client.get()] { client->fell_behind = true; }};
    client->watch = std::make_shared<TaskWatch>(TaskWatch::Deps{feed_, read, post},
                                                std::move(query), std::move(callbacks));
    client->watch->Begin();
    return client;
  }
  // Lets the client receive everything that is available.
  static void ReceiveAll(Client& client) {
    for (size_t received = 0; received < client.updates.size() && !client.end.has_value();
         ++received) {
      if (received + 1 == client.updates.size()) client.watch->Continue();
    }
  }
  static std::vector<TaskEventKind> Kinds(const WatchUpdate& update) {
    std::vector<TaskEventKind> kinds;
    for (const WatchUpdate::Item& item : update.items) kinds.push_back(item.event->kind);
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
  WaiterTable waiters_;
};

TEST_F(TaskWatchTest, SnapshotOfAllTasksIsFollowedByChanges) {
  const core::QueueId first = Add("first");
  Add("second");
  const auto client = Watch();
  ASSERT_THAT(client->updates, SizeIs(1));
  ASSERT_THAT(client->updates[0].items, SizeIs(2));
  EXPECT_EQ(test::ParseSpec(client->updates[0].items[1].task->spec).prompt(), "second");
  EXPECT_EQ(client->updates[0].items[1].task->position, 2u);
  EXPECT_EQ(client->updates[0].items[1].event, std::nullopt);
  EXPECT_FALSE(client->updates[0].reset);
  EXPECT_TRUE(client->updates[0].cursor.has_value());
  client->watch->Continue();
  ASSERT_THAT(client->updates, SizeIs(1)) << "there are no changes yet";
  Cancel(first);
  ASSERT_THAT(client->updates, SizeIs(2));
  EXPECT_THAT(Kinds(client->updates[1]), ElementsAre(TaskEventKind::kCancelled));
  EXPECT_EQ(client->updates[1].items[0].task->state, core::LifecycleState::kCancelled);
}

TEST_F(TaskWatchTest, EmptyQueueSendsAnEmptySnapshotWithACursor) {
  const auto client = Watch();
  ASSERT_THAT(client->updates, SizeIs(1));
  EXPECT_THAT(client->updates[0].items, IsEmpty());
  EXPECT_TRUE(client->updates[0].cursor.has_value());
}

TEST_F(TaskWatchTest, FirstRecordIsSentAsTwoEvents) {
  const auto client = Watch();
  client->watch->Continue();
  Add();
  ASSERT_THAT(client->updates, SizeIs(2));
  EXPECT_THAT(
      Kinds(client->updates[1]),
      ElementsAre(TaskEventKind::kSubmitted, TaskEventKind::kAdmitted, TaskEventKind::kDenied));
  EXPECT_EQ(client->updates[1].items[1].task->position, 1u);
}

TEST_F(TaskWatchTest, NothingIsReadBeforeContinue) {
  const auto client = Watch();
  for (int i = 0; i < 3; ++i) Add();
  EXPECT_THAT(client->updates, SizeIs(1));
  client->watch->Continue();
  EXPECT_THAT(client->updates, SizeIs(2)) << "the other changes are one update";
}

TEST_F(TaskWatchTest, WatchResumesFromItsCursor) {
  const auto before = Watch();
  const core::QueueId task = Add();
  const auto client = Watch({.resumes = true, .from = before->updates[0].cursor});
  ASSERT_THAT(client->updates, SizeIs(1));
  EXPECT_FALSE(client->updates[0].reset);
  EXPECT_EQ(client->updates[0].items[0].task->queue_id, task);
  EXPECT_EQ(client->updates[0].items[0].event->kind, TaskEventKind::kSubmitted);
}

TEST_F(TaskWatchTest, ForgottenCursorCausesAReset) {
  const auto before = Watch();
  for (int i = 0; i < 9; ++i) Add();
  EXPECT_TRUE(before->fell_behind);
  for (const std::optional<FeedCursor>& from : {before->updates[0].cursor, {}}) {
    const auto client = Watch({.resumes = true, .from = from});
    ASSERT_THAT(client->updates, SizeIs(1));
    EXPECT_TRUE(client->updates[0].reset);
    EXPECT_THAT(client->updates[0].items, SizeIs(9));
  }
}

TEST_F(TaskWatchTest, ReopenedStoreCausesAReset) {
  const auto client = Watch();
  Add();
  ReceiveAll(*client);
  feed_.Begin(9);
  ASSERT_THAT(client->updates, SizeIs(3));
  EXPECT_TRUE(client->updates[2].reset);
  EXPECT_THAT(client->updates[2].items, SizeIs(1));
  EXPECT_EQ(client->updates[2].cursor->epoch, 9u);
}

TEST_F(TaskWatchTest, NamedTasksAreWatchedUntilAllHaveEnded) {
  const core::QueueId first = Add();
  const core::QueueId second = Add();
  const auto client = Watch({.tasks = {first, second}});
  EXPECT_THAT(client->updates[0].items, SizeIs(2));
  ReceiveAll(*client);
  for (int i = 0; i < 20; ++i) Add();
  EXPECT_THAT(client->updates, SizeIs(1)) << "changes of other tasks are not sent";
  EXPECT_FALSE(client->fell_behind);
  Cancel(first);
  ReceiveAll(*client);
  EXPECT_FALSE(client->end.has_value());
  Cancel(second);
  ReceiveAll(*client);
  ASSERT_TRUE(client->end.has_value());
  EXPECT_THAT(*client->end, IsOk());
  EXPECT_THAT(client->updates, SizeIs(3));
}

TEST_F(TaskWatchTest, ResumedWatchOfEndedTasksSendsMissedChangesAndEnds) {
  const core::QueueId task = Add();
  const auto before = Watch({.tasks = {task}});
  Cancel(task);
  const auto client = Watch({.tasks = {task}, .resumes = true, .from = before->updates[0].cursor});
  ASSERT_THAT(client->updates, SizeIs(1));
  EXPECT_THAT(Kinds(client->updates[0]), ElementsAre(TaskEventKind::kCancelled));
  ReceiveAll(*client);
  EXPECT_THAT(*client->end, IsOk());
}

TEST_F(TaskWatchTest, UnknownTaskEndsTheWatch) {
  const auto client = Watch({.tasks = {core::QueueId(core::Ulid(1, 1))}});
  EXPECT_THAT(*client->end, HasReason("TASK_NOT_FOUND"));
}

TEST_F(TaskWatchTest, SnapshotOfLargeTasksHasACursorInTheLastUpdate) {
  for (int i = 0; i < 3; ++i) Add(std::string(40'000, 'x'));
  const auto client = Watch();
  ReceiveAll(*client);
  ASSERT_THAT(client->updates, SizeIs(2));
  EXPECT_THAT(client->updates[0].items, SizeIs(2));
  EXPECT_FALSE(client->updates[0].cursor.has_value());
  EXPECT_THAT(client->updates[1].items, SizeIs(1));
  EXPECT_TRUE(client->updates[1].cursor.has_value());
}

TEST_F(TaskWatchTest, ManyTasksAreSentInPages) {
  for (int i = 0; i < 600; ++i) Add();
  const auto client = Watch();
  ReceiveAll(*client);
  size_t tasks = 0;
  for (const WatchUpdate& piece : client->updates) {
    tasks += piece.items.size();
    EXPECT_LE(piece.items.size(), 64u);
  }
  EXPECT_EQ(tasks, 600u);
}

TEST_F(TaskWatchTest, StoppedWatchSendsNothing) {
  const auto client = Watch();
  client->watch->Continue();
  client->watch->Stop();
  Add();
  EXPECT_THAT(client->updates, SizeIs(1));
  EXPECT_EQ(client->watch.use_count(), 1);
}

TEST_F(TaskWatchTest, UnreadableStoreEndsTheWatch) {
  const auto client = Watch();
  client->watch->Continue();
  read_error_ = absl::UnavailableError("closed");
  Add();
  EXPECT_EQ(*client->end, read_error_);
}

}  // namespace
}  // namespace callboard::director
