#include "libs/director/task_reads.h"

#include <gtest/gtest.h>

#include <memory>

#include "libs/base/check.h"
#include "libs/testing/engine_fixture.h"
#include "libs/testing/memory_event_store.h"

namespace callboard::director {
namespace {

using test::EngineFixture;

// What is read of it when the engine was asked at `glance`, and the store is read now.
core::Task Read(const EngineFixture& director, const Glance& glance) {
  test::MemoryEventStores stores;
  const std::unique_ptr<ports::EventStore> store = *stores.Open(ports::StoreAccess::kReadWrite);
  CHECK_OK(store->Commit(director.Stored()));
  return TaskAt(*store, glance).value();
}

TEST(TaskReadsTest, PendingTaskHasThePlaceThatTheEngineSaw) {
  EngineFixture director;
  const core::QueueId first = director.Add();
  const core::QueueId task = director.Add();
  director.Cancel(first);
  EXPECT_EQ(Read(director, *director.engine().Look(task)).position, 1u);
}

TEST(TaskReadsTest, PlaceAndStateAreOfOneMomentAlsoWhenTheTaskMovedSinceTheEngineSawIt) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add();
  const core::QueueId other = director.Add();
  const Glance dispatched = *director.engine().Look(task);
  director.RefuseAsBusy(task);
  EXPECT_EQ(Read(director, dispatched).position, 2u);

  const Glance bounced = *director.engine().Look(task);
  director.Report("a", 0);
  director.Add();
  director.RefuseAsBusy(other);
  director.Report("a", 0);
  director.RefuseAsBusy(task);
  EXPECT_EQ(Read(director, bounced).position, 3u);
}

}  // namespace
}  // namespace callboard::director
