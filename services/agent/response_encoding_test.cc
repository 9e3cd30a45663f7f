// Tests that clients can parse every answer of the agent, whatever bytes a task writes.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>

#include "callboard/v1/agent.pb.h"
#include "libs/testing/files.h"
#include "services/agent/agent_service.h"
#include "services/agent/run_messages.h"

namespace callboard {
namespace {

using test::DrawBytes;
using test::Parses;

TEST(ResponseEncodingTest, ResponsesAreValidUtf8ForAnyTaskOutput) {
  EXPECT_TRUE(rc::check([] {
    const std::string text = DrawBytes();
    const core::FenceToken token = {.queue_id = core::QueueId(core::Ulid(1, 2)),
                                    .dispatch = core::DispatchNumber(7)};
    agent::RunView run = {.token = token, .finished_at = absl::FromUnixSeconds(2)};
    run.result = core::RunResult{
        .end = core::RunResult::End::kFailed, .signal = text, .result = text, .error = text};
    RC_ASSERT(Parses(ToProto(run)));
    RC_ASSERT(Parses(ToProto(agent::AgentSnapshot{.name = "agent-1", .runs = {run}})));
    RC_ASSERT(Parses(ToProto(core::RunOutput{token, {{.number = 1, .data = text}}})));
  }));
}

}  // namespace
}  // namespace callboard
