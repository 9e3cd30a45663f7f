#include "services/cli/answer_text.h"

#include <gtest/gtest.h>

#include "libs/base/error.h"
#include "libs/flow/limits.h"
#include "libs/ports/event_store.h"

namespace callboard::cli {
namespace {

TEST(ExitCodeTest, NumbersAreStable) {
  EXPECT_EQ(static_cast<int>(ExitCode::kDone), 0);
  EXPECT_EQ(static_cast<int>(ExitCode::kFailed), 1);
  EXPECT_EQ(static_cast<int>(ExitCode::kUsage), 2);
  EXPECT_EQ(static_cast<int>(ExitCode::kQueueFull), 3);
  EXPECT_EQ(static_cast<int>(ExitCode::kNotFound), 4);
  EXPECT_EQ(static_cast<int>(ExitCode::kUnreachable), 5);
  EXPECT_EQ(static_cast<int>(ExitCode::kStoreRefused), 65);
  EXPECT_EQ(static_cast<int>(ExitCode::kStoreLocked), 75);
  EXPECT_EQ(static_cast<int>(ExitCode::kInterrupted), 130);
}

TEST(ExitCodeTest, EachKindOfErrorHasItsExitCode) {
  EXPECT_EQ(ExitCodeOf(absl::OkStatus()), ExitCode::kDone);
  EXPECT_EQ(ExitCodeOf(absl::NotFoundError("no such task")), ExitCode::kNotFound);
  EXPECT_EQ(ExitCodeOf(base::WithReason(absl::ResourceExhaustedError("full"), "QUEUE_FULL")),
            ExitCode::kQueueFull);
  EXPECT_EQ(ExitCodeOf(absl::ResourceExhaustedError("too many waiters")), ExitCode::kFailed);
  EXPECT_EQ(ExitCodeOf(absl::InvalidArgumentError("prompt is required")), ExitCode::kFailed);
  EXPECT_EQ(ExitCodeOf(UsageError("unknown flag")), ExitCode::kUsage);
  EXPECT_EQ(ExitCodeOf(flow::AbortError()), ExitCode::kInterrupted);
  EXPECT_EQ(ExitCodeOf(absl::CancelledError("by the server")), ExitCode::kFailed);
  EXPECT_EQ(ExitCodeOf(base::WithReason(absl::DataLossError("torn"), ports::kStoreRefused)),
            ExitCode::kStoreRefused);
  EXPECT_EQ(
      ExitCodeOf(base::WithReason(absl::FailedPreconditionError("used"), ports::kStoreLocked)),
      ExitCode::kStoreLocked);
}

TEST(ExitCodeTest, UnavailableServerIsNotAnUnreachableOne) {
  EXPECT_EQ(ExitCodeOf(base::WithReason(absl::UnavailableError("draining"), "QUEUE_DRAINING")),
            ExitCode::kFailed);
  EXPECT_EQ(
      ExitCodeOf(UnreachableError(absl::UnavailableError("refused"), {"director", "[::1]:1"})),
      ExitCode::kUnreachable);
  EXPECT_EQ(ExitCodeOf(base::WithReason(absl::UnavailableError("it did not answer the scheduler"),
                                        "DIRECTOR_UNREACHABLE")),
            ExitCode::kUnreachable)
      << "also when the scheduler could not reach the director";
}

TEST(ExitCodeTest, UnreachableErrorHasAddressAndAdvice) {
  EXPECT_EQ(
      UnreachableError(absl::UnavailableError("refused"), {"scheduler", "10.0.0.1:7072"}).message(),
      "no scheduler answers at 10.0.0.1:7072 (refused); check that it runs and that this is its "
      "gRPC port, start one with `callboard dev`, or name another with --scheduler.address");
}

}  // namespace
}  // namespace callboard::cli
