#include "services/agent/start_agent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace callboard {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(AgentStatusPageTest, NamesTheAgentAndItsLanesInOrder) {
  const agent::AgentSnapshot snapshot = {
      .name = "agent-1", .lanes = {{"gpu", {.slots = 2}}, {"default", {.slots = 1}}}};
  EXPECT_THAT(StatusPage(snapshot),
              AllOf(StartsWith(R"({"type":"view",)"), HasSubstr(R"("agent":{"name":"agent-1",)"),
                    HasSubstr(R"("lanes":[{"name":"default","slots":1,"busy":0},)"
                              R"({"name":"gpu","slots":2,"busy":0}])")));
}

}  // namespace
}  // namespace callboard
