#include "libs/config/setting_value.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "callboard/config/v1/agent.pb.h"
#include "callboard/config/v1/director.pb.h"
#include "libs/config/settings.h"

namespace callboard::config {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(SettingsTextTest, HelpShowsExamplesFirstAndEverySettingWithItsDefault) {
  const std::string text =
      HelpText({.name = "callboard-director", .summary = "Owns the queue.", .examples = {"run it"}},
               *v1::DirectorConfig::descriptor());
  EXPECT_LT(text.find("Examples:\n  run it"), text.find("Settings"));
  EXPECT_THAT(text,
              AllOf(HasSubstr("--queue.max_size=<0..10000000>"), HasSubstr("Default: 50."),
                    HasSubstr("--queue.policy=<reject|block|drop-oldest|drop-latest>"),
                    HasSubstr("--lease.heartbeat=<1s..5m>"), HasSubstr("--fleet.agents=<text,…>")));
}

TEST(SettingsTextTest, DefaultsOfSharedSettingsDifferByBinary) {
  EXPECT_THAT(ReferenceTable(*v1::DirectorConfig::descriptor()),
              HasSubstr("| `grpc.listen` | text | `127.0.0.1:7070` |"));
  EXPECT_THAT(ReferenceTable(*v1::AgentConfig::descriptor()),
              AllOf(HasSubstr("| `grpc.listen` | text | `127.0.0.1:7071` |"),
                    HasSubstr("| `lanes` | key=1..1000,… | `default=1` |")));
}

TEST(SettingsTextTest, PrintedConfigShowsEveryValueAsAFlagWouldGiveIt) {
  v1::AgentConfig config;
  const char* const arguments[] = {"--lanes=big=2,default=1", "--runner.argv=a,b",
                                   "--agent.drain_timeout=90s"};
  const LoadedSettings loaded = *LoadSettings({.arguments = arguments, .environment = {}}, config);
  EXPECT_THAT(PrintedConfig(config, loaded.origins),
              AllOf(HasSubstr("lanes = big=2,default=1  # flag\n"),
                    HasSubstr("runner.argv = a,b  # flag\n"),
                    HasSubstr("agent.drain_timeout = 1m30s  # flag\n"),
                    HasSubstr("runner.kind = exec  # default\n")));
}

TEST(SettingsTextTest, OptionalSettingHasNoValueUntilItIsGiven) {
  v1::AgentConfig config;
  LoadedSettings loaded = *LoadSettings({.arguments = {}, .environment = {}}, config);
  EXPECT_FALSE(config.telemetry().has_sample_ratio());
  EXPECT_THAT(PrintedConfig(config, loaded.origins),
              HasSubstr("telemetry.sample_ratio =   # default\n"));
  const char* const arguments[] = {"--telemetry.sample_ratio=1"};
  loaded = *LoadSettings({.arguments = arguments, .environment = {}}, config);
  EXPECT_TRUE(config.telemetry().has_sample_ratio());
  EXPECT_THAT(PrintedConfig(config, loaded.origins),
              HasSubstr("telemetry.sample_ratio = 1  # flag\n"));
}

TEST(SettingsTextTest, SettingsOfAMapAreShownForAnyEntryInHelpAndForTheGivenOnesInTheConfig) {
  EXPECT_THAT(HelpText({}, *v1::DirectorConfig::descriptor()),
              AllOf(HasSubstr("--flow.lanes.<name>.priority=<low|normal|high|auto>"),
                    HasSubstr("--flow.lanes.<name>.max_pending=<0..1000000>")));
  v1::DirectorConfig config;
  EXPECT_THAT(PrintedConfig(config, {}), Not(HasSubstr("flow.lanes")));
  const char* const arguments[] = {"--flow.lanes.build.max_pending=20",
                                   "--flow.lanes.audit.priority=low"};
  const LoadedSettings loaded = *LoadSettings(
      {.arguments = arguments, .environment = {{"CALLBOARD_FLOW_LANES_AUDIT_MAX_PENDING", "5"}}},
      config);
  EXPECT_THAT(PrintedConfig(config, loaded.origins),
              HasSubstr("flow.starvation_ms = 5000  # default\n"
                        "flow.lanes.audit.priority = low  # flag\n"
                        "flow.lanes.audit.max_pending = 5  "
                        "# environment CALLBOARD_FLOW_LANES_AUDIT_MAX_PENDING\n"
                        "flow.lanes.build.priority = auto  # default\n"
                        "flow.lanes.build.max_pending = 20  # flag\n"
                        "log.level"));
}

}  // namespace
}  // namespace callboard::config
