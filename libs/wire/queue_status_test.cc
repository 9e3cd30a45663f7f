#include "libs/wire/task.h"

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
  status.dispatches_total = 12;
  status.oldest_age = absl::Milliseconds(13500);
  status.paused = true;
  status.draining = true;
  status.pause = core::SwitchCause{"anna", "the disk is full", absl::FromUnixSeconds(0)};
  status.drain = core::SwitchCause{"bert", "", absl::FromUnixSeconds(1)};
  status.drain_rate_per_second = 14.5;
  status.sources = {{"cli", {.queued = 15, .running = 16}}};
  status.fairness_keys = {{"team", {.queued = 17, .running = 18}}};
  EXPECT_EQ(
      ToJson(ToProto(status)),
      R"({"depth":1,"max_size":50,"policy":"drop-latest","ready":7,"delayed":8,"waiting":9,)"
      R"("tickets":10,"in_flight":5,"max_in_flight":11,"dispatched_count":5,)"
      R"("oldest_age_seconds":13.5,"paused":true,"draining":true,"drain_rate_per_second":14.5,)"
      R"("counts":{"pending":1,"dispatching":2,"working":3,"completed":4,"failed":5,)"
      R"("cancelled":6},"sources":[{"key":"cli","queued":15,"running":16}],)"
      R"("fairness_keys":[{"key":"team","queued":17,"running":18}],)"
      R"("dispatches_total":12,"idle":false,)"
      R"("pause":{"who":"anna","why":"the disk is full","at":"1970-01-01T00:00:00Z"},)"
      R"("drain":{"who":"bert","why":"","at":"1970-01-01T00:00:01Z"}})");
}

TEST(QueueStatusTest, QueueIsIdleWhenNothingIsPendingInFlightOrWaiting) {
  core::QueueStatus status;
  status.counts = {.completed = 1, .failed = 1, .cancelled = 1};
  status.tickets = 1;
  EXPECT_TRUE(ToProto(status).idle());
  for (uint64_t* busy :
       {&status.counts.pending, &status.counts.dispatching, &status.counts.working}) {
    *busy = 1;
    EXPECT_FALSE(ToProto(status).idle());
    *busy = 0;
  }
  status.waiting = 1;
  EXPECT_FALSE(ToProto(status).idle());
}

}  // namespace
}  // namespace callboard::wire
