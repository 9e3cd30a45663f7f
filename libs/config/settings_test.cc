#include "libs/config/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "callboard/config/v1/director.pb.h"
#include "libs/testing/status_matchers.h"

namespace callboard::config {
namespace {

using test::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using v1::DirectorConfig;
using v1::QueueConfig;

absl::StatusOr<DirectorConfig> Parsed(std::vector<const char*> arguments) {
  DirectorConfig config;
  const absl::StatusOr<Ask> ask = ParseFlags(arguments, config);
  if (!ask.ok()) return ask.status();
  EXPECT_EQ(*ask, Ask::kRun);
  return config;
}

std::string ErrorOf(std::vector<const char*> arguments) {
  const absl::StatusOr<DirectorConfig> config = Parsed(std::move(arguments));
  EXPECT_THAT(config, StatusIs(absl::StatusCode::kInvalidArgument));
  return std::string(config.status().message());
}

TEST(SettingsTest, DefaultsStandWhereNothingIsSaid) {
  const DirectorConfig config = *Parsed({});
  EXPECT_EQ(config.grpc().listen(), "127.0.0.1:7070");
  EXPECT_EQ(config.http().listen(), "127.0.0.1:8080");
  EXPECT_EQ(config.queue().max_size(), 50u);
  EXPECT_EQ(config.queue().policy(), QueueConfig::POLICY_REJECT);
  EXPECT_EQ(config.log().level(), v1::LogConfig::LEVEL_INFO);
  EXPECT_FALSE(config.insecure_listen());
}

TEST(SettingsTest, FlagsOverrideDefaultsAndTheLastOneWins) {
  const DirectorConfig config =
      *Parsed({"--queue.max_size=7", "--queue.policy", "drop-oldest", "--queue.max_size=0"});
  EXPECT_EQ(config.queue().max_size(), 0u);
  EXPECT_EQ(config.queue().policy(), QueueConfig::POLICY_DROP_OLDEST);
}

TEST(SettingsTest, BooleansMayStandAloneOrBeNegated) {
  EXPECT_TRUE(Parsed({"--insecure_listen"})->insecure_listen());
  EXPECT_TRUE(Parsed({"--insecure_listen=true"})->insecure_listen());
  EXPECT_FALSE(Parsed({"--insecure_listen", "--no-insecure_listen"})->insecure_listen());
}

TEST(SettingsTest, UnknownNameIsRefusedNamingTheNearest) {
  EXPECT_EQ(ErrorOf({"--queue.max_sise=5"}),
            "unknown setting 'queue.max_sise'; did you mean 'queue.max_size'?");
  EXPECT_EQ(ErrorOf({"--xyzzy"}), "unknown setting 'xyzzy'; --help lists all settings");
  EXPECT_THAT(ErrorOf({"--no-queue.max_size"}), HasSubstr("a value is missing"));
}

TEST(SettingsTest, WrongValueIsRefusedNamingWhatIsWanted) {
  EXPECT_EQ(ErrorOf({"--queue.max_size=-1"}),
            "queue.max_size: '-1' is not valid; wanted: 0..10000000");
  EXPECT_THAT(ErrorOf({"--queue.max_size=10000001"}), HasSubstr("wanted: 0..10000000"));
  EXPECT_THAT(ErrorOf({"--queue.max_size=5x"}), HasSubstr("'5x'"));
  EXPECT_THAT(ErrorOf({"--queue.policy=drop_oldest"}),
              HasSubstr("wanted: reject|block|drop-oldest|drop-latest"));
  EXPECT_THAT(ErrorOf({"--insecure_listen=yes"}), HasSubstr("wanted: true|false"));
  EXPECT_THAT(ErrorOf({"--queue.max_size"}), HasSubstr("a value is missing"));
  EXPECT_THAT(ErrorOf({"serve"}), HasSubstr("'serve' is not a flag"));
}

TEST(SettingsTest, HelpAndVersionWinOverWhatFollows) {
  DirectorConfig config;
  const char* const help[] = {"--help", "--nonsense"};
  EXPECT_EQ(*ParseFlags(help, config), Ask::kHelp);
  const char* const version[] = {"--version"};
  EXPECT_EQ(*ParseFlags(version, config), Ask::kVersion);
}

TEST(SettingsTest, HelpShowsExamplesFirstAndEverySettingWithItsDefault) {
  const std::string text =
      HelpText({.name = "callboard-director", .summary = "Owns the queue.", .examples = {"run it"}},
               *DirectorConfig::descriptor());
  EXPECT_LT(text.find("Examples:\n  run it"), text.find("Settings:"));
  EXPECT_THAT(text, AllOf(HasSubstr("--queue.max_size=<0..10000000>"), HasSubstr("Default: 50."),
                          HasSubstr("--queue.policy=<reject|block|drop-oldest|drop-latest>"),
                          HasSubstr("--port_file=<text>")));
}

}  // namespace
}  // namespace callboard::config
