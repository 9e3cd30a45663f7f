#include "libs/director/store_reader.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <thread>

#include "libs/base/check.h"
#include "libs/flow/thread_pool.h"
#include "libs/testing/engine_fixture.h"
#include "libs/testing/fake_environment.h"
#include "libs/testing/memory_event_store.h"

namespace callboard::director {
namespace {

class StoreReaderTest : public testing::Test {
 protected:
  test::MemoryEventStores stores_;
  std::unique_ptr<ports::EventStore> store_ = *stores_.Open(ports::StoreAccess::kReadOnly);
  test::FakeClock clock_;
  flow::ThreadPool pool_{2};
  flow::Flow flow_{{.lanes = {{.name = "reads", .limit = {2, 1}}}}, pool_, clock_};
  flow::Lane& lane_ = flow_.lane("reads");
};

TEST_F(StoreReaderTest, ReadGetsTheStoreThatIsAttachedWhenItRuns) {
  std::promise<const ports::EventStore*> before;
  std::promise<const ports::EventStore*> after;
  StoreReader reader(pool_);
  ASSERT_TRUE(reader.Post(lane_, [&](const ports::EventStore* store) { before.set_value(store); }));
  EXPECT_EQ(before.get_future().get(), nullptr);
  reader.Attach(store_.get());
  ASSERT_TRUE(reader.Post(lane_, [&](const ports::EventStore* store) { after.set_value(store); }));
  EXPECT_EQ(after.get_future().get(), store_.get());
}

TEST_F(StoreReaderTest, ReadsRunConcurrently) {
  std::promise<void> first_is_there;
  std::promise<void> second_is_there;
  StoreReader reader(pool_);
  ASSERT_TRUE(reader.Post(lane_, [&](const ports::EventStore*) {
    first_is_there.set_value();
    second_is_there.get_future().wait();
  }));
  ASSERT_TRUE(reader.Post(lane_, [&](const ports::EventStore*) {
    second_is_there.set_value();
    first_is_there.get_future().wait();
  }));
}

TEST_F(StoreReaderTest, DestructorWaitsForReads) {
  std::atomic<int> read = 0;
  {
    StoreReader reader(pool_);
    for (int i = 0; i < 100; ++i) {
      while (!reader.Post(lane_, [&](const ports::EventStore*) { ++read; })) {
        std::this_thread::yield();
      }
    }
  }
  EXPECT_EQ(read, 100);
}

TEST_F(StoreReaderTest, ReadBeyondTheBoundIsRejected) {
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  StoreReader reader(pool_);
  const auto hold = [released](const ports::EventStore*) { released.wait(); };
  // Two run, and one waits.
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(reader.Post(lane_, hold));
  EXPECT_FALSE(reader.Post(lane_, hold));
  release.set_value();
}

TEST_F(StoreReaderTest, AttachWaitsForRunningReads) {
  std::promise<void> entered;
  std::promise<void> release;
  bool finished = false;
  StoreReader reader(pool_);
  reader.Attach(store_.get());
  ASSERT_TRUE(reader.Post(lane_, [&](const ports::EventStore*) {
    entered.set_value();
    release.get_future().wait();
    finished = true;
  }));
  entered.get_future().wait();
  std::thread releaser([&] { release.set_value(); });
  reader.Attach(nullptr);
  EXPECT_TRUE(finished);
  releaser.join();
}

using test::EngineFixture;

// Returns the task as read now, with a summary that may be older.
core::Task Read(const EngineFixture& director, const TaskSummary& summary) {
  test::MemoryEventStores stores;
  const std::unique_ptr<ports::EventStore> store = *stores.Open(ports::StoreAccess::kReadWrite);
  CHECK_OK(store->Commit(director.Stored()));
  return ReadTask(*store, summary).value();
}

TEST(TaskReadsTest, PendingTaskHasThePositionOfItsSummary) {
  EngineFixture director;
  const core::QueueId first = director.Add();
  const core::QueueId task = director.Add();
  director.Cancel(first);
  EXPECT_EQ(Read(director, *director.engine().views().Summarize(task)).position, 1u);
}

TEST(TaskReadsTest, PositionAndStateMatchAfterALaterChange) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  const core::QueueId other = director.Add();
  const TaskSummary dispatched = *director.engine().views().Summarize(task);
  director.AnswerBusy(task);
  EXPECT_EQ(Read(director, dispatched).position, 2u);

  const TaskSummary before = *director.engine().views().Summarize(task);
  director.ReportLoad("a", 0);
  director.Add();
  director.AnswerBusy(other);
  director.ReportLoad("a", 0);
  director.AnswerBusy(task);
  EXPECT_EQ(Read(director, before).position, 3u);
}

}  // namespace
}  // namespace callboard::director
