#include "services/cli/answer_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "callboard/v1/queue.pb.h"

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

TEST(AnswerTextTest, ControlCharactersAreEscaped) {
  EXPECT_EQ(EscapedText("one\ntwo\x1b[2J\x7f three\xc2\x9b"),
            R"(one\ntwo\u001b[2J\u007f three\u009b)");
  EXPECT_EQ(EscapedText("\xc3\xa4\xc2\xa0"), "\xc3\xa4\xc2\xa0") << "letters stay";
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
}

TEST(AnswerTextTest, WrongTaskIdGetsAnErrorWithTheValidForm) {
  EXPECT_EQ(QueueIdError("queue-00000000000000000000000001"), "");
  EXPECT_THAT(QueueIdError("queue-1\x1b"),
              AllOf(StartsWith(R"('queue-1\u001b' is not the id of a task)"),
                    HasSubstr("wanted: queue- and 26 letters and digits")));
}

TEST(AnswerTextTest, ColumnsAreAlignedWithoutTrailingSpaces) {
  EXPECT_EQ(
      FormatColumns({{"NAME", "STATE", "WHY"}, {"nightly", "a", ""}, {"x", "paused", "a\nb"}}),
      "NAME     STATE   WHY\n"
      "nightly  a\n"
      "x        paused  a\\nb\n");
  EXPECT_EQ(FormatColumns({}), "");
}

}  // namespace
}  // namespace callboard::cli
