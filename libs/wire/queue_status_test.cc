#include "libs/wire/queue_status.h"

#include <gtest/gtest.h>

#include "libs/wire/json.h"

namespace callboard::wire {
namespace {

TEST(QueueStatusTest, EveryValueReachesItsField) {
  core::QueueStatus status;
  status.options = {.max_size = 50, .policy = core::QueuePolicy::kDropLatest};
  status.counts = {
      .pending = 1, .dispatching = 2, .working = 3, .completed = 4, .failed = 5, .cancelled = 6};
  status.ready = 7;
  status.delayed = 8;
  status.waiting = 9;
  status.tickets = 10;
  status.max_in_flight = 11;
  status.dispatched_count = 12;
  status.oldest_age = absl::Milliseconds(13500);
  status.paused = true;
  status.draining = true;
  status.drain_rate_per_second = 14.5;
  status.sources = {{"cli", {.queued = 15, .running = 16}}};
  status.fairness_keys = {{"team", {.queued = 17, .running = 18}}};
  EXPECT_EQ(
      ToJson(ToProto(status)),
      R"({"depth":1,"max_size":50,"policy":"drop-latest","ready":7,"delayed":8,"waiting":9,)"
      R"("tickets":10,"in_flight":5,"max_in_flight":11,"dispatched_count":12,)"
      R"("oldest_age_seconds":13.5,"paused":true,"draining":true,"drain_rate_per_second":14.5,)"
      R"("counts":{"pending":1,"dispatching":2,"working":3,"completed":4,"failed":5,)"
      R"("cancelled":6},"sources":[{"key":"cli","queued":15,"running":16}],)"
      R"("fairness_keys":[{"key":"team","queued":17,"running":18}]})");
}

}  // namespace
}  // namespace callboard::wire
