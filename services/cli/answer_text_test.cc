#include "services/cli/answer_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "callboard/v1/queue.pb.h"
#include "libs/base/error.h"
#include "libs/flow/abort.h"
#include "libs/ports/event_store.h"

namespace callboard::cli {
namespace {

using config::v1::CliConfig;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(AnswerTextTest, AnswerIsATableOrOneJsonDocument) {
  CliConfig config;
  EXPECT_EQ(FormatAnswer(config, v1::KickDispatcherRequest(), "for people\n"), "for people\n");
  config.set_output(CliConfig::OUTPUT_JSON);
  EXPECT_EQ(FormatAnswer(config, v1::KickDispatcherRequest(), "for people\n"), "{}\n");
}

TEST(AnswerTextTest, LongTextIsTruncatedAtACharacterBoundary) {
  EXPECT_EQ(Truncate("\xc3\xa4\xc3\xb6", 2), "\xc3\xa4\xc3\xb6");
  EXPECT_EQ(Truncate("\xc3\xa4\xc3\xb6\xc3\xbc", 2), "\xc3\xa4…");
}

TEST(AnswerTextTest, TimeIsUtcToTheMillisecond) {
  google::protobuf::Timestamp time;
  time.set_seconds(1);
  time.set_nanos(2'345'678);
  EXPECT_EQ(TimeText(time), "1970-01-01 00:00:01.002 UTC");
  EXPECT_EQ(Rfc3339Text(TimeOf(time)), "1970-01-01T00:00:01.002Z");
}

TEST(AnswerTextTest, WrongTaskIdGetsAnErrorWithTheValidForm) {
  EXPECT_EQ(QueueIdError("queue-00000000000000000000000001"), "");
  EXPECT_THAT(QueueIdError("queue-1\x1b"),
              AllOf(StartsWith(R"('queue-1\u001b' is not the id of a task)"),
                    HasSubstr("expected: queue- and 26 letters and digits")));
}

TEST(AnswerTextTest, ColumnsAreAlignedWithoutTrailingSpaces) {
  EXPECT_EQ(
      FormatColumns({{"NAME", "STATE", "WHY"}, {"nightly", "a", ""}, {"x", "paused", "a\nb"}}),
      "NAME     STATE   WHY\n"
      "nightly  a\n"
      "x        paused  a\\nb\n");
  EXPECT_EQ(FormatColumns({}), "");
}

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
