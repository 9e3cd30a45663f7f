#include "libs/server/flow_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <fstream>
#include <map>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "callboard/config/v1/director.pb.h"
#include "libs/base/check.h"
#include "libs/config/settings.h"
#include "libs/flow/thread_pool.h"
#include "libs/testing/fake_environment.h"
#include "libs/testing/files.h"
#include "libs/testing/status_matchers.h"

namespace callboard::server {
namespace {

using test::IsOk;
using test::StatusIs;
using testing::HasSubstr;

constexpr flow::Machine kMachine = {
    .processors = 8, .memory_bytes = uint64_t{64} << 30, .pool_threads = 8};

// Loads the settings as a director does.
config::v1::FlowConfig Settings(const std::vector<const char*>& flags, const std::string& file = "",
                                const std::map<std::string, std::string>& environment = {}) {
  const std::string path = test::NewFolder() / "settings.yaml";
  std::ofstream(path) << file;
  const std::string config_flag = "--config=" + path;
  std::vector<const char*> arguments = {config_flag.c_str()};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  config::v1::DirectorConfig config;
  CHECK_OK(
      config::LoadSettings({.arguments = arguments, .environment = environment}, config).status());
  return config.flow();
}

uint32_t Threads(const config::v1::FlowConfig& config) {
  return LimitsFromConfig(config, kMachine).cpu.concurrency;
}

TEST(FlowSettingsTest, ThreadsComeFromFlagFileEnvironmentOrMachine) {
  const std::map<std::string, std::string> environment = {{"CALLBOARD_FLOW_THREADS", "4"}};
  const std::string file = "flow:\n  threads: 6\n";
  EXPECT_EQ(Threads(Settings({"--flow.threads=9"}, "", environment)), 9u);
  EXPECT_EQ(Threads(Settings({"--flow.threads=9"}, file, environment)), 9u);
  EXPECT_EQ(Threads(Settings({}, file, environment)), 6u);
  EXPECT_EQ(Threads(Settings({}, "", environment)), 4u);
  EXPECT_EQ(Threads(Settings({})), 8u);
}

TEST(FlowSettingsTest, OversubscriptionAndLowResourceChangeTheLimits) {
  EXPECT_EQ(Threads(Settings({"--flow.threads=500"})), 32u);
  EXPECT_EQ(Threads(Settings({"--flow.threads=500", "--flow.io_oversubscribe"})), 500u);
  EXPECT_EQ(Threads(Settings({"--flow.low_resource"})), 1u);
}

TEST(FlowSettingsTest, TokensDefaultToTheMachine) {
  const auto derived = FlowOptionsFromConfig(Settings({}), kMachine, {});
  ASSERT_THAT(derived, IsOk());
  EXPECT_EQ(derived->tokens, (flow::Tokens{.cpu = 8, .io = 8, .memory = 64}));
  const auto set = FlowOptionsFromConfig(
      Settings({"--flow.cpu_tokens=3", "--flow.io_tokens=2", "--flow.memory_tokens=1"}), kMachine,
      {});
  EXPECT_EQ(set->tokens, (flow::Tokens{.cpu = 3, .io = 2, .memory = 1}));
}

TEST(FlowSettingsTest, LanesArePlainWhenDisabledOrLowOnResources) {
  for (const char* flag : {"--no-flow.enabled", "--flow.low_resource"}) {
    EXPECT_FALSE(FlowOptionsFromConfig(Settings({flag}), kMachine, {})->tokens.has_value()) << flag;
  }
}

TEST(FlowSettingsTest, LaneKeepsItsBuiltInLimitsByDefault) {
  const std::vector<flow::LaneOptions> lanes = {{.name = "reads", .limit = {2, 4096}},
                                                {.name = "builds", .limit = {3, 16}}};
  const auto options = FlowOptionsFromConfig(
      Settings({"--flow.lanes.builds.max_pending=5", "--flow.lanes.builds.priority=high",
                "--flow.starvation_ms=70"}),
      kMachine, lanes);
  ASSERT_THAT(options, IsOk());
  EXPECT_EQ(options->lanes[0].limit, (flow::LaneLimit{2, 4096}));
  EXPECT_EQ(options->lanes[0].priority, flow::Priority::kNormal);
  EXPECT_EQ(options->lanes[1].limit, (flow::LaneLimit{3, 5}));
  EXPECT_EQ(options->lanes[1].priority, flow::Priority::kHigh);
  EXPECT_EQ(options->starvation, absl::Milliseconds(70));
  const auto prior = FlowOptionsFromConfig(Settings({"--flow.lanes.reads.max_pending=5"}), kMachine,
                                           {{.name = "reads", .priority = flow::Priority::kHigh}});
  EXPECT_EQ(prior->lanes[0].priority, flow::Priority::kHigh);
}

TEST(FlowSettingsTest, NormalPriorityOverridesABuiltInHighPriority) {
  const auto options =
      FlowOptionsFromConfig(Settings({"--flow.lanes.reads.priority=normal"}), kMachine,
                            {{.name = "reads", .priority = flow::Priority::kHigh}});
  ASSERT_THAT(options, IsOk());
  EXPECT_EQ(options->lanes[0].priority, flow::Priority::kNormal);
}

TEST(FlowSettingsTest, UnknownLaneIsAnErrorWithTheNearestName) {
  const std::vector<flow::LaneOptions> lanes = {{.name = "reads"}, {.name = "checkpoints"}};
  EXPECT_THAT(FlowOptionsFromConfig(Settings({"--flow.lanes.read.priority=low"}), kMachine, lanes),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "flow.lanes.read: there is no such lane; did you mean 'flow.lanes.reads'?"));
  EXPECT_THAT(
      FlowOptionsFromConfig(Settings({"--flow.lanes.gpu.priority=low"}), kMachine, lanes),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("the lanes are reads, checkpoints")));
}

