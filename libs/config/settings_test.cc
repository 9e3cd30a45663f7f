#include "libs/config/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "absl/strings/str_cat.h"
#include "callboard/config/v1/agent.pb.h"
#include "callboard/config/v1/director.pb.h"
#include "callboard/config/v1/scheduler.pb.h"
#include "libs/testing/status_matchers.h"

namespace callboard::config {
namespace {

using test::StatusIs;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;
using v1::AgentConfig;
using v1::DirectorConfig;
using v1::LaneConfig;
using v1::QueueConfig;
using v1::SchedulerConfig;

// Builds the sources of settings and loads them.
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
  // Writes the file for the flag --config.
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

TEST(SettingsTest, DefaultsApply) {
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

TEST(SettingsTest, BooleanFlagsNeedNoValueAndCanBeNegated) {
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

TEST(SettingsTest, UnknownNameIsAnErrorWithTheMostSimilarName) {
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

TEST(SettingsTest, VariablesOfOtherProgramsAndOfTasksAreIgnored) {
  EXPECT_EQ((*Director().Environment(
                 {{"CALLBOARD_JOBS_FILE", "x"}, {"CALLBOARD_FENCE", "x"}, {"HOME", "x"}}))
                .queue()
                .max_size(),
            50u);
}

TEST(SettingsTest, InvalidValueIsAnErrorWithSourceAndLimits) {
  EXPECT_EQ(Director().Flags({"--queue.max_size=-1"}).Error(),
            "queue.max_size: '-1' is not valid; expected: 0..10000000");
  EXPECT_THAT(Director().Flags({"--queue.max_size=10000001"}).Error(),
              HasSubstr("expected: 0..10000000"));
  EXPECT_THAT(Director().Flags({"--queue.policy=drop_oldest"}).Error(),
              HasSubstr("expected: reject|block|drop-oldest|drop-latest"));
  EXPECT_THAT(Director().Flags({"--queue.scheduler_share=1.5"}).Error(),
              HasSubstr("expected: 0..1"));
  EXPECT_THAT(Director().Flags({"--lease.heartbeat=5"}).Error(), HasSubstr("expected: 1s..5m"));
  EXPECT_THAT(Agent().Flags({"--lanes=default"}).Error(), HasSubstr("expected: key=1..1000,…"));
  EXPECT_EQ(Director().Environment({{"CALLBOARD_LEASE_HEARTBEAT", "10m"}}).Error(),
            "environment variable CALLBOARD_LEASE_HEARTBEAT: lease.heartbeat: '10m' is not valid; "
            "expected: 1s..5m");
  Director file;
  EXPECT_EQ(file.File("queue:\n\n  max_size: many\n").Error(),
            absl::StrCat(file.path(),
                         ":3: queue.max_size: 'many' is not valid; expected: "
                         "0..10000000"));
}

TEST(SettingsTest, FileOfTheWrongShapeIsAnErrorWithItsLine) {
  const std::pair<std::string, std::string> cases[] = {
      {"queue: 5\n", ":1: queue holds settings, not a value"},
      {"queue:\n  max_size: [1]\n", ":2: queue.max_size: expected one value"},
      {"fleet:\n  agents: a\n", ":2: fleet.agents: expected a list"},
      {"queue:\n  max_size: 1\n  max_size: 2\n", ":3: queue.max_size is duplicated"},
      {"config: other.yaml\n", ":1: a file cannot name another file"},
      {"- a\n", ":1: expected a map of settings"},
  };
  for (const auto& [yaml, error] : cases) {
    EXPECT_THAT(Director().File(yaml).Error(), EndsWith(error)) << yaml;
  }
  EXPECT_THAT(Director().File("queue: {\n").Error(), HasSubstr(".yaml:2: "));
  EXPECT_EQ((*Director().File("")).queue().max_size(), 50u);
  EXPECT_EQ((*Director().File("queue:\n  max_size:\n")).queue().max_size(), 50u);
}

TEST(SettingsTest, EntriesOfAMapOfSettingsComeFromEverySource) {
  Director settings;
  settings.Flags({"--flow.lanes.build.max_pending=1"})
      .File(
          "flow:\n  lanes:\n    build: {max_pending: 2, priority: high}\n    big-one:\n"
          "      priority: low\n")
      .Environment({{"CALLBOARD_FLOW_LANES_BUILD_PRIORITY", "low"},
                    {"CALLBOARD_FLOW_LANES_MAX_PENDING_MAX_PENDING", "3"}});
  const DirectorConfig config = *settings;
  ASSERT_THAT(config.flow().lanes(),
              UnorderedElementsAre(Key("build"), Key("big-one"), Key("max_pending")));
  EXPECT_EQ(config.flow().lanes().at("build").max_pending(), 1u);
  EXPECT_EQ(config.flow().lanes().at("build").priority(), LaneConfig::PRIORITY_HIGH);
  EXPECT_EQ(config.flow().lanes().at("big-one").priority(), LaneConfig::PRIORITY_LOW);
  EXPECT_EQ(config.flow().lanes().at("max_pending").max_pending(), 3u);

  const std::map<std::string, std::string> origins = settings.Settings().origins;
  EXPECT_EQ(origins.at("flow.lanes.build.max_pending"), "flag");
  EXPECT_EQ(origins.at("flow.lanes.build.priority"), absl::StrCat("file ", settings.path(), ":3"));
  EXPECT_EQ(origins.at("flow.lanes.max_pending.max_pending"),
            "environment CALLBOARD_FLOW_LANES_MAX_PENDING_MAX_PENDING");
}

TEST(SettingsTest, NewMapEntryHasDefaultSettings) {
  EXPECT_THAT((*Director()).flow().lanes(), IsEmpty());
  const DirectorConfig config = *Director().Flags({"--flow.lanes.build.max_pending=20"});
  EXPECT_EQ(config.flow().lanes().at("build").priority(), LaneConfig::PRIORITY_AUTO);
}

TEST(SettingsTest, InvalidEntryNameIsAnErrorInEverySource) {
  const std::string expected =
      "is not a valid name; expected: lower-case letters, digits, _ and -, the first a letter or "
      "digit, at most 64 of them";
  EXPECT_EQ(Director().Flags({"--flow.lanes.Build.max_pending=1"}).Error(),
            "flow.lanes.Build.max_pending: 'Build' " + expected);
  EXPECT_EQ(Director().Environment({{"CALLBOARD_FLOW_LANES__A_PRIORITY", "low"}}).Error(),
            "environment variable CALLBOARD_FLOW_LANES__A_PRIORITY: flow.lanes._a.priority: '_a' " +
                expected);
  for (const std::string& name : {std::string("-a"), std::string("a b"), std::string("é"),
                                  std::string("<name>"), std::string(65, 'a')}) {
    const std::string flag = absl::StrCat("--flow.lanes.", name, ".priority=low");
    EXPECT_THAT(Director().Flags({flag.c_str()}).Error(), EndsWith(expected)) << name;
  }
  const std::string longest =
      absl::StrCat("--flow.lanes.0-_", std::string(61, 'z'), ".priority=low");
  EXPECT_THAT((*Director().Flags({longest.c_str()})).flow().lanes(), SizeIs(1));
  Director file;
  EXPECT_EQ(file.File("flow:\n  lanes:\n    a.b:\n      priority: low\n").Error(),
            absl::StrCat(file.path(), ":4: flow.lanes.a.b.priority: 'a.b' ", expected));
}

TEST(SettingsTest, InvalidOrUnknownSettingOfAnEntryIsAnError) {
  EXPECT_EQ(Director().Flags({"--flow.lanes.build.max_pendig=1"}).Error(),
            "unknown setting 'flow.lanes.build.max_pendig'; did you mean "
            "'flow.lanes.build.max_pending'?");
  EXPECT_EQ(Director().Flags({"--flow.lanes..max_pending=1"}).Error(),
            "unknown setting 'flow.lanes..max_pending'; did you mean "
            "'flow.lanes.<name>.max_pending'?");
  EXPECT_EQ(Director().Environment({{"CALLBOARD_FLOW_LANES_BUILD_MAX_PENDIG", "1"}}).Error(),
            "environment: unknown setting 'CALLBOARD_FLOW_LANES_BUILD_MAX_PENDIG'; did you mean "
            "'CALLBOARD_FLOW_LANES_<NAME>_MAX_PENDING'?");
  EXPECT_EQ(Director().Flags({"--flow.lanes.build.max_pending=many"}).Error(),
            "flow.lanes.build.max_pending: 'many' is not valid; expected: 0..1000000");
  const std::pair<std::string, std::string> cases[] = {
      {"flow:\n  lanes:\n    build:\n      max_pendig: 1\n",
       ":4: unknown setting 'flow.lanes.build.max_pendig'; did you mean "
       "'flow.lanes.build.max_pending'?"},
      {"flow:\n  lanes:\n    build:\n      priority: 7\n",
       ":4: flow.lanes.build.priority: '7' is not valid; expected: low|normal|high|auto"},
      {"flow:\n  lanes:\n    build: 7\n", ":3: flow.lanes.build holds settings, not a value"},
      {"flow:\n  lanes: [build]\n", ":2: flow.lanes holds settings, not a value"},
      {"flow:\n  lanes:\n    build: {priority: low}\n    build: {priority: high}\n",
       ":4: flow.lanes.build is duplicated"},
  };
  for (const auto& [yaml, error] : cases) {
    EXPECT_THAT(Director().File(yaml).Error(), EndsWith(error)) << yaml;
  }
}

TEST(SettingsTest, EntryInAVariableOfAnotherProgramIsIgnored) {
  Loaded<SchedulerConfig> scheduler;
  EXPECT_EQ((*scheduler.Environment({{"CALLBOARD_FLOW_LANES_BUILD_MAX_PENDING", "many"}}))
                .grpc()
                .listen(),
            "127.0.0.1:7072");
}

TEST(SettingsTest, UnreadableFileIsAnError) {
  for (const char* path : {"/nowhere/callboard.yaml", "/"}) {
    const std::string flag = absl::StrCat("--config=", path);
    EXPECT_EQ(Director().Flags({flag.c_str()}).Error(),
              absl::StrCat("config: cannot read '", path, "'"));
  }
}

TEST(SettingsTest, FlagWithoutValueOrNameIsAnError) {
  EXPECT_THAT(Director().Flags({"--queue.max_size"}).Error(), HasSubstr("a value is missing"));
  EXPECT_THAT(Director().Flags({"serve"}).Error(), HasSubstr("'serve' is not a flag"));
  EXPECT_THAT(Director().Flags({"--no-queue.max_size"}).Error(), HasSubstr("unknown setting"));
}

TEST(SettingsTest, HelpIgnoresLaterFlags) {
  EXPECT_EQ(Director().Flags({"--help", "--nonsense"}).Settings().action, Action::kHelp);
  EXPECT_EQ(Director().Flags({"-h"}).Settings().action, Action::kHelp);
  EXPECT_EQ(Director().Flags({"--version"}).Settings().action, Action::kVersion);
  EXPECT_EQ(Director().Flags({"--print_config", "--queue.max_size=1"}).Settings().action,
            Action::kPrintConfig);
}

}  // namespace
}  // namespace callboard::config
