#include "services/cli/exit_code.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "libs/base/error.h"
#include "libs/flow/abort.h"
#include "libs/ports/event_store.h"

namespace callboard::cli {
namespace {

constexpr absl::string_view kUnreachable = "UNREACHABLE";
// As the scheduler says it of its director.
constexpr absl::string_view kDirectorUnreachable = "DIRECTOR_UNREACHABLE";
constexpr absl::string_view kUsage = "USAGE";

}  // namespace

absl::Status Unreachable(const absl::Status& error, const Peer& peer) {
  return base::WithReason(
      absl::UnavailableError(absl::StrCat(
          "no ", peer.name, " answers at ", peer.address, " (", error.message(),
          "); check that it runs and that this is its gRPC port, start one with `callboard dev`, "
          "or name another with --",
          peer.name, ".address")),
      kUnreachable);
}

absl::Status UsageError(absl::string_view message) {
  return base::WithReason(absl::InvalidArgumentError(message), kUsage);
}

ExitCode ExitCodeOf(const absl::Status& status) {
  const std::string reason = base::DetailsOf(status).reason;
  if (reason == kUnreachable || reason == kDirectorUnreachable) return ExitCode::kUnreachable;
  if (reason == kUsage) return ExitCode::kUsage;
  if (flow::IsAbortError(status)) return ExitCode::kInterrupted;
  if (reason == "QUEUE_FULL") return ExitCode::kQueueFull;
  if (reason == ports::kStoreRefused) return ExitCode::kStoreRefused;
  if (reason == ports::kStoreLocked) return ExitCode::kStoreLocked;
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
