#include "libs/runner/run_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libs/testing/status_matchers.h"

namespace callboard::runner {
namespace {

using test::IsOk;
using test::StatusIs;
using ::testing::ElementsAre;

core::TaskSpec Spec(std::string model) {
  core::TaskSpec spec;
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
  core::TaskSpec spec = Spec("--yes");
  spec.session_id = "";
  EXPECT_THAT(CommandTemplate::Parse({"agent", "{session_id}{model}"})->Check(spec),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace callboard::runner
