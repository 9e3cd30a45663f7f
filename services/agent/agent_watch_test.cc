#include "services/agent/agent_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <string>

namespace callboard {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class AgentWatchTest : public testing::Test {
 protected:
  std::string Counters() const {
    return prometheus::TextSerializer().Serialize(registry_.Collect());
  }
  std::string Gauges() const { return prometheus::TextSerializer().Serialize(watch_.Gauges()); }

  prometheus::Registry registry_;
  AgentWatch watch_{registry_};
};

TEST_F(AgentWatchTest, RunsAreCountedByTheirEndFromZeroOn) {
  watch_.OnRunEnded(core::RunResult::End::kTimedOut);
  EXPECT_THAT(Counters(), AllOf(HasSubstr(R"(callboard_agent_runs_total{outcome="timed_out"} 1)"),
                                HasSubstr(R"(callboard_agent_runs_total{outcome="completed"} 0)")));
}

TEST_F(AgentWatchTest, GaugesAreAsLastSeen) {
  watch_.OnLevels({.lanes = {{"default", {.slots = 2, .used = 2}}}});
  watch_.OnLevels({.lanes = {{"default", {.slots = 2, .used = 1}}, {"fast", {.slots = 4}}},
                   .unacknowledged_results = 3,
                   .connected = true});
  EXPECT_THAT(Gauges(), AllOf(HasSubstr("callboard_agent_slots{lane=\"default\"} 2\n"),
                              HasSubstr("callboard_agent_slots{lane=\"fast\"} 4\n"),
                              HasSubstr("callboard_agent_slots_used{lane=\"default\"} 1\n"),
                              HasSubstr("callboard_agent_unacknowledged_results 3\n"),
                              HasSubstr("callboard_agent_connected 1\n"),
                              HasSubstr("callboard_agent_draining 0\n")));
}

}  // namespace
}  // namespace callboard
