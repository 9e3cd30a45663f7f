#include "services/agent/agent_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>
#include <spdlog/sinks/ostream_sink.h>

#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/base/error.h"
#include "libs/base/log.h"

namespace callboard {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const core::FenceToken kToken = {core::QueueId(core::Ulid(1, 2)), core::DispatchNumber(7), 3};

class AgentMetricsTest : public testing::Test {
 protected:
  std::string Counters() const {
    return prometheus::TextSerializer().Serialize(registry_.Collect());
  }
  std::string Gauges() const { return prometheus::TextSerializer().Serialize(metrics_.Gauges()); }

  prometheus::Registry registry_;
  AgentMetrics metrics_{registry_};
};

TEST_F(AgentMetricsTest, RunsAreCountedByOutcomeFromZero) {
  metrics_.OnRunEnded(kToken, {.end = core::RunResult::End::kTimedOut});
  EXPECT_THAT(Counters(), AllOf(HasSubstr(R"(callboard_agent_runs_total{outcome="timed_out"} 1)"),
                                HasSubstr(R"(callboard_agent_runs_total{outcome="completed"} 0)")));
}

TEST_F(AgentMetricsTest, EveryStepOfARunIsLoggedWithItsIds) {
  std::ostringstream log;
  base::StartLogging({.sink = std::make_shared<spdlog::sinks::ostream_sink_st>(log)});
  ports::RunRequest request = {.token = kToken, .task_id = "", .spec = nullptr};
  request.trace.trace_id = core::TraceId({1});
  metrics_.OnRunAccepted(request);
  metrics_.OnRunStarted(kToken, 4711);
  metrics_.OnRunEnded(kToken, {.end = core::RunResult::End::kFailed, .exit_code = 3});
  metrics_.OnRunEnded(kToken, {.end = core::RunResult::End::kTimedOut, .signal = "SIGKILL"});
  metrics_.OnCannotRun(
      base::WithReason(absl::ResourceExhaustedError("no space for a run"), "NO_SPACE"));
  base::StartLogging({});
  const std::string names =
      absl::StrCat("task_id=", core::TaskIdText(kToken.queue_id, kToken.dispatch),
                   " queue_id=", core::ToString(kToken.queue_id));
  EXPECT_THAT(
      std::vector<std::string>(absl::StrSplit(log.str(), '\n', absl::SkipEmpty())),
      ElementsAre(
          HasSubstr(absl::StrCat("INFO agent=run_accepted ", names, " direct=false trace_id=01")),
          HasSubstr(absl::StrCat("INFO agent=run_started ", names, " pid=4711")),
          HasSubstr(absl::StrCat("INFO agent=run_ended ", names, " outcome=failed exit_code=3")),
          HasSubstr(
              absl::StrCat("INFO agent=run_killed ", names, " outcome=timed_out signal=SIGKILL")),
          HasSubstr("WARN agent=cannot_run reason=NO_SPACE error=\"no space for a run\"")));
}

TEST_F(AgentMetricsTest, GaugesShowTheLastTurn) {
  metrics_.OnTurnEnd({.lanes = {{"default", {.slots = 2, .used = 2}}}});
  metrics_.OnTurnEnd({.lanes = {{"default", {.slots = 2, .used = 1}}, {"fast", {.slots = 4}}},
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
