#include "libs/director/store_reader.h"

#include <gtest/gtest.h>

#include <memory>

#include "libs/base/check.h"
#include "libs/testing/engine_fixture.h"
#include "libs/testing/memory_event_store.h"

namespace callboard::director {
namespace {

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
  EXPECT_EQ(Read(director, *director.engine().Summarize(task)).position, 1u);
}

TEST(TaskReadsTest, PositionAndStateMatchAfterALaterChange) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  const core::QueueId other = director.Add();
  const TaskSummary dispatched = *director.engine().Summarize(task);
  director.AnswerBusy(task);
  EXPECT_EQ(Read(director, dispatched).position, 2u);

  const TaskSummary before = *director.engine().Summarize(task);
  director.ReportLoad("a", 0);
  director.Add();
  director.AnswerBusy(other);
  director.ReportLoad("a", 0);
  director.AnswerBusy(task);
  EXPECT_EQ(Read(director, before).position, 3u);
}

}  // namespace
}  // namespace callboard::director
