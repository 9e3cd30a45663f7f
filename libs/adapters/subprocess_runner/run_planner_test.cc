#include "libs/adapters/subprocess_runner/run_planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libs/testing/run_orders.h"
#include "libs/testing/status_matchers.h"

namespace callboard::adapters {
namespace {

using test::IsOk;
using test::RunOrderOf;
using test::RunToken;
using test::SpecOf;
using test::StatusIs;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

RunPlanner Exec(std::vector<std::string> argv) {
  return *RunPlanner::Create({.argv = std::move(argv),
                              .environment = {{"PATH", "/bin"}, {"TOKEN", "secret"}},
                              .env_allow = {"PATH"},
                              .data_dir = "/data"});
}

RunPlanner Shell(bool allowed) {
  return *RunPlanner::Create(
      {.kind = SubprocessRunnerOptions::Kind::kShell, .allow_shell = allowed, .data_dir = "/data"});
}

TEST(RunPlannerTest, CommandGetsThePromptAsItsInput) {
  core::TaskSpec spec = SpecOf("secret prompt");
  spec.model = "opus";
  const auto plan = Exec({"agent", "--model={model}"}).Plan(RunOrderOf(RunToken(1), spec));
  ASSERT_THAT(plan, IsOk());
  EXPECT_THAT(plan->argv, ElementsAre("agent", "--model=opus"));
  EXPECT_TRUE(plan->prompt_is_input);
  EXPECT_EQ(plan->prompt, "secret prompt");
  EXPECT_THAT(plan->environment, Contains("PATH=/bin"));
  EXPECT_THAT(plan->environment, testing::Each(testing::Not(HasSubstr("secret"))));
}

TEST(RunPlannerTest, ScriptIsNamedToTheShell) {
  const auto plan = Shell(true).Plan(RunOrderOf(RunToken(1), SpecOf("exit 7")));
  ASSERT_THAT(plan, IsOk());
  EXPECT_THAT(plan->argv, ElementsAre("/bin/sh", plan->folders.prompt_file()));
  EXPECT_FALSE(plan->prompt_is_input);
}

TEST(RunPlannerTest, ShellThatIsNotAllowedSaysWhatToSet) {
  EXPECT_THAT(Shell(false).Check(SpecOf("exit 7")),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("runner.allow_shell")));
  EXPECT_FALSE(Shell(false).Plan(RunOrderOf(RunToken(1), SpecOf("exit 7"))).ok());
}

TEST(RunPlannerTest, WorkFolderIsTheTasksOrTheSessions) {
  const RunPlanner planner = Exec({"agent"});
  const ports::RunOrder order = RunOrderOf(RunToken(1), SpecOf("prompt"));
  const RunFolders folders = planner.Plan(order)->folders;
  EXPECT_EQ(folders.work, "/data/work/" + order.task_id);
  EXPECT_EQ(folders.artifacts, "/data/artifacts/" + order.task_id);
  EXPECT_FALSE(folders.keeps_work);
  core::TaskSpec spec = SpecOf("prompt");
  spec.session_id = "../../etc";
  const RunFolders first = planner.Plan(RunOrderOf(RunToken(2), spec))->folders;
  const RunFolders second = planner.Plan(RunOrderOf(RunToken(3), spec))->folders;
  EXPECT_EQ(first.work, second.work);
  EXPECT_THAT(first.work, testing::MatchesRegex("/data/sessions/[0-9a-f]{32}"));
  EXPECT_TRUE(first.keeps_work);
}

TEST(RunPlannerTest, TimeoutIsTheTasksOrTheDefault) {
  core::TaskSpec spec = SpecOf("prompt");
  EXPECT_EQ(Exec({"agent"}).Plan(RunOrderOf(RunToken(1), spec))->timeout, absl::Minutes(30));
  spec.timeout = absl::Seconds(7);
  EXPECT_EQ(Exec({"agent"}).Plan(RunOrderOf(RunToken(1), spec))->timeout, absl::Seconds(7));
}

TEST(RunPlannerTest, TasksThatWouldChangeTheCommandAreRefused) {
  core::TaskSpec spec = SpecOf("prompt");
  spec.env = {{"LD_PRELOAD", "/tmp/evil.so"}};
  EXPECT_THAT(Exec({"agent"}).Check(spec), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(Shell(true).Check(spec), IsOk());
  spec = SpecOf("prompt");
  spec.project = core::Project{.name = "p", .path = "relative"};
  EXPECT_THAT(Exec({"agent"}).Check(spec), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(RunPlannerTest, BadCommandIsRefusedAtTheStart) {
  EXPECT_THAT(RunPlanner::Create({.argv = {"agent", "{nonsense}"}, .data_dir = "/data"}),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace callboard::adapters
