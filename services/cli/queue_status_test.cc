#include "services/cli/task_commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "services/cli/answer_text.h"

namespace callboard::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(QueueStatusTest, TableShowsTheLoadAndModeOfTheQueue) {
  v1::QueueStatus status;
  status.set_depth(3);
  status.set_max_size(50);
  status.set_policy(v1::QUEUE_POLICY_DROP_OLDEST);
  status.set_ready(2);
  status.set_delayed(1);
  status.set_in_flight(1);
  status.set_max_in_flight(2);
  status.set_oldest_age_seconds(90);
  EXPECT_EQ(QueueStatusTable(status),
            "queue      accepts and dispatches\n"
            "pending    3 of 50, when full: drop-oldest\n"
            "  ready    2\n"
            "  delayed  1\n"
            "  oldest   1m30s\n"
            "running    1 of 2\n"
            "waiting    0 callers, 0 tickets\n"
            "ended      0 completed, 0 failed, 0 cancelled\n");
}

TEST(QueueStatusTest, TableShowsPausedDrainingUnboundedAndUnknownPolicy) {
  v1::QueueStatus status;
  EXPECT_THAT(QueueStatusTable(status), HasSubstr("pending    0 no bound"));
  status.set_policy(static_cast<v1::QueuePolicy>(99));
  EXPECT_THAT(QueueStatusTable(status), HasSubstr("when full: 99\n"));
  status.set_paused(true);
  EXPECT_THAT(QueueStatusTable(status), StartsWith("queue      paused"));
  status.set_draining(true);
  EXPECT_THAT(QueueStatusTable(status), StartsWith("queue      draining"));
}

TEST(QueueStatusTest, TableShowsWhoSetASwitchWhenAndWhy) {
  v1::QueueStatus status;
  status.set_paused(true);
  status.mutable_pause()->set_who("anna");
  status.mutable_pause()->set_why("the disk\nis full\x1b[2J");
  status.mutable_pause()->mutable_at()->set_seconds(0);
  status.mutable_drain()->set_who("bert");
  status.mutable_drain()->mutable_at()->set_seconds(1);
  EXPECT_THAT(QueueStatusTable(status),
              StartsWith("queue      paused: accepts, does not dispatch\n"
                         "  paused   by anna at " +
                         TimeText(status.pause().at()) + ": " + EscapedText(status.pause().why()) +
                         "\n"
                         "  drained  by bert at " +
                         TimeText(status.drain().at()) + "\npending"));
}

}  // namespace
}  // namespace callboard::cli
