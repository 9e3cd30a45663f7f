#include "libs/core/dispatch_rules.h"

#include <gtest/gtest.h>

namespace callboard::core {
namespace {

TEST(RetryRuleTest, ReadsBackWhatItWrites) {
  for (const char* text : {"exit:1", "exit:255", "exit:*", "signal:SIGKILL", "timeout"}) {
    const std::optional<RetryRule> rule = ParseRetryRule(text);
    ASSERT_TRUE(rule.has_value()) << text;
    EXPECT_EQ(RetryRuleText(*rule), text);
  }
}

TEST(RetryRuleTest, OtherTextIsNoRule) {
  for (const char* text : {"", "exit", "exit:", "exit:0", "exit:256", "exit:-1", "exit:+1",
                           "exit: 1", "exit:01", "exit:1x", "signal:", "signal:KILL",
                           "signal:sigkill", "signal:SIGSTOP", "timeout:5", "Timeout", "*"}) {
    EXPECT_EQ(ParseRetryRule(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace callboard::core
