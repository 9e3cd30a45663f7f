#include "services/director/director_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>
#include <spdlog/sinks/ostream_sink.h>

#include <memory>
#include <sstream>
#include <string>

#include "libs/base/log.h"

namespace callboard {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class DirectorWatchTest : public testing::Test {
 protected:
  DirectorWatchTest() {
    base::StartLogging({.sink = std::make_shared<spdlog::sinks::ostream_sink_st>(log_)});
  }
  ~DirectorWatchTest() override { base::StartLogging(base::LogOptions()); }

  std::string Metrics() const {
    return prometheus::TextSerializer().Serialize(registry_.Collect());
  }

  std::ostringstream log_;
  prometheus::Registry registry_;
  server::Readiness readiness_;
  DirectorWatch watch_{registry_, readiness_};
};

TEST_F(DirectorWatchTest, CallerWhoLeavesWasNotRefused) {
  watch_.OnRefused(absl::CancelledError("the caller left"));
  watch_.OnRefused(absl::InvalidArgumentError("wrong"));
  EXPECT_THAT(log_.str(), AllOf(HasSubstr("reason=invalid_argument"), Not(HasSubstr("cancelled"))));
  EXPECT_THAT(Metrics(), AllOf(HasSubstr("{reason=\"invalid_argument\"} 1"),
                               Not(HasSubstr("reason=\"cancelled\""))));
}

TEST_F(DirectorWatchTest, AgentThatIsMarkedIsNamed) {
  watch_.OnTurn({core::Record(core::AgentMarked{.name = "a", .draining = true})}, {});
  EXPECT_THAT(log_.str(), HasSubstr("WARN agent=marked name=a draining=true"));
}

}  // namespace
}  // namespace callboard
