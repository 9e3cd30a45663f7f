#include "libs/base/text.h"

#include <gtest/gtest.h>

namespace callboard::base {
namespace {

TEST(JsonQuotedTest, EscapesQuotesAndTerminalControls) {
  EXPECT_EQ(JsonQuoted("a\"b\\c\nd"), R"("a\"b\\c\nd")");
  EXPECT_EQ(JsonQuoted("\x1b[31m\x7f"), R"("\u001b[31m\u007f")");
  EXPECT_EQ(JsonQuoted("\xc2\x9b\xe2\x80\xae"), R"("\u009b\u202e")") << "C1 and bidi";
}

TEST(JsonQuotedTest, BytesThatAreNotUtf8AreReplaced) {
  EXPECT_EQ(JsonQuoted("a\xff\xc3"), R"("a\ufffd\ufffd")");
}

TEST(JsonQuotedTest, KeepsNonAsciiText) { EXPECT_EQ(JsonQuoted("grüße"), "\"grüße\""); }

}  // namespace
}  // namespace callboard::base
