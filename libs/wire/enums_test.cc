#include "libs/wire/enums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "callboard/config/v1/director.pb.h"
#include "callboard/v1/task.pb.h"

namespace callboard::wire {
namespace {

using config::v1::QueueConfig;
using ::testing::ElementsAre;
using ::testing::IsNull;

const google::protobuf::EnumDescriptor& Policy() { return *QueueConfig::Policy_descriptor(); }

TEST(EnumTextTest, DropsThePrefixAndUsesHyphens) {
  EXPECT_THAT(EnumTexts(Policy()), ElementsAre("reject", "block", "drop-oldest", "drop-latest"));
}

TEST(EnumTextTest, EnumMayUseUpperCase) {
  const auto& reason = *v1::Task::Reason_descriptor();
  EXPECT_EQ(EnumText(*reason.FindValueByNumber(v1::Task::REASON_AGENT_LOST)), "AGENT_LOST");
  EXPECT_EQ(FindEnumValue(reason, "AGENT_LOST")->number(), v1::Task::REASON_AGENT_LOST);
  EXPECT_EQ(EnumText(*v1::Task::State_descriptor()->FindValueByNumber(v1::Task::STATE_WORKING)),
            "working");
}

TEST(EnumTextTest, EnumMayUseUnderscores) {
  EXPECT_THAT(EnumTexts(*v1::Overlap::Policy_descriptor()),
              ElementsAre("skip", "queue_one", "allow"));
}

TEST(EnumTextTest, FindsTheValueOfItsText) {
  EXPECT_EQ(FindEnumValue(Policy(), "drop-oldest")->number(), QueueConfig::POLICY_DROP_OLDEST);
}

TEST(EnumTextTest, UnspecifiedAndUnknownTextsHaveNoValue) {
  EXPECT_THAT(FindEnumValue(Policy(), "unspecified"), IsNull());
  EXPECT_THAT(FindEnumValue(Policy(), "DROP_OLDEST"), IsNull());
  EXPECT_THAT(FindEnumValue(Policy(), ""), IsNull());
}

}  // namespace
}  // namespace callboard::wire
