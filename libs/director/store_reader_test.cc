#include "libs/director/store_reader.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "libs/testing/memory_event_store.h"

namespace callboard::director {
namespace {

class StoreReaderTest : public testing::Test {
 protected:
  test::MemoryEventStores stores_;
  std::unique_ptr<ports::EventStore> store_ = *stores_.Open(ports::StoreAccess::kReadOnly);
};

TEST_F(StoreReaderTest, ReadGetsTheStoreThatIsThereWhenItsTurnComes) {
  std::promise<const ports::EventStore*> before;
  std::promise<const ports::EventStore*> after;
  StoreReader reader(10);
  ASSERT_TRUE(reader.Post([&](const ports::EventStore* store) { before.set_value(store); }));
  EXPECT_EQ(before.get_future().get(), nullptr);
  reader.Attach(store_.get());
  ASSERT_TRUE(reader.Post([&](const ports::EventStore* store) { after.set_value(store); }));
  EXPECT_EQ(after.get_future().get(), store_.get());
}

TEST_F(StoreReaderTest, ReadsRunInTheirOrderAndAllBeforeTheReaderIsGone) {
  std::vector<int> order;
  {
    StoreReader reader(10);
    for (int i = 0; i < 10; ++i) {
      ASSERT_TRUE(reader.Post([&order, i](const ports::EventStore*) { order.push_back(i); }));
    }
  }
  EXPECT_EQ(order, std::vector<int>({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST_F(StoreReaderTest, MoreThanMayWaitAreRefused) {
  std::promise<void> entered;
  std::promise<void> release;
  StoreReader reader(1);
  ASSERT_TRUE(reader.Post([&](const ports::EventStore*) {
    entered.set_value();
    release.get_future().wait();
  }));
  entered.get_future().wait();
  EXPECT_TRUE(reader.Post([](const ports::EventStore*) {}));
  EXPECT_FALSE(reader.Post([](const ports::EventStore*) {}));
  release.set_value();
}

TEST_F(StoreReaderTest, StoreIsNotTakenAwayFromAReadUnderWay) {
  std::promise<void> entered;
  std::promise<void> release;
  bool finished = false;
  StoreReader reader(1);
  reader.Attach(store_.get());
  ASSERT_TRUE(reader.Post([&](const ports::EventStore*) {
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

}  // namespace
}  // namespace callboard::director
