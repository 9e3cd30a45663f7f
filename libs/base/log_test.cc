#include "libs/base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>

#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"

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

TEST_F(LogTest, FloodOfOneEventIsCutAndOtherEventsStillPass) {
  StartWith({.lines_per_second = 3});
  for (int i = 0; i < 100; ++i) LogWarning("agent", "busy");
  LogInfo("queue", "task_added");
  EXPECT_THAT(Lines(), SizeIs(testing::Lt(100u)));
  EXPECT_THAT(Lines().back(), EndsWith("queue=task_added"));
}

TEST_F(LogTest, JsonFormatIsUsedWhenAskedFor) {
  StartWith({.format = LogFormat::kJson});
  LogInfo("queue", "task_added", {{"depth", 5}});
  EXPECT_THAT(Lines(), ElementsAre(EndsWith(R"("level":"INFO","queue":"task_added","depth":5})")));
}

}  // namespace
}  // namespace callboard::base
