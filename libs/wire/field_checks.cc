#include "libs/wire/field_checks.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/error.h"

namespace callboard::wire {
namespace {

// gRPC sends at most 8 KiB of headers, and a violation takes up to 200 bytes.
constexpr size_t kViolationsMax = 32;

}  // namespace

void FieldChecks::Enter(absl::string_view field) { prefix_ = absl::StrCat(field, "."); }

void FieldChecks::Refuse(absl::string_view name, absl::string_view problem) {
  const std::string field = absl::StrCat(prefix_, name);
  if (fields_.size() == kViolationsMax || !fields_.insert(field).second) return;
  if (status_.ok()) {
    status_ = base::WithReason(absl::InvalidArgumentError(absl::StrCat(field, " ", problem)),
                               "INVALID_FIELD", {{"field", field}});
  }
  status_ = base::WithFieldViolation(std::move(status_), field, problem);
}

bool FieldChecks::AtMost(absl::string_view field, uint64_t size, uint64_t limit,
                         absl::string_view unit) {
  if (size <= limit) return true;
  Refuse(field, absl::StrCat("has ", size, " ", unit, ", at most ", limit, " are allowed"));
  return false;
}

}  // namespace callboard::wire
