#include "libs/core/ids.h"

#include <gtest/gtest.h>

namespace callboard::core {
namespace {

constexpr QueueId kId = QueueId(Ulid(1, 2));

TEST(IdsTest, QueueIdRoundTrips) {
  EXPECT_EQ(ToString(kId), "queue-0000000000000g000000000002");
  EXPECT_EQ(ParseQueueId(ToString(kId)), kId);
}

TEST(IdsTest, OtherTextIsNoQueueId) {
  for (const char* text : {"", "queue-", "queue-1", "task-0000000000000g000000000002",
                           "0000000000000g000000000002", "queue-0000000000000G000000000002"}) {
    EXPECT_EQ(ParseQueueId(text), std::nullopt) << text;
  }
}

TEST(IdsTest, TaskIdContainsTaskAndDispatch) {
  EXPECT_EQ(TaskIdText(kId, DispatchNumber(3)), "task-0000000000000g000000000002-3");
  EXPECT_EQ(ParseTaskId("task-0000000000000g000000000002-3"),
            std::make_pair(kId, DispatchNumber(3)));
}

TEST(IdsTest, OtherTextIsNoTaskId) {
  for (const char* text :
       {"", "task-", "task-1-1", "task-0000000000000g000000000002",
        "task-0000000000000g000000000002-", "task-0000000000000g000000000002-x",
        "task-0000000000000g000000000002-03", "queue-0000000000000g000000000002-3"}) {
    EXPECT_EQ(ParseTaskId(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace callboard::core
