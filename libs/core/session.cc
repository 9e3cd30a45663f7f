#include "libs/core/session.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "libs/base/error.h"

namespace callboard::core {
namespace {

bool IsHost(absl::string_view host) {
  const bool is_v6 = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (is_v6) host = host.substr(1, host.size() - 2);
  return !host.empty() && std::all_of(host.begin(), host.end(), [is_v6](char c) {
    if (is_v6) return absl::ascii_isxdigit(c) || c == ':' || c == '.' || c == '%';
    return absl::ascii_isalnum(c) || c == '.' || c == '-' || c == '_';
  });
}

}  // namespace

bool IsHostPort(absl::string_view address) {
  const size_t colon = address.rfind(':');
  uint32_t port = 0;
  return colon != absl::string_view::npos && IsHost(address.substr(0, colon)) &&
         absl::SimpleAtoi(address.substr(colon + 1), &port) && port > 0 && port <= 65535;
}

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
