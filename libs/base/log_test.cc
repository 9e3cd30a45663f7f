#include "libs/base/log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/base/check.h"

namespace callboard::base {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::SizeIs;

class LogTest : public ::testing::Test {
 protected:
  void StartWith(LogOptions options) {
    options.sink = std::make_shared<spdlog::sinks::ostream_sink_st>(out_);
    StartLogging(options);
  }
  ~LogTest() override { StartLogging(LogOptions()); }

  std::vector<std::string> Lines() const {
    return absl::StrSplit(out_.str(), '\n', absl::SkipEmpty());
  }

  std::ostringstream out_;
};

TEST_F(LogTest, WritesOneLinePerEventAtOrAboveTheLevel) {
  StartWith({.level = LogLevel::kInfo});
  LogDebug("queue", "turn");
  LogInfo("queue", "task_added", {{"depth", 5}});
  LogError("store", "commit_failed");
  EXPECT_THAT(Lines(), ElementsAre(EndsWith("Z INFO queue=task_added depth=5"),
                                   EndsWith("Z ERROR store=commit_failed")));
}

TEST_F(LogTest, FloodOfOneEventDoesNotSuppressOthers) {
  StartWith({.lines_per_second = 3});
  for (int i = 0; i < 100; ++i) LogWarning("agent", "busy");
  LogInfo("queue", "task_added");
  EXPECT_THAT(Lines(), SizeIs(testing::Lt(100u)));
  EXPECT_THAT(Lines().back(), EndsWith("queue=task_added"));
}

TEST_F(LogTest, LevelStepsAreBoundedAndAlwaysLogged) {
  StartWith({.level = LogLevel::kWarning});
  DecreaseLogDetail();
  DecreaseLogDetail();
  LogWarning("agent", "busy");
  for (int i = 0; i < 4; ++i) IncreaseLogDetail();
  LogDebug("queue", "turn");
  DecreaseLogDetail();
  LogDebug("queue", "turn");
  EXPECT_THAT(
      Lines(),
      ElementsAre(
          EndsWith("Z INFO log=level level=error"), EndsWith("Z INFO log=level level=error"),
          EndsWith("Z INFO log=level level=warning"), EndsWith("Z INFO log=level level=info"),
          EndsWith("Z INFO log=level level=debug"), EndsWith("Z INFO log=level level=debug"),
          EndsWith("Z DEBUG queue=turn"), EndsWith("Z INFO log=level level=info")));
}

TEST_F(LogTest, LevelCanChangeWhileThreadsLog) {
  StartWith({.level = LogLevel::kInfo, .lines_per_second = 1'000'000});
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      for (int line = 0; line < 1000; ++line) {
        LogError("queue", "turn");
        line % 2 == 0 ? IncreaseLogDetail() : DecreaseLogDetail();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(Lines(), SizeIs(8000));
}

TEST_F(LogTest, FieldsAreMadeOnlyForAWrittenLine) {
  StartWith({.level = LogLevel::kInfo, .lines_per_second = 1});
  int made = 0;
  const auto fields = [&made] { return std::vector<LogField>{{"made", ++made}}; };
  LogAt(LogLevel::kDebug, "queue", "turn", fields);
  LogAt(LogLevel::kWarning, "queue", "task_added", fields);
  LogAt(LogLevel::kWarning, "queue", "task_added", fields);
  EXPECT_THAT(Lines(), ElementsAre(EndsWith("WARN queue=task_added made=1")));
  EXPECT_EQ(made, 1);
}

// Replaces standard error with a pipe that is read only by Read().
class StalledStandardError {
 public:
  StalledStandardError() : standard_(dup(STDERR_FILENO)) {
    CHECK_EQ(pipe2(ends_.data(), O_CLOEXEC), 0);
    CHECK_EQ(dup2(ends_[1], STDERR_FILENO), STDERR_FILENO);
  }
  ~StalledStandardError() {
    dup2(standard_, STDERR_FILENO);
    for (const int fd : {standard_, ends_[0], ends_[1]}) close(fd);
  }
  // Returns the text written since the last call. REQUIRES: there is some.
  std::string Read() {
    std::string text(1 << 20, ' ');
    const ssize_t count = read(ends_[0], text.data(), text.size());
    text.resize(static_cast<size_t>(count));
    return text;
  }

 private:
  const int standard_;
  std::array<int, 2> ends_;
};

TEST_F(LogTest, StalledReaderOfStandardErrorDoesNotBlock) {
  StartLogging({.lines_per_second = 1'000'000});
  StalledStandardError error;
  for (const size_t bytes : {1024, 5000}) {
    const std::string text(bytes, 'x');
    for (int i = 0; i < 10'000; ++i) LogInfo("queue", "task_added", {{"text", text}});
    const std::string written = error.Read();
    const auto lines = std::count(written.begin(), written.end(), '\n');
    EXPECT_LT(lines, 10'000);
    LogInfo("queue", "task_added");
    EXPECT_THAT(error.Read(), EndsWith(absl::StrCat("suppressed=", 10'000 - lines, "\n")));
  }
}

TEST_F(LogTest, LineLongerThanAPageShowsOnlyItsLength) {
  StartWith({});
  LogInfo("queue", "task_added", {{"text", std::string(5000, 'x')}});
  EXPECT_THAT(Lines(),
              ElementsAre(testing::ContainsRegex(" INFO queue=task_added cut_bytes=50..$")));
}

TEST_F(LogTest, JsonFormatCanBeSelected) {
  StartWith({.format = LogFormat::kJson});
  LogInfo("queue", "task_added", {{"depth", 5}});
  EXPECT_THAT(Lines(), ElementsAre(EndsWith(R"("level":"INFO","queue":"task_added","depth":5})")));
}

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

using ::testing::Optional;

const absl::Time kNow = absl::FromUnixSeconds(1'700'000'000);

TEST(LogLimiterTest, CountsLinesDroppedBeyondTheLimit) {
  LogLimiter limiter(2);
  EXPECT_THAT(limiter.Admit("a", kNow), Optional(0));
  EXPECT_THAT(limiter.Admit("a", kNow), Optional(0));
  EXPECT_EQ(limiter.Admit("a", kNow), std::nullopt);
  EXPECT_EQ(limiter.Admit("a", kNow + absl::Milliseconds(999)), std::nullopt);
  EXPECT_THAT(limiter.Admit("a", kNow + absl::Seconds(1)), Optional(2));
  EXPECT_THAT(limiter.Admit("a", kNow + absl::Seconds(1)), Optional(0));
}

TEST(LogLimiterTest, EventsHaveSeparateLimits) {
  LogLimiter limiter(1);
  EXPECT_THAT(limiter.Admit("a", kNow), Optional(0));
  EXPECT_THAT(limiter.Admit("b", kNow), Optional(0));
  EXPECT_EQ(limiter.Admit("a", kNow), std::nullopt);
}

TEST(LogLimiterTest, LineThatWasNotWrittenIsCountedAsDropped) {
  LogLimiter limiter(2);
  EXPECT_THAT(limiter.Admit("a", kNow), Optional(0));
  limiter.AddDropped("a", 1);
  EXPECT_THAT(limiter.Admit("a", kNow), Optional(1));
}

TEST(LogLimiterTest, ClockSetBackDoesNotSilenceAnEvent) {
  LogLimiter limiter(1);
  EXPECT_THAT(limiter.Admit("a", kNow), Optional(0));
  EXPECT_THAT(limiter.Admit("a", kNow - absl::Hours(1)), Optional(0));
}

TEST(LogLimiterTest, ManyEventNamesShareOneLimit) {
  LogLimiter limiter(1);
  int passed = 0;
  for (int i = 0; i < 5000; ++i) passed += limiter.Admit(absl::StrCat(i), kNow).has_value();
  EXPECT_EQ(passed, 1024 + 1);
}

}  // namespace
}  // namespace callboard::base
