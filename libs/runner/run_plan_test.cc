#include "libs/runner/run_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "libs/core/dispatch_rules.h"
#include "libs/testing/files.h"
#include "libs/testing/recorded_runs.h"
#include "libs/testing/status_matchers.h"

namespace callboard::runner {
namespace {

using test::IsOk;
using test::StatusIs;
using ::testing::ElementsAre;

core::RunSpec Spec(std::string model) {
  core::RunSpec spec;
  spec.model = std::move(model);
  spec.session_id = "session 1";
  spec.project = core::Project{.name = "callboard", .path = "/src"};
  return spec;
}

TEST(CommandTemplateTest, PlaceholdersAreFilledAndValuesStayOneArgument) {
  const auto command =
      CommandTemplate::Parse({"agent", "--model={model}", "{session_id}{project}", "{model}x"});
  ASSERT_THAT(command, IsOk());
  EXPECT_THAT(command->Fill(Spec("a b; rm $(c)\n{project}")),
              ElementsAre("agent", "--model=a b; rm $(c)\n{project}", "session 1callboard",
                          "a b; rm $(c)\n{project}x"));
}

TEST(CommandTemplateTest, PlaceholderWithoutAValueIsEmpty) {
  EXPECT_THAT(CommandTemplate::Parse({"agent", "{model}", "--project={project}"})->Fill({}),
              ElementsAre("agent", "", "--project="));
}

TEST(CommandTemplateTest, OtherBracesAreText) {
  EXPECT_THAT(CommandTemplate::Parse({"agent", "{}", "{\"a\":1}", "{Model}", "{model"})->Fill({}),
              ElementsAre("agent", "{}", "{\"a\":1}", "{Model}", "{model"));
}

TEST(CommandTemplateTest, UnknownPlaceholderIsRejected) {
  EXPECT_THAT(CommandTemplate::Parse({"agent", "--x={prompt}"}),
              StatusIs(absl::StatusCode::kInvalidArgument, testing::HasSubstr("{prompt}")));
}

TEST(CommandTemplateTest, CommandWithoutAFixedProgramIsRejected) {
  EXPECT_THAT(CommandTemplate::Parse({}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(CommandTemplate::Parse({""}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(CommandTemplate::Parse({"{model}"}), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(CommandTemplateTest, ValueThatLooksLikeAnOptionIsRejected) {
  const auto joined = CommandTemplate::Parse({"agent", "--model={model}"});
  EXPECT_THAT(joined->Check(Spec("--yes")), IsOk());
  EXPECT_THAT(joined->Check(Spec(std::string("a\0b", 3))), test::HasReason("INVALID_FIELD"));
  const auto apart = CommandTemplate::Parse({"agent", "--model", "{model}"});
  EXPECT_THAT(apart->Check(Spec("opus")), IsOk());
  EXPECT_THAT(apart->Check(Spec("--yes")), test::HasReason("INVALID_FIELD"));
  // The argument begins with the second placeholder, because the first one has no value.
  core::RunSpec spec = Spec("--yes");
  spec.session_id = "";
  EXPECT_THAT(CommandTemplate::Parse({"agent", "{session_id}{model}"})->Check(spec),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

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
  core::RunSpec spec = test::SpecOf("prompt");
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
  core::RunSpec spec = test::SpecOf("prompt");
  spec.env = {{"LANG", "de"}, {"CALLBOARD_TASK_ID", "forged"}};
  const std::vector<std::string> environment = TaskEnvironment(
      test::MakeRunRequest(test::RunToken(1), spec), kFolders, {{"LANG", "C"}, {"TZ", "UTC"}});
  EXPECT_THAT(environment, testing::IsSupersetOf({"LANG=de", "TZ=UTC"}));
  EXPECT_THAT(environment, testing::Not(testing::Contains("CALLBOARD_TASK_ID=forged")));
}

TEST(TaskEnvironmentTest, VariablesThatChangeTheCommandAreRejected) {
  core::RunSpec spec;
  spec.env = {{"LANG", "de"}};
  EXPECT_THAT(CheckEnvironment(spec), IsOk());
  for (const char* name : {"LD_PRELOAD", "LD_LIBRARY_PATH", "PATH", "IFS"}) {
    spec.env = {{name, "x"}};
    EXPECT_THAT(CheckEnvironment(spec),
                StatusIs(absl::StatusCode::kInvalidArgument, testing::HasSubstr(name)));
  }
}

TEST(RunPlanTest, PlanRoundTrips) {
  const RunPlan plan = {.argv = {"agent", "", "a b"},
                        .environment = {"A=1", "B=two words"},
                        .folders = {.run = "/d/runs/t",
                                    .work = "/d/work/t",
                                    .keeps_work = true,
                                    .project = "/src",
                                    .artifacts = "/d/artifacts/t"},
                        .prompt = std::string("line\n\0bytes", 11),
                        .payload = "payload",
                        .prompt_is_input = true,
                        .timeout = absl::Seconds(7),
                        .kill_grace = absl::Milliseconds(3),
                        .fence_at = absl::Hours(1000)};
  EXPECT_EQ(DecodePlan(EncodePlan(plan)), plan);
  EXPECT_EQ(DecodePlan(EncodePlan(RunPlan())), RunPlan());
}

TEST(RunPlanTest, InstructionsAndReportsRoundTrip) {
  const Instruction instruction = {Instruction::Kind::kMoveFence, absl::InfiniteDuration()};
  EXPECT_EQ(DecodeInstruction(EncodeInstruction(instruction)), instruction);
  const Report report = {.result = {.end = core::RunResult::End::kTimedOut,
                                    .exit_code = 7,
                                    .signal = "SIGKILL",
                                    .result = "{}",
                                    .result_truncated = true,
                                    .error = "why"},
                         .has_result_file = true};
  EXPECT_EQ(DecodeReport(EncodeReport(report)), report);
  EXPECT_EQ(DecodeReport(EncodeReport(Report())), Report());
}

TEST(RunPlanTest, TruncatedOrOverlongBytesAreNotDecoded) {
  const std::string bytes = EncodePlan({.argv = {"agent"}, .prompt = "prompt"});
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(DecodePlan(bytes.substr(0, size)), std::nullopt) << size;
  }
  EXPECT_EQ(DecodePlan(bytes + "x"), std::nullopt);
  EXPECT_EQ(DecodeReport("x"), std::nullopt);
  EXPECT_EQ(DecodeInstruction(""), std::nullopt);
}

using test::HasReason;
using test::MakeRunRequest;
using test::RunToken;
using test::SpecOf;
using ::testing::Contains;
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
  core::RunSpec spec = SpecOf("secret prompt");
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
  core::RunSpec spec = SpecOf("prompt");
  spec.session_id = "../../etc";
  const RunFolders first = planner.Plan(MakeRunRequest(RunToken(2), spec))->folders;
  const RunFolders second = planner.Plan(MakeRunRequest(RunToken(3), spec))->folders;
  EXPECT_EQ(first.work, second.work);
  EXPECT_THAT(first.work, testing::MatchesRegex("/data/sessions/[0-9a-f]{32}"));
  EXPECT_TRUE(first.keeps_work);
}

TEST(RunPlannerTest, TimeoutIsThatOfTheTaskOrTheDefault) {
  core::RunSpec spec = SpecOf("prompt");
  EXPECT_EQ(Exec({"sh"}).Plan(MakeRunRequest(RunToken(1), spec))->timeout, absl::Minutes(30));
  spec.timeout = absl::Seconds(7);
  EXPECT_EQ(Exec({"sh"}).Plan(MakeRunRequest(RunToken(1), spec))->timeout, absl::Seconds(7));
}

TEST(RunPlannerTest, TasksThatWouldChangeTheCommandAreRejected) {
  core::RunSpec spec = SpecOf("prompt");
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
  core::RunSpec wrong = SpecOf("prompt");
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
