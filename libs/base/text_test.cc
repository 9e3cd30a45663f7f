#include "libs/base/text.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>

namespace callboard::base {
namespace {

TEST(Utf8PrefixTest, ShortTextStaysWhole) {
  EXPECT_EQ(Utf8Prefix("", 3), "");
  EXPECT_EQ(Utf8Prefix("aé", 3), "aé");
  EXPECT_EQ(Utf8Suffix("éa", 3), "éa");
}

TEST(Utf8PrefixTest, NoCharacterIsSplit) {
  EXPECT_EQ(Utf8Prefix("aéb", 3), "aé");
  EXPECT_EQ(Utf8Prefix("aéb", 2), "a");
  EXPECT_EQ(Utf8Prefix("é", 1), "");
  EXPECT_EQ(Utf8Suffix("aéb", 2), "b");
  EXPECT_EQ(Utf8Suffix("aéb", 3), "éb");
}

TEST(Utf8PrefixTest, SuffixOfInvalidBytesIsAtMostThreeShorter) {
  const std::string bytes(100, '\x80');
  EXPECT_EQ(Utf8Suffix(bytes, 50).size(), 47u);
}

TEST(TextTest, IncompleteCharacterAtTheEndIsFound) {
  EXPECT_EQ(Utf8IncompleteSuffix(""), 0u);
  EXPECT_EQ(Utf8IncompleteSuffix("aé"), 0u);
  EXPECT_EQ(Utf8IncompleteSuffix("a\xc3"), 1u);
  EXPECT_EQ(Utf8IncompleteSuffix("a\xf0\x9f\x99"), 3u);
  EXPECT_EQ(Utf8IncompleteSuffix("a\xf0\x9f\x99\x82"), 0u);
  EXPECT_EQ(Utf8IncompleteSuffix("\x80\x80\x80\x80"), 0u);
  EXPECT_EQ(Utf8IncompleteSuffix("\xff"), 0u);
}

TEST(TextTest, RecognizesUtf8) {
  for (const char* text :
       {"", "a", "é", "\xed\x9f\xbf", "€", "\xf0\x9f\x99\x82", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_TRUE(IsUtf8(text)) << text;
  }
  // A lone byte, an incomplete character, overlong forms, a surrogate, and a value above the last
  // code point.
  for (const char* text : {"\xff", "\x80", "\xc3", "\xe2\x82", "\xc0\xaf", "\xe0\x80\xaf",
                           "\xed\xa0\x80", "\xf4\x90\x80\x80", "a\xc3z"}) {
    EXPECT_FALSE(IsUtf8(text)) << Escaped(text);
    EXPECT_TRUE(IsUtf8(ValidUtf8(text))) << Escaped(text);
  }
}

TEST(TextTest, ValidUtf8KeepsEveryValidCharacter) {
  EXPECT_EQ(ValidUtf8("aé€"), "aé€");
  EXPECT_EQ(ValidUtf8("a\xc3z\xff"), "a\xef\xbf\xbdz\xef\xbf\xbd");
}

TEST(TextTest, SanitizedTextIsUtf8AndShort) {
  EXPECT_TRUE(rc::check([] {
    // Mostly bytes of multi-byte characters.
    const auto bytes = *rc::gen::container<std::string>(rc::gen::weightedOneOf<char>(
        {{2, rc::gen::inRange<char>(-128, -1)}, {1, rc::gen::arbitrary<char>()}}));
    const std::string sanitized = SanitizeText(bytes, 16);
    RC_ASSERT(IsUtf8(sanitized));
    RC_ASSERT(sanitized.size() <= 16u);
    RC_ASSERT(!NeedsEscape(Escaped(bytes)));
    RC_ASSERT(EscapeForError(bytes).size() <= kErrorValueBytesMax + 3);
  }));
}

TEST(TextTest, EscapesTerminalControlsAndBidiCharacters) {
  EXPECT_EQ(Escaped("a\x1b[2J\x7f\r\n"), "a\\u001b[2J\\u007f\\r\\n");
  EXPECT_EQ(Escaped("\xc2\x9b"), "\\u009b") << "C1";
  EXPECT_EQ(Escaped("\xe2\x80\xae\xe2\x81\xa6\xd8\x9c"), "\\u202e\\u2066\\u061c") << "bidi";
  EXPECT_EQ(Escaped("\xe2\x80\xa8"), "\\u2028") << "a line separator";
  EXPECT_EQ(Escaped("\x9b\xff"), "\\x9b\\xff") << "not UTF-8";
  EXPECT_EQ(Escaped("grüße \\ שלום"), "grüße \\ שלום") << "letters stay";
}

TEST(TextTest, EscapedLinesKeepLineEndsAndTabs) {
  EXPECT_EQ(EscapedLines("a\tb\nc\x1b"), "a\tb\nc\\u001b");
}

TEST(TextTest, FindsControlCharacters) {
  EXPECT_FALSE(HasControl("grüße \xe2\x80\xae"));
  EXPECT_TRUE(HasControl("a\nb"));
  EXPECT_TRUE(HasControl("a\xc2\x85"));
  EXPECT_TRUE(HasControl("\xff"));
}

TEST(TextTest, EscapeForErrorShortensItsResult) {
  EXPECT_EQ(EscapeForError("queue-1"), "queue-1");
  EXPECT_EQ(EscapeForError(std::string(128, 'a')), std::string(128, 'a'));
  EXPECT_EQ(EscapeForError(std::string(129, 'a')), std::string(128, 'a') + "…");
  EXPECT_EQ(EscapeForError("a" + std::string(200, '\x1b')).size(), kErrorValueBytesMax + 3)
      << "escapes count too";
}

TEST(NearestTest, FindsNamesWithOneOrTwoTypos) {
  const std::vector<std::string> names = {"max_size", "max_waiters", "policy"};
  EXPECT_EQ(Nearest("max_sise", names), "max_size");
  EXPECT_EQ(Nearest("maxsize", names), "max_size");
  EXPECT_EQ(Nearest("polciy", names), "policy");
}

TEST(NearestTest, FirstOfEquallyNearNamesWins) { EXPECT_EQ(Nearest("ab", {"ax", "ay"}), "ax"); }

TEST(NearestTest, ReturnsNothingIfNoNameIsNear) {
  EXPECT_EQ(Nearest("colour", {"max_size", "policy"}), "");
  EXPECT_EQ(Nearest("x", {}), "");
}

TEST(NearestTest, VeryLongNameIsNotComparedWithShortOnes) {
  // Compared character by character, this would take minutes.
  const std::string endless(10'000'000, 'x');
  EXPECT_EQ(Nearest(endless, std::vector<std::string>(1000, "max_size")), "");
}

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
