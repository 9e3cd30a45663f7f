#include "libs/adapters/subprocess_runner/run_plan.h"

#include "libs/adapters/subprocess_runner/field_codec.h"
#include "libs/base/text.h"
#include "libs/core/limits.h"

namespace callboard::adapters {

std::string EncodePlan(const RunPlan& plan) {
  FieldWriter writer;
  writer.Texts(plan.argv);
  writer.Texts(plan.environment);
  writer.Text(plan.folders.run);
  writer.Text(plan.folders.work);
  writer.Number(plan.folders.keeps_work ? 1 : 0);
  writer.Text(plan.folders.project);
  writer.Text(plan.folders.artifacts);
  writer.Text(plan.prompt);
  writer.Text(plan.payload);
  writer.Number(plan.prompt_is_input ? 1 : 0);
  writer.Duration(plan.timeout);
  writer.Duration(plan.kill_grace);
  writer.Duration(plan.fence_at);
  return writer.bytes();
}

std::optional<RunPlan> DecodePlan(absl::string_view bytes) {
  FieldReader reader(bytes);
  RunPlan plan;
  plan.argv = reader.Texts();
  plan.environment = reader.Texts();
  plan.folders.run = reader.Text();
  plan.folders.work = reader.Text();
  plan.folders.keeps_work = reader.Number() != 0;
  plan.folders.project = reader.Text();
  plan.folders.artifacts = reader.Text();
  plan.prompt = reader.Text();
  plan.payload = reader.Text();
  plan.prompt_is_input = reader.Number() != 0;
  plan.timeout = reader.Duration();
  plan.kill_grace = reader.Duration();
  plan.fence_at = reader.Duration();
  return reader.whole() ? std::optional<RunPlan>(std::move(plan)) : std::nullopt;
}

std::string EncodeInstruction(const Instruction& instruction) {
  FieldWriter writer;
  writer.Number(static_cast<int64_t>(instruction.kind));
  writer.Duration(instruction.fence_at);
  return writer.bytes();
}

std::optional<Instruction> DecodeInstruction(absl::string_view bytes) {
  FieldReader reader(bytes);
  Instruction instruction;
  instruction.kind = static_cast<Instruction::Kind>(reader.Number());
  instruction.fence_at = reader.Duration();
  return reader.whole() ? std::optional<Instruction>(instruction) : std::nullopt;
}

Report NotStarted(const absl::Status& why) {
  return {.result = {.end = core::RunResult::End::kNotStarted,
                     .error = base::KeptText(std::string(why.message()), core::kErrorBytesMax)}};
}

std::string EncodeReport(const Report& report) {
  FieldWriter writer;
  writer.Number(static_cast<int64_t>(report.result.end));
  writer.Number(report.result.exit_code.has_value() ? 1 : 0);
  writer.Number(report.result.exit_code.value_or(0));
  writer.Text(report.result.signal);
  writer.Text(report.result.result);
  writer.Number(report.result.result_truncated ? 1 : 0);
  writer.Text(report.result.error);
  writer.Number(report.has_result_file ? 1 : 0);
  return writer.bytes();
}

std::optional<Report> DecodeReport(absl::string_view bytes) {
  FieldReader reader(bytes);
  Report report;
  report.result.end = static_cast<core::RunResult::End>(reader.Number());
  const bool has_exit_code = reader.Number() != 0;
  const int64_t exit_code = reader.Number();
  if (has_exit_code) report.result.exit_code = static_cast<int32_t>(exit_code);
  report.result.signal = reader.Text();
  report.result.result = reader.Text();
  report.result.result_truncated = reader.Number() != 0;
  report.result.error = reader.Text();
  report.has_result_file = reader.Number() != 0;
  return reader.whole() ? std::optional<Report>(std::move(report)) : std::nullopt;
}

}  // namespace callboard::adapters
