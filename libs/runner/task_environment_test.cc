#include "libs/runner/run_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libs/testing/recorded_runs.h"
#include "libs/testing/status_matchers.h"

namespace callboard::runner {
namespace {

using test::IsOk;
using test::StatusIs;
using ::testing::ElementsAre;

const RunFolders kFolders = {
    .run = "/d/runs/t", .work = "/d/work/t", .project = "", .artifacts = "/d/artifacts/t"};

TEST(TaskEnvironmentTest, OnlyAllowedVariablesAreTaken) {
  EXPECT_EQ(AllowedEnvironment({{"PATH", "/bin"}, {"SECRET", "x"}}, {"PATH", "HOME"}),
            (Environment{{"PATH", "/bin"}}));
}

TEST(TaskEnvironmentTest, MinimalTaskGetsOnlyCallboardVariables) {
  EXPECT_THAT(TaskEnvironment(test::MakeRunRequest(test::RunToken(1), test::SpecOf("prompt")),
                              kFolders, {}),
              ElementsAre("CALLBOARD_ARTIFACTS=/d/runs/t/artifacts",
                          "CALLBOARD_FENCE=" + core::ToString(test::RunToken(1).queue_id) + "/1/7",
                          "CALLBOARD_PROMPT_FILE=/d/runs/t/prompt",
                          "CALLBOARD_QUEUE_ID=" + core::ToString(test::RunToken(1).queue_id),
                          "CALLBOARD_RESULT_FILE=/d/runs/t/result.json",
                          "CALLBOARD_TASK_ID=" + core::TaskIdText(test::RunToken(1).queue_id,
                                                                  core::DispatchNumber(1))));
}

TEST(TaskEnvironmentTest, OptionalFieldsOfTheTaskAreAdded) {
  core::TaskSpec spec = test::SpecOf("prompt");
  spec.payload = "payload";
  spec.model = "opus";
  spec.session_id = "s";
  spec.project = core::Project{.name = "callboard", .path = "/src"};
  spec.thinking = false;
  ports::RunRequest request = test::MakeRunRequest(test::RunToken(1), spec);
  const std::string traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  request.trace = *core::ParseTraceparent(traceparent);
  EXPECT_THAT(
      TaskEnvironment(request, kFolders, {}),
      testing::IsSupersetOf<std::string>(
          {"CALLBOARD_PAYLOAD_FILE=/d/runs/t/payload", "CALLBOARD_MODEL=opus",
           "CALLBOARD_SESSION_ID=s", "CALLBOARD_PROJECT=callboard", "CALLBOARD_PROJECT_PATH=/src",
           "CALLBOARD_THINKING=false", "TRACEPARENT=" + traceparent}));
}

TEST(TaskEnvironmentTest, TaskOverridesAgentAndCallboardOverridesBoth) {
  core::TaskSpec spec = test::SpecOf("prompt");
  spec.env = {{"LANG", "de"}, {"CALLBOARD_TASK_ID", "forged"}};
  const std::vector<std::string> environment = TaskEnvironment(
      test::MakeRunRequest(test::RunToken(1), spec), kFolders, {{"LANG", "C"}, {"TZ", "UTC"}});
  EXPECT_THAT(environment, testing::IsSupersetOf({"LANG=de", "TZ=UTC"}));
  EXPECT_THAT(environment, testing::Not(testing::Contains("CALLBOARD_TASK_ID=forged")));
}

TEST(TaskEnvironmentTest, VariablesThatChangeTheCommandAreRejected) {
  core::TaskSpec spec;
  spec.env = {{"LANG", "de"}};
  EXPECT_THAT(CheckEnvironment(spec), IsOk());
  for (const char* name : {"LD_PRELOAD", "LD_LIBRARY_PATH", "PATH", "IFS"}) {
    spec.env = {{name, "x"}};
    EXPECT_THAT(CheckEnvironment(spec),
                StatusIs(absl::StatusCode::kInvalidArgument, testing::HasSubstr(name)));
  }
}

}  // namespace
}  // namespace callboard::runner
