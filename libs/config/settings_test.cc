#include "libs/config/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "absl/strings/str_cat.h"
#include "callboard/config/v1/agent.pb.h"
#include "callboard/config/v1/director.pb.h"
#include "libs/testing/status_matchers.h"

namespace callboard::config {
namespace {

using test::StatusIs;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;
using v1::AgentConfig;
using v1::DirectorConfig;
using v1::QueueConfig;

// A place where settings are written, and what loading them comes to.
template <class Config>
class Loaded {
 public:
  Loaded& Flags(std::vector<const char*> flags) {
    flags_ = std::move(flags);
    return *this;
  }
  Loaded& Environment(std::map<std::string, std::string> environment) {
    environment_ = std::move(environment);
    return *this;
  }
  // Writes the file that the flag --config will name.
  Loaded& File(const std::string& yaml) {
    std::ofstream(path_) << yaml;
    return *this;
  }

  Config operator*() {
    const absl::StatusOr<LoadedSettings> loaded = Load();
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return config_;
  }
  LoadedSettings Settings() { return *Load(); }
  std::string Error() {
    const absl::StatusOr<LoadedSettings> loaded = Load();
    EXPECT_THAT(loaded, StatusIs(absl::StatusCode::kInvalidArgument));
    return std::string(loaded.status().message());
  }
  const std::string& path() const { return path_; }

 private:
  absl::StatusOr<LoadedSettings> Load() {
    config_.Clear();
    std::vector<const char*> flags = flags_;
    const std::string file_flag = absl::StrCat("--config=", path_);
    if (std::ifstream(path_)) flags.insert(flags.begin(), file_flag.c_str());
    return LoadSettings({.arguments = flags, .environment = environment_}, config_);
  }

