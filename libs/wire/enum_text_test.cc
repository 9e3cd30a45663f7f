#include "libs/wire/enum_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "callboard/config/v1/director.pb.h"

namespace callboard::wire {
namespace {

using config::v1::QueueConfig;
using ::testing::ElementsAre;
using ::testing::IsNull;

const google::protobuf::EnumDescriptor& Policy() { return *QueueConfig::Policy_descriptor(); }

TEST(EnumTextTest, DropsThePrefixAndUsesHyphens) {
  EXPECT_THAT(EnumTexts(Policy()), ElementsAre("reject", "block", "drop-oldest", "drop-latest"));
}

TEST(EnumTextTest, FindsWhatItWrites) {
  EXPECT_EQ(FindEnumValue(Policy(), "drop-oldest")->number(), QueueConfig::POLICY_DROP_OLDEST);
}

TEST(EnumTextTest, UnspecifiedAndUnknownTextsNameNoValue) {
  EXPECT_THAT(FindEnumValue(Policy(), "unspecified"), IsNull());
  EXPECT_THAT(FindEnumValue(Policy(), "DROP_OLDEST"), IsNull());
  EXPECT_THAT(FindEnumValue(Policy(), ""), IsNull());
}

}  // namespace
}  // namespace callboard::wire
