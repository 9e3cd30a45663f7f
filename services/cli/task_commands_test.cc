#include "services/cli/task_commands.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

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
  EXPECT_THAT(TaskTable(task), HasSubstr("state      pending, place 4\n"));
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
            "place      2, 1 ready ahead\n"
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

}  // namespace
}  // namespace callboard::cli
