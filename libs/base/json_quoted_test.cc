#include "libs/base/json_quoted.h"

#include <gtest/gtest.h>

namespace callboard::base {
namespace {

TEST(JsonQuotedTest, EscapesWhatEndsAStringOrMovesATerminal) {
  EXPECT_EQ(JsonQuoted("a\"b\\c\nd"), R"("a\"b\\c\nd")");
  EXPECT_EQ(JsonQuoted("\x1b[31m\x7f"), R"("\u001b[31m\u007f")");
}

TEST(JsonQuotedTest, LeavesTextBeyondAsciiAsItIs) { EXPECT_EQ(JsonQuoted("grüße"), "\"grüße\""); }

}  // namespace
}  // namespace callboard::base
