#include "services/cli/answer_text.h"

#include <gtest/gtest.h>

#include "callboard/v1/queue.pb.h"

namespace callboard::cli {
namespace {

using config::v1::CliConfig;

TEST(AnswerTextTest, AnswerIsATableOrOneJsonDocument) {
  CliConfig config;
  EXPECT_EQ(Written(config, v1::KickDispatcherRequest(), "for people\n"), "for people\n");
  config.set_output(CliConfig::OUTPUT_JSON);
  EXPECT_EQ(Written(config, v1::KickDispatcherRequest(), "for people\n"), "{}\n");
}

TEST(AnswerTextTest, NothingThatATerminalWouldObeyIsLeft) {
  EXPECT_EQ(Plain("one\ntwo\x1b[2J\x7f three\xc2\x9b"), "one two [2J  three  ");
  EXPECT_EQ(Plain("\xc3\xa4\xc2\xa0"), "\xc3\xa4\xc2\xa0") << "letters stay";
}

TEST(AnswerTextTest, CellsStandBelowEachOtherAndLinesEndWithWhatIsThere) {
  EXPECT_EQ(Columns({{"NAME", "STATE", "WHY"}, {"nightly", "a", ""}, {"x", "paused", "a\nb"}}),
            "NAME     STATE   WHY\n"
            "nightly  a\n"
            "x        paused  a b\n");
  EXPECT_EQ(Columns({}), "");
}

}  // namespace
}  // namespace callboard::cli
