#include "libs/core/task.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "libs/base/error.h"

namespace callboard::core {

absl::Status CheckSupported(const TaskSpec& spec) {
  absl::string_view field;
  if (spec.priority.value_or(Priority::kNormal) != Priority::kNormal) field = "priority";
  if (!spec.fairness_key.empty()) field = "fairness_key";
  if (spec.cost_units != 0) field = "cost_units";
  if (!spec.constraints.empty()) field = "constraints";
  if (spec.run_when.value_or(RunWhen::kAnytime) != RunWhen::kAnytime) field = "run_when";
  if (spec.time_sensitive) field = "time_sensitive";
  if (field.empty()) return absl::OkStatus();
  return base::WithReason(absl::UnimplementedError(absl::StrCat(
                              field, " is not supported by this version; leave it out")),
                          "FIELD_NOT_SUPPORTED", {{"field", std::string(field)}});
}

}  // namespace callboard::core
