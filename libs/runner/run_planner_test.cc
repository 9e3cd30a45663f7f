#include "libs/runner/run_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "libs/core/dispatch_rules.h"
#include "libs/testing/files.h"
#include "libs/testing/recorded_runs.h"
#include "libs/testing/status_matchers.h"

namespace callboard::runner {
namespace {

using test::HasReason;
using test::IsOk;
using test::MakeRunRequest;
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

RunPlanner Shell() {
  return *RunPlanner::Create(
      {.kind = SubprocessRunnerOptions::Kind::kShell, .allow_shell = true, .data_dir = "/data"});
}

TEST(RunPlannerTest, CommandGetsThePromptAsItsInput) {
  core::TaskSpec spec = SpecOf("secret prompt");
  spec.model = "opus";
  const auto plan = Exec({"sh", "--model={model}"}).Plan(MakeRunRequest(RunToken(1), spec));
  ASSERT_THAT(plan, IsOk());
  EXPECT_THAT(plan->argv, ElementsAre("sh", "--model=opus"));
  EXPECT_TRUE(plan->prompt_is_input);
  EXPECT_EQ(plan->prompt, "secret prompt");
  EXPECT_THAT(plan->environment, Contains("PATH=/bin"));
  EXPECT_THAT(plan->environment, testing::Each(testing::Not(HasSubstr("secret"))));
}

TEST(RunPlannerTest, ShellRunsThePromptFile) {
  const auto plan = Shell().Plan(MakeRunRequest(RunToken(1), SpecOf("exit 7")));
  ASSERT_THAT(plan, IsOk());
  EXPECT_THAT(plan->argv, ElementsAre("/bin/sh", plan->folders.prompt_file()));
  EXPECT_FALSE(plan->prompt_is_input);
}

TEST(RunPlannerTest, DisallowedShellIsRejectedAtStart) {
  EXPECT_THAT(
      RunPlanner::Create({.kind = SubprocessRunnerOptions::Kind::kShell, .data_dir = "/data"}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("runner.allow_shell")));
}

TEST(RunPlannerTest, WorkFolderBelongsToTheTaskOrTheSession) {
  const RunPlanner planner = Exec({"sh"});
  const ports::RunRequest request = MakeRunRequest(RunToken(1), SpecOf("prompt"));
  const RunFolders folders = planner.Plan(request)->folders;
  EXPECT_EQ(folders.work, "/data/work/" + request.task_id);
  EXPECT_EQ(folders.artifacts, "/data/artifacts/" + request.task_id);
  EXPECT_FALSE(folders.keeps_work);
  core::TaskSpec spec = SpecOf("prompt");
  spec.session_id = "../../etc";
  const RunFolders first = planner.Plan(MakeRunRequest(RunToken(2), spec))->folders;
  const RunFolders second = planner.Plan(MakeRunRequest(RunToken(3), spec))->folders;
  EXPECT_EQ(first.work, second.work);
  EXPECT_THAT(first.work, testing::MatchesRegex("/data/sessions/[0-9a-f]{32}"));
  EXPECT_TRUE(first.keeps_work);
}

TEST(RunPlannerTest, TimeoutIsThatOfTheTaskOrTheDefault) {
  core::TaskSpec spec = SpecOf("prompt");
  EXPECT_EQ(Exec({"sh"}).Plan(MakeRunRequest(RunToken(1), spec))->timeout, absl::Minutes(30));
  spec.timeout = absl::Seconds(7);
  EXPECT_EQ(Exec({"sh"}).Plan(MakeRunRequest(RunToken(1), spec))->timeout, absl::Seconds(7));
}

TEST(RunPlannerTest, TasksThatWouldChangeTheCommandAreRejected) {
  core::TaskSpec spec = SpecOf("prompt");
  spec.env = {{"LD_PRELOAD", "/tmp/evil.so"}};
  EXPECT_THAT(Exec({"sh"}).Check(spec), HasReason("INVALID_FIELD"));
  EXPECT_THAT(Shell().Check(spec), IsOk());
  spec = SpecOf("prompt");
  spec.project = core::Project{.name = "p", .path = "relative"};
  EXPECT_THAT(Exec({"sh"}).Check(spec), HasReason("INVALID_FIELD"));
}

TEST(RunPlannerTest, InvalidCommandIsRejectedAtStart) {
  EXPECT_THAT(RunPlanner::Create({.argv = {"/bin/sh", "{nonsense}"}, .data_dir = "/data"}),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(RunPlannerTest, UnexecutableCommandIsRejectedAtStart) {
  for (const char* program : {"/no/such/program", "/etc/passwd", "/bin", "no-such-program"}) {
    EXPECT_THAT(RunPlanner::Create({.argv = {program},
                                    .environment = {{"PATH", "/bin"}},
                                    .env_allow = {"PATH"},
                                    .data_dir = "/data"}),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("runner.argv")))
        << program;
  }
}

TEST(RunPlannerTest, MissingCommandIsTheAgentsFault) {
  const std::filesystem::path folder = test::NewFolder();
  const std::filesystem::path program = folder / "agent";
  std::filesystem::copy_file("/bin/true", program);
  const auto planner = RunPlanner::Create({.argv = {program}, .data_dir = folder});
  ASSERT_THAT(planner, IsOk());
  EXPECT_THAT(planner->Check(SpecOf("prompt")), IsOk());
  std::filesystem::remove(program);
  const absl::Status gone = planner->Check(SpecOf("prompt"));
  EXPECT_THAT(gone, HasReason("RUNNER_UNAVAILABLE"));
  EXPECT_EQ(core::ClassifyStartAnswer(gone), core::AnswerMeaning::kAgentAtFault);
  // An invalid task is still rejected as such.
  core::TaskSpec wrong = SpecOf("prompt");
  wrong.env = {{"LD_PRELOAD", "/tmp/evil.so"}};
  EXPECT_EQ(core::ClassifyStartAnswer(planner->Check(wrong)), core::AnswerMeaning::kRejected);
}

TEST(RunPlannerTest, RunWithoutDiskSpaceIsRetriedElsewhere) {
  const auto planner = RunPlanner::Create(
      {.argv = {"/bin/true"}, .data_dir = test::NewFolder(), .free_bytes_min = uint64_t{1} << 62});
  ASSERT_THAT(planner, IsOk());
  const absl::Status full = planner->Check(SpecOf("prompt"));
  EXPECT_THAT(full, HasReason("NO_SPACE"));
  EXPECT_THAT(full, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("bytes free")));
  EXPECT_EQ(core::ClassifyStartAnswer(full), core::AnswerMeaning::kTransient);
}

}  // namespace
}  // namespace callboard::runner
