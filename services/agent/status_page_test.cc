#include "services/agent/status_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace callboard {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(AgentStatusPageTest, NamesTheAgentAndItsLanesInOrder) {
  config::v1::AgentConfig config;
  config.mutable_agent()->set_name("agent-1");
  (*config.mutable_lanes())["gpu"] = 2;
  (*config.mutable_lanes())["default"] = 1;
  EXPECT_THAT(StatusPage(config),
              AllOf(StartsWith(R"({"type":"view",)"), HasSubstr(R"("agent":{"name":"agent-1",)"),
                    HasSubstr(R"("lanes":[{"name":"default","slots":1,"busy":0},)"
                              R"({"name":"gpu","slots":2,"busy":0}])")));
}

}  // namespace
}  // namespace callboard
