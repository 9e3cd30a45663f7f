#include "libs/wire/task.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <memory>
#include <optional>
#include <string>

#include "libs/base/error.h"
#include "libs/testing/random_message.h"
#include "libs/wire/enums.h"
#include "libs/wire/json.h"

namespace callboard::wire {
namespace {

using ::google::protobuf::util::MessageDifferencer;

TEST(TaskTest, RandomFenceTokensRoundTripOrFail) {
  // RC_PARAMS in BUILD sets the number of messages.
  EXPECT_TRUE(rc::check([] {
    v1::FenceToken proto;
    test::FillRandomly(proto);
    const auto token = FromProto(proto);
    if (token.ok()) {
      RC_ASSERT(MessageDifferencer::Equals(ToProto(*token), proto));
    } else {
      RC_ASSERT(!base::GetErrorDetails(token.status()).field_violations.empty());
    }
  }));
}

TEST(TaskTest, TaskHasTheFieldsOfItsSpec) {
  core::Task task;
  task.spec = std::make_shared<const std::string>("\x0a\x05hello");
  task.state = core::LifecycleState::kWorking;
  const v1::Task proto = ToProto(task);
  EXPECT_EQ(proto.prompt(), "hello");
  EXPECT_EQ(proto.state(), v1::Task::STATE_WORKING);
}

TEST(TaskTest, DeletedTaskHasNoSpec) { EXPECT_EQ(ToProto(core::Task()).prompt(), ""); }

TEST(TaskTest, TaskIdIsThatOfTheCurrentDispatch) {
  core::Task task;
  EXPECT_EQ(ToProto(task).task_id(), "");
  task.dispatch = core::DispatchNumber(2);
  EXPECT_EQ(ToProto(task).task_id(), "task-00000000000000000000000000-2");
}

// Returns the first value of an enum of callboard.v1 without a counterpart in libs/core.
template <class Core, class Proto, size_t N>
std::string FirstValueWithoutCounterpart(const EnumPair<Core, Proto> (&table)[N]) {
  const auto& type = *google::protobuf::GetEnumDescriptor<Proto>();
  for (int i = 0; i < type.value_count(); ++i) {
    const auto value = static_cast<Proto>(type.value(i)->number());
    const std::optional<Core> core = FromProto(table, value);
    const bool paired = core.has_value() && ToProto(table, *core) == value;
    if (paired != (type.value(i)->number() != 0)) return type.value(i)->full_name();
  }
  return "";
}

TEST(TaskTest, EveryEnumValueHasACounterpart) {
  EXPECT_EQ(FirstValueWithoutCounterpart(kTaskStates), "");
  EXPECT_EQ(FirstValueWithoutCounterpart(kFailureReasons), "");
  EXPECT_EQ(FirstValueWithoutCounterpart(kTaskEventKinds), "");
  EXPECT_EQ(FirstValueWithoutCounterpart(kFaults), "");
  EXPECT_EQ(FirstValueWithoutCounterpart(kOnAgentLosts), "");
  EXPECT_EQ(FirstValueWithoutCounterpart(kOverlapPolicies), "");
  EXPECT_EQ(FirstValueWithoutCounterpart(kQueuePolicies), "");
}

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
