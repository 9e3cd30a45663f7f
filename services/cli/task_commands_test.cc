#include "services/cli/task_commands.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include "libs/base/text.h"
#include "libs/testing/fake_environment.h"
#include "libs/testing/status_matchers.h"
#include "services/cli/answer_text.h"

namespace callboard::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(TaskCommandsTest, TaskTableHasOnlyTheKnownFields) {
  v1::Task task;
  task.set_queue_id("queue-1");
  task.set_state(v1::Task::STATE_FAILED);
  task.set_reason(v1::Task::REASON_EXEC_FAILED);
  task.set_prompt("exit 7");
  task.set_exit_code(7);
  task.set_dispatch(1);
  task.set_attempts(1);
  task.set_max_attempts(3);
  task.mutable_finished_at()->set_seconds(1);
  EXPECT_EQ(TaskTable(task),
            "task       queue-1\n"
            "state      failed, EXEC_FAILED\n"
            "prompt     \"exit 7\"\n"
            "finished   1970-01-01 00:00:01.000 UTC\n"
            "runs       1 dispatch, 1 failed attempt of 3 allowed\n"
            "exit code  7\n");
  task.set_last_error("two\nlines\x1b[2J");
  task.set_trace_id("0af7651916cd43dd8448eb211c80319c");
  EXPECT_THAT(TaskTable(task), HasSubstr("last error two\\nlines\\u001b[2J\n"
                                         "trace      0af7651916cd43dd8448eb211c80319c\n"));
  task.set_state(v1::Task::STATE_PENDING);
  task.clear_reason();
  task.set_position(4);
  EXPECT_THAT(TaskTable(task), HasSubstr("state      pending, position 4\n"));
}

TEST(TaskCommandsTest, BusyDispatchesAreNotFailedAttempts) {
  v1::Task task;
  task.set_state(v1::Task::STATE_COMPLETED);
  task.set_dispatch(3);
  task.set_busy_rejections(2);
  task.set_max_attempts(3);
  EXPECT_THAT(TaskTable(task), HasSubstr("runs       3 dispatches (2 to a busy agent), "
                                         "0 failed attempts of 3 allowed\n"));
}

TEST(TaskCommandsTest, SubmitRequestHasEveryArgument) {
  test::FakeRandom random;
  const auto request = SubmitRequest({.prompt = "p",
                                      .model = "m",
                                      .timeout_seconds = 7,
                                      .session_id = "s",
                                      .request_id = "r",
                                      .lane = "l",
                                      .policy = "drop-oldest",
                                      .max_attempts = 2,
                                      .retry_on = {"exit:7", "timeout"}},
                                     random);
  ASSERT_THAT(request, test::IsOk());
  v1::SubmitTaskRequest expected;
  expected.set_prompt("p");
  expected.set_model("m");
  expected.set_timeout_seconds(7);
  expected.set_session_id("s");
  expected.set_request_id("r");
  expected.set_source("cli");
  expected.set_lane("l");
  expected.set_max_attempts(2);
  expected.add_retry_on("exit:7");
  expected.add_retry_on("timeout");
  expected.set_policy(v1::QUEUE_POLICY_DROP_OLDEST);
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(*request, expected));
}

TEST(TaskCommandsTest, MissingRequestIdIsGenerated) {
  test::FakeRandom random;
  const auto first = SubmitRequest({.prompt = "p"}, random);
  const auto second = SubmitRequest({.prompt = "p"}, random);
  EXPECT_THAT(first->request_id(), testing::MatchesRegex("cli/[0-9a-f]{32}"));
  EXPECT_NE(first->request_id(), second->request_id());
}

TEST(TaskCommandsTest, UnknownPolicyIsAUsageError) {
  test::FakeRandom random;
  const auto request = SubmitRequest({.prompt = "p", .policy = "maybe"}, random);
  EXPECT_EQ(ExitCodeOf(request.status()), ExitCode::kUsage);
}

TEST(TaskCommandsTest, ExplanationShowsTheReasonOfEachAgent) {
  v1::ExplainTaskResponse explanation;
  explanation.set_queue_id("queue-1");
  explanation.set_summary("no agent is free");
  explanation.set_position(2);
  explanation.set_ready_ahead(1);
  auto& verdict = *explanation.add_agents();
  verdict.set_agent("agent-1");
  verdict.set_why_not("busy");
  EXPECT_EQ(ExplanationTable(explanation),
            "task       queue-1\n"
            "answer     no agent is free\n"
            "position   2, 1 ready ahead\n"
            "agent      agent-1: busy\n");
}

