#include "services/cli/task_commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace callboard::cli {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using v1::TaskEvent;

v1::Task SubmittedAt(int64_t seconds) {
  v1::Task task;
  task.set_queue_id("queue-1");
  task.mutable_submitted_at()->set_seconds(seconds);
  return task;
}

TaskEvent Event(TaskEvent::Kind kind, int64_t seconds, const std::string& who) {
  TaskEvent event;
  event.set_kind(kind);
  event.mutable_at()->set_seconds(seconds);
  event.set_who(who);
  return event;
}

TEST(TaskTimelineTest, LineHasAllFieldsOfAnEvent) {
  TaskEvent admitted = Event(TaskEvent::KIND_ADMITTED, 100, "me");
  admitted.set_place_after(3);
  TaskEvent dispatching = Event(TaskEvent::KIND_DISPATCHING, 161, "director");
  dispatching.mutable_at()->set_nanos(500'900'000);
  dispatching.set_place_before(1);
  dispatching.set_dispatch(1);
  dispatching.set_agent("agent-1");
  TaskEvent busy = Event(TaskEvent::KIND_BUSY, 162, "agent-1");
  busy.set_place_after(2);
  busy.set_dispatch(1);
  busy.set_agent("agent-1");
  busy.set_fault(TaskEvent::FAULT_AGENT);
  busy.set_why("the agent is busy");
  TaskEvent denied = Event(TaskEvent::KIND_DENIED, 163, "director");
  denied.set_place_before(2);
  denied.set_place_after(2);
  EXPECT_EQ(
      TimelineTable(SubmittedAt(100), {admitted, dispatching, busy, denied}),
      "TIME                         AFTER    EVENT        WHO       FAULT  PLACE   RUN  AGENT    "
      "WHY\n"
      "1970-01-01 00:01:40.000 UTC  +0       ADMITTED     me        -      - -> 3  -    -\n"
      "1970-01-01 00:02:41.500 UTC  +1m1.5s  DISPATCHING  director  -      1 -> -  1    agent-1\n"
      "1970-01-01 00:02:42.000 UTC  +1m2s    BUSY         agent-1   agent  - -> 2  1    agent-1  "
      "the agent is busy\n"
      "1970-01-01 00:02:43.000 UTC  +1m3s    DENIED       director  -      2       -    -\n");
}

TEST(TaskTimelineTest, TimeBeforeTheSubmitIsNegative) {
  EXPECT_THAT(TimelineTable(SubmittedAt(100), {Event(TaskEvent::KIND_DONE, 98, "agent-1")}),
              HasSubstr(" -2s    DONE "));
}

TEST(TaskTimelineTest, LongReasonIsTruncatedAndEscaped) {
  TaskEvent event = Event(TaskEvent::KIND_FAILED, 100, "agent\x1b[2J");
  event.set_why("one\ntwo " + std::string(5000, 'x'));
  const std::string table = TimelineTable(SubmittedAt(100), {event});
  EXPECT_LT(table.size(), 500u);
  EXPECT_THAT(table, AllOf(HasSubstr("one\\ntwo xxx"), EndsWith("x…\n"), Not(HasSubstr("\x1b"))));
}

TEST(TaskTimelineTest, UnknownEventKindIsShownAsANumber) {
  EXPECT_THAT(TimelineTable(SubmittedAt(100), {Event(static_cast<TaskEvent::Kind>(99), 100, "")}),
              HasSubstr(" +0     99     -    -      -"));
}

TEST(TaskTimelineTest, JsonIsTheTaskWithItsEvents) {
  const std::vector<TaskEvent> events = {Event(TaskEvent::KIND_SUBMITTED, 100, "me"),
                                         Event(TaskEvent::KIND_ADMITTED, 101, "me")};
  const std::string json = TimelineJson(SubmittedAt(100), &events);
  EXPECT_THAT(json, AllOf(StartsWith("{\"prompt\":"), HasSubstr("\"queue_id\":\"queue-1\"")));
  EXPECT_THAT(json, HasSubstr(",\"events\":[{\"number\":0,\"kind\":\"SUBMITTED\","));
  EXPECT_THAT(json, HasSubstr("},{\"number\":0,\"kind\":\"ADMITTED\","));
  EXPECT_THAT(json, EndsWith("\"agent\":\"\"}]}\n"));
  EXPECT_THAT(TimelineJson(SubmittedAt(100), nullptr), EndsWith(",\"events\":null}\n"));
}

}  // namespace
}  // namespace callboard::cli
