#include "libs/base/log.h"

#include <gtest/gtest.h>

namespace callboard::base {
namespace {

const absl::Time kTime = absl::FromUnixMicros(1'700'000'000'123'456);

TEST(LogLineTest, LogfmtPutsTheEventFirstAndKeepsFieldOrder) {
  const LogField fields[] = {
      {"queue_id", "queue-01"}, {"depth", 5}, {"ratio", 0.5}, {"final", true}};
  EXPECT_EQ(
      FormatLogLine(LogFormat::kLogfmt, kTime, LogLevel::kInfo, "queue", "task_added", fields),
      "2023-11-14T22:13:20.123456Z INFO queue=task_added queue_id=queue-01 depth=5 ratio=0.5 "
      "final=true");
}

TEST(LogLineTest, JsonKeepsNumbersAndBooleans) {
  const LogField fields[] = {{"depth", 5}, {"final", true}, {"took", absl::Milliseconds(1500)}};
  EXPECT_EQ(
      FormatLogLine(LogFormat::kJson, kTime, LogLevel::kError, "queue", "task_added", fields),
      R"({"time":"2023-11-14T22:13:20.123456Z","level":"ERROR","queue":"task_added","depth":5,)"
      R"("final":true,"took":"1.5s"})");
}

TEST(LogLineTest, ValueCannotInjectAFieldOrLine) {
  const LogField fields[] = {{"error", "a b=c\n2023 ERROR \"x\""}};
  EXPECT_EQ(FormatLogLine(LogFormat::kLogfmt, kTime, LogLevel::kInfo, "a", "b", fields),
            "2023-11-14T22:13:20.123456Z INFO a=b error=\"a b=c\\n2023 ERROR \\\"x\\\"\"");
}

TEST(LogLineTest, ValueCannotControlATerminal) {
  const LogField fields[] = {{"name",
                              "\xc2\x9b"
                              "2J"},
                             {"bad", "\xff"},
                             {"bidi", "\xe2\x80\xae"}};
  EXPECT_EQ(FormatLogLine(LogFormat::kLogfmt, kTime, LogLevel::kInfo, "a", "b", fields),
            "2023-11-14T22:13:20.123456Z INFO a=b name=\"\\u009b2J\" bad=\"\\ufffd\" "
            "bidi=\"\\u202e\"");
}

TEST(LogLineTest, EmptyValueIsQuoted) {
  const LogField fields[] = {{"empty", ""}};
  EXPECT_EQ(FormatLogLine(LogFormat::kLogfmt, kTime, LogLevel::kDebug, "a", "b", fields),
            "2023-11-14T22:13:20.123456Z DEBUG a=b empty=\"\"");
}

}  // namespace
}  // namespace callboard::base
