#include "libs/wire/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "callboard/v1/queue.pb.h"

namespace callboard::wire {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(JsonTest, WritesEveryFieldNumbersAsNumbersAndEnumsAsText) {
  v1::QueueStatus status;
  status.set_depth(5);
  status.set_max_size(50);
  status.set_policy(v1::QUEUE_POLICY_DROP_OLDEST);
  status.set_dispatched_count(std::numeric_limits<uint64_t>::max());
  status.set_oldest_age_seconds(1.5);
  status.set_draining(true);
  status.add_sources()->set_key("cli");
  status.add_sources()->set_queued(2);
  EXPECT_EQ(ToJson(status),
            R"({"depth":5,"max_size":50,"policy":"drop-oldest","ready":0,"delayed":0,"waiting":0,)"
            R"("tickets":0,"in_flight":0,"max_in_flight":0,)"
            R"("dispatched_count":18446744073709551615,"oldest_age_seconds":1.5,"paused":false,)"
            R"("draining":true,"drain_rate_per_second":0,"counts":null,)"
            R"("sources":[{"key":"cli","queued":0,"running":0},{"key":"","queued":2,"running":0}],)"
            R"("fairness_keys":[],"dispatches_total":0,"idle":false,"pause":null,"drain":null})");
}

TEST(JsonTest, WritesTimesDurationsBytesAndMaps) {
  v1::Task task;
  task.mutable_created_at()->set_seconds(1'700'000'000);
  task.mutable_created_at()->set_nanos(500'000'000);
  task.set_result("\x01\xff");
  (*task.mutable_labels())["b"] = "2";
  (*task.mutable_labels())["a"] = "1";
  task.set_exit_code(0);
  task.set_state(v1::Task::STATE_FAILED);
  task.set_reason(v1::Task::REASON_EXEC_FAILED);
  EXPECT_THAT(ToJson(task),
              AllOf(HasSubstr(R"("created_at":"2023-11-14T22:13:20.500Z")"),
                    HasSubstr(R"("result":"Af8=")"), HasSubstr(R"("labels":{"a":"1","b":"2"})"),
                    HasSubstr(R"("exit_code":0)"), HasSubstr(R"("thinking":null)"),
                    HasSubstr(R"("finished_at":null)"), HasSubstr(R"("state":"failed")"),
                    HasSubstr(R"("reason":"EXEC_FAILED")"), HasSubstr(R"("priority":null)")));
  v1::ReserveSlotRequest reserve;
  reserve.mutable_hold()->set_seconds(90);
  EXPECT_EQ(ToJson(reserve), R"({"hold":"90s"})");
}

TEST(JsonTest, WritesOnlyTheSetMemberOfAOneof) {
  v1::RedriveTasksResponse::Item item;
  item.set_queue_id("queue-1");
  item.set_redriven_as("queue-2");
  EXPECT_EQ(ToJson(item), R"({"queue_id":"queue-1","redriven_as":"queue-2"})");
}

TEST(JsonTest, EscapesText) {
  v1::LiveCount count;
  count.set_key("a\"b\n");
  EXPECT_EQ(ToJson(count), R"({"key":"a\"b\n","queued":0,"running":0})");
}

TEST(JsonTest, InfinityIsNullAndUnknownEnumValueIsANumber) {
  v1::QueueStatus status;
  status.set_drain_rate_per_second(std::numeric_limits<double>::infinity());
  status.set_policy(static_cast<v1::QueuePolicy>(99));
  EXPECT_NE(ToJson(status).find(R"("drain_rate_per_second":null)"), std::string::npos);
  EXPECT_NE(ToJson(status).find(R"("policy":99)"), std::string::npos);
}

}  // namespace
}  // namespace callboard::wire
