#include "services/cli/exit_code.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "libs/base/error.h"

namespace callboard::cli {
namespace {

constexpr absl::string_view kUnreachable = "UNREACHABLE";

}  // namespace

absl::Status Unreachable(const absl::Status& error, const std::string& address) {
  return base::WithReason(
      absl::UnavailableError(absl::StrCat(
          "no director answers at ", address, " (", error.message(),
          "); start one with `callboard dev`, or name another with --director.address")),
      kUnreachable);
}

ExitCode ExitCodeOf(const absl::Status& status) {
  const std::string reason = base::DetailsOf(status).reason;
  if (reason == kUnreachable) return ExitCode::kUnreachable;
  if (reason == "QUEUE_FULL") return ExitCode::kQueueFull;
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return ExitCode::kDone;
    case absl::StatusCode::kNotFound:
      return ExitCode::kNotFound;
    default:
      return ExitCode::kFailed;
  }
}

}  // namespace callboard::cli