TEST(TaskCommandsTest, AgentsTableShowsStatesAndLanes) {
  v1::ListAgentsResponse agents;
  EXPECT_EQ(AgentsTable(agents), "no agents\n");
  v1::Agent& agent = *agents.add_agents();
  agent.set_name("agent-1");
  agent.set_state(v1::Agent::STATE_DRAINING);
  agent.set_state_why("maintenance");
  agent.set_agent_url("grpc://127.0.0.1:1");
  auto& lane = *agent.add_lanes();
  lane.set_name("default");
  lane.set_slots(2);
  lane.set_busy(1);
  EXPECT_THAT(AgentsTable(agents), HasSubstr("default 1/2\n  maintenance\n"));
  agents.mutable_agents(0)->set_state_why("\x1b[2J\nagent-9");
  EXPECT_THAT(AgentsTable(agents), HasSubstr("\n  \\u001b[2J\\nagent-9\n"));
}

using ::testing::StartsWith;

TEST(QueueStatusTest, TableShowsTheLoadAndModeOfTheQueue) {
  v1::QueueStatus status;
  status.set_depth(3);
  status.set_max_size(50);
  status.set_policy(v1::QUEUE_POLICY_DROP_OLDEST);
  status.set_ready(2);
  status.set_delayed(1);
  status.set_in_flight(1);
  status.set_max_in_flight(2);
  status.set_oldest_age_seconds(90);
  EXPECT_EQ(QueueStatusTable(status),
            "queue      running\n"
            "pending    3 of 50, when full: drop-oldest\n"
            "  ready    2\n"
            "  delayed  1\n"
            "  oldest   1m30s\n"
            "running    1 of 2\n"
            "waiting    0 callers, 0 tickets\n"
            "ended      0 completed, 0 failed, 0 cancelled\n");
}

TEST(QueueStatusTest, TableShowsPausedDrainingUnboundedAndUnknownPolicy) {
  v1::QueueStatus status;
  EXPECT_THAT(QueueStatusTable(status), HasSubstr("pending    0 (unlimited)"));
  status.set_policy(static_cast<v1::QueuePolicy>(99));
  EXPECT_THAT(QueueStatusTable(status), HasSubstr("when full: 99\n"));
  status.set_paused(true);
  EXPECT_THAT(QueueStatusTable(status), StartsWith("queue      paused"));
  status.set_draining(true);
  EXPECT_THAT(QueueStatusTable(status), StartsWith("queue      draining"));
}

TEST(QueueStatusTest, TableShowsWhoSetASwitchWhenAndWhy) {
  v1::QueueStatus status;
  status.set_paused(true);
  status.mutable_pause()->set_who("anna");
  status.mutable_pause()->set_why("the disk\nis full\x1b[2J");
  status.mutable_pause()->mutable_at()->set_seconds(0);
  status.mutable_drain()->set_who("bert");
  status.mutable_drain()->mutable_at()->set_seconds(1);
  EXPECT_THAT(
      QueueStatusTable(status),
      StartsWith("queue      paused: accepts tasks but does not dispatch them\n"
                 "  paused   by anna at " +
                 TimeText(status.pause().at()) + ": " + base::Escaped(status.pause().why()) +
                 "\n"
                 "  drained  by bert at " +
                 TimeText(status.drain().at()) + "\npending"));
}

using ::testing::AllOf;
using ::testing::EndsWith;
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
      "TIME                         ELAPSED  EVENT        WHO       FAULT  POSITION  DISPATCH  "
      "AGENT    WHY\n"
      "1970-01-01 00:01:40.000 UTC  +0       ADMITTED     me        -      - -> 3    -         -\n"
      "1970-01-01 00:02:41.500 UTC  +1m1.5s  DISPATCHING  director  -      1 -> -    1         "
      "agent-1\n"
      "1970-01-01 00:02:42.000 UTC  +1m2s    BUSY         agent-1   agent  - -> 2    1         "
      "agent-1  the agent is busy\n"
      "1970-01-01 00:02:43.000 UTC  +1m3s    DENIED       director  -      2         -         "
      "-\n");
}

TEST(TaskTimelineTest, TimeBeforeTheSubmitIsNegative) {
  EXPECT_THAT(TimelineTable(SubmittedAt(100), {Event(TaskEvent::KIND_DONE, 98, "agent-1")}),
              HasSubstr(" -2s      DONE "));
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
              HasSubstr(" +0       99     -    -      -"));
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
