#include "libs/runner/run_plan.h"

#include <gtest/gtest.h>

#include <string>

namespace callboard::runner {
namespace {

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
  const Instruction instruction = {Instruction::Kind::kFence, absl::InfiniteDuration()};
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

}  // namespace
}  // namespace callboard::runner