TEST(FlowMetricsTest, EveryLaneHasItsCounts) {
  test::FakeClock clock;
  test::ManualExecutor executor(clock);
  flow::Flow flow({.lanes = {{.name = "reads", .limit = {1, 4}}}}, executor, clock);
  for (int i = 0; i < 3; ++i) ASSERT_THAT(flow.lane("reads").TryAdd([] {}), IsOk());
  const std::string text = prometheus::TextSerializer().Serialize(CollectFlowMetrics(flow));
  EXPECT_THAT(text, HasSubstr("callboard_flow_in_flight{lane=\"reads\"} 1"));
  EXPECT_THAT(text, HasSubstr("callboard_flow_pending{lane=\"reads\"} 2"));
  EXPECT_THAT(text, HasSubstr("callboard_flow_waiting{lane=\"reads\"} 0"));
}

TEST(FlowMetricsTest, WaitingCallersAreCounted) {
  test::FakeClock clock;
  flow::ThreadPool pool(1);
  flow::Flow flow({.lanes = {{.name = "builds", .limit = {1, 1}}}}, pool, clock);
  const auto text = [&flow] {
    return prometheus::TextSerializer().Serialize(CollectFlowMetrics(flow));
  };
  flow::Lane& lane = flow.lane("builds");
  std::vector<absl::StatusOr<flow::LaneReservation>> places;
  while (places.empty() || places.back().ok()) places.push_back(lane.TryReserve());
  std::stop_source stop;
  std::thread waiter([&] { EXPECT_FALSE(lane.Reserve(stop.get_token()).ok()); });
  while (!absl::StrContains(text(), "callboard_flow_waiting{lane=\"builds\"} 1")) {
    std::this_thread::yield();
  }
  stop.request_stop();
  waiter.join();
  EXPECT_THAT(text(), HasSubstr("callboard_flow_waiting{lane=\"builds\"} 0"));
}

}  // namespace
}  // namespace callboard::server