  const std::string path_ =
      absl::StrCat(testing::TempDir(), "/",
                   testing::UnitTest::GetInstance()->current_test_info()->name(), ".yaml");
  std::vector<const char*> flags_;
  std::map<std::string, std::string> environment_;
  Config config_;
};

using Director = Loaded<DirectorConfig>;
using Agent = Loaded<AgentConfig>;

TEST(SettingsTest, DefaultsStandWhereNothingIsSaid) {
  const DirectorConfig config = *Director();
  EXPECT_EQ(config.grpc().listen(), "127.0.0.1:7070");
  EXPECT_EQ(config.queue().max_size(), 50u);
  EXPECT_EQ(config.queue().policy(), QueueConfig::POLICY_REJECT);
  EXPECT_EQ(config.queue().scheduler_share(), 0.8);
  EXPECT_EQ(config.lease().redispatch_after().seconds(), 75);
  EXPECT_EQ((*Agent()).grpc().listen(), "127.0.0.1:7071");
  EXPECT_THAT((*Agent()).lanes(), ElementsAre(Pair("default", 1u)));
}

TEST(SettingsTest, FlagWinsOverFileFileOverEnvironmentEnvironmentOverDefault) {
  Director settings;
  settings.Flags({"--queue.max_size=1"})
      .File("queue:\n  max_size: 2\n  max_attempts: 2\n")
      .Environment({{"CALLBOARD_QUEUE_MAX_SIZE", "3"},
                    {"CALLBOARD_QUEUE_MAX_ATTEMPTS", "3"},
                    {"CALLBOARD_QUEUE_MAX_WAITERS", "3"}});
  const DirectorConfig config = *settings;
  EXPECT_EQ(config.queue().max_size(), 1u);
  EXPECT_EQ(config.queue().max_attempts(), 2u);
  EXPECT_EQ(config.queue().max_waiters(), 3u);

  const std::map<std::string, std::string> origins = settings.Settings().origins;
  EXPECT_EQ(origins.at("queue.max_size"), "flag");
  EXPECT_EQ(origins.at("queue.max_attempts"), absl::StrCat("file ", settings.path(), ":3"));
  EXPECT_EQ(origins.at("queue.max_waiters"), "environment CALLBOARD_QUEUE_MAX_WAITERS");
  EXPECT_EQ(origins.at("queue.policy"), "default");
}

TEST(SettingsTest, EnvironmentMayNameTheFile) {
  Director settings;
  settings.File("queue:\n  policy: block\n");
  DirectorConfig config;
  const auto loaded = LoadSettings(
      {.arguments = {}, .environment = {{"CALLBOARD_CONFIG", settings.path()}}}, config);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(config.queue().policy(), QueueConfig::POLICY_BLOCK);
}

TEST(SettingsTest, BooleansMayStandAloneOrBeNegated) {
  EXPECT_TRUE((*Director().Flags({"--insecure_listen"})).insecure_listen());
  EXPECT_TRUE((*Director().Flags({"--insecure_listen=true"})).insecure_listen());
  EXPECT_FALSE(
      (*Director().Flags({"--insecure_listen", "--no-insecure_listen"})).insecure_listen());
}

TEST(SettingsTest, ListsAndMapsComeFromEverySource) {
  EXPECT_THAT((*Director().Flags({"--fleet.agents=a:1,b:2"})).fleet().agents(),
              ElementsAre("a:1", "b:2"));
  EXPECT_THAT((*Agent().Environment({{"CALLBOARD_LANES", "default=2,big=1"}})).lanes(),
              UnorderedElementsAre(Pair("default", 2u), Pair("big", 1u)));
  const AgentConfig file = *Agent().File(
      "runner:\n  argv: [run, 'a,b', '--model={model}']\nlanes:\n  gpu: 4\nagent:\n  labels: {z: "
      "a}\n");
  EXPECT_THAT(file.runner().argv(), ElementsAre("run", "a,b", "--model={model}"));
  EXPECT_THAT(file.lanes(), ElementsAre(Pair("gpu", 4u)));
  EXPECT_THAT(file.agent().labels(), ElementsAre(Pair("z", "a")));
}

TEST(SettingsTest, UnknownNameIsRefusedInEverySourceNamingTheNearest) {
  EXPECT_EQ(Director().Flags({"--queue.max_sise=5"}).Error(),
            "unknown setting 'queue.max_sise'; did you mean 'queue.max_size'?");
  EXPECT_EQ(Director().Flags({"--xyzzy"}).Error(),
            "unknown setting 'xyzzy'; --help lists all settings");
  EXPECT_EQ(Director().Environment({{"CALLBOARD_QUEUE_MAX_SISE", "5"}}).Error(),
            "environment: unknown setting 'CALLBOARD_QUEUE_MAX_SISE'; did you mean "
            "'CALLBOARD_QUEUE_MAX_SIZE'?");
  Director file;
  EXPECT_EQ(file.File("# A comment.\nqueue:\n  policy: block\n  max_sise: 5\n").Error(),
            absl::StrCat(file.path(),
                         ":4: unknown setting 'queue.max_sise'; did you mean "
                         "'queue.max_size'?"));
}

TEST(SettingsTest, VariablesOfOtherBinariesAndOfTasksAreNotOurs) {
  EXPECT_EQ((*Director().Environment(
                 {{"CALLBOARD_JOBS_FILE", "x"}, {"CALLBOARD_FENCE", "x"}, {"HOME", "x"}}))
                .queue()
                .max_size(),
            50u);
}

TEST(SettingsTest, WrongValueIsRefusedInEverySourceNamingPlaceAndLimit) {
  EXPECT_EQ(Director().Flags({"--queue.max_size=-1"}).Error(),
            "queue.max_size: '-1' is not valid; wanted: 0..10000000");
  EXPECT_THAT(Director().Flags({"--queue.max_size=10000001"}).Error(),
              HasSubstr("wanted: 0..10000000"));
  EXPECT_THAT(Director().Flags({"--queue.policy=drop_oldest"}).Error(),
              HasSubstr("wanted: reject|block|drop-oldest|drop-latest"));
  EXPECT_THAT(Director().Flags({"--queue.scheduler_share=1.5"}).Error(), HasSubstr("wanted: 0..1"));
  EXPECT_THAT(Director().Flags({"--lease.heartbeat=5"}).Error(), HasSubstr("wanted: 1s..5m"));
  EXPECT_THAT(Agent().Flags({"--lanes=default"}).Error(), HasSubstr("wanted: key=1..1000,…"));
  EXPECT_EQ(Director().Environment({{"CALLBOARD_LEASE_HEARTBEAT", "10m"}}).Error(),
            "environment variable CALLBOARD_LEASE_HEARTBEAT: lease.heartbeat: '10m' is not valid; "
            "wanted: 1s..5m");
  Director file;
  EXPECT_EQ(file.File("queue:\n\n  max_size: many\n").Error(),
            absl::StrCat(file.path(),
                         ":3: queue.max_size: 'many' is not valid; wanted: "
                         "0..10000000"));
}

TEST(SettingsTest, FileOfTheWrongShapeIsRefusedNamingTheLine) {
  const std::pair<std::string, std::string> cases[] = {
      {"queue: 5\n", ":1: queue holds settings, not a value"},
      {"queue:\n  max_size: [1]\n", ":2: queue.max_size: wanted one value"},
      {"fleet:\n  agents: a\n", ":2: fleet.agents: wanted a list"},
      {"queue:\n  max_size: 1\n  max_size: 2\n", ":3: queue.max_size is there twice"},
      {"config: other.yaml\n", ":1: a file cannot name another file"},
      {"- a\n", ":1: wanted a map of settings"},
  };
  for (const auto& [yaml, error] : cases) {
    EXPECT_THAT(Director().File(yaml).Error(), EndsWith(error)) << yaml;
  }
  EXPECT_THAT(Director().File("queue: {\n").Error(), HasSubstr(".yaml:2: "));
  EXPECT_EQ((*Director().File("")).queue().max_size(), 50u);
}

TEST(SettingsTest, FileThatCannotBeReadIsAnError) {
  for (const char* path : {"/nowhere/callboard.yaml", "/"}) {
    const std::string flag = absl::StrCat("--config=", path);
    EXPECT_EQ(Director().Flags({flag.c_str()}).Error(),
              absl::StrCat("config: cannot read '", path, "'"));
  }
}

TEST(SettingsTest, FlagWithoutItsValueOrName) {
  EXPECT_THAT(Director().Flags({"--queue.max_size"}).Error(), HasSubstr("a value is missing"));
  EXPECT_THAT(Director().Flags({"serve"}).Error(), HasSubstr("'serve' is not a flag"));
  EXPECT_THAT(Director().Flags({"--no-queue.max_size"}).Error(), HasSubstr("unknown setting"));
}

TEST(SettingsTest, HelpWinsOverWhatFollows) {
  EXPECT_EQ(Director().Flags({"--help", "--nonsense"}).Settings().ask, Ask::kHelp);
  EXPECT_EQ(Director().Flags({"-h"}).Settings().ask, Ask::kHelp);
  EXPECT_EQ(Director().Flags({"--version"}).Settings().ask, Ask::kVersion);
  EXPECT_EQ(Director().Flags({"--print_config", "--queue.max_size=1"}).Settings().ask,
            Ask::kPrintConfig);
}

}  // namespace
}  // namespace callboard::config
