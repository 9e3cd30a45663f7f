#include "libs/wire/json.h"

#include <gtest/gtest.h>

#include <limits>

#include "callboard/v1/queue.pb.h"

namespace callboard::wire {
namespace {

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
            R"("fairness_keys":[]})");
}

TEST(JsonTest, EscapesText) {
  v1::LiveCount count;
  count.set_key("a\"b\n");
  EXPECT_EQ(ToJson(count), R"({"key":"a\"b\n","queued":0,"running":0})");
}

TEST(JsonTest, NumberThatJsonLacksIsNullAndUnknownEnumValueStaysANumber) {
  v1::QueueStatus status;
  status.set_drain_rate_per_second(std::numeric_limits<double>::infinity());
  status.set_policy(static_cast<v1::QueuePolicy>(99));
  EXPECT_NE(ToJson(status).find(R"("drain_rate_per_second":null)"), std::string::npos);
  EXPECT_NE(ToJson(status).find(R"("policy":99)"), std::string::npos);
}

}  // namespace
}  // namespace callboard::wire
