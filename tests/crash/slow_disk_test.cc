// Tests of directors whose disk is slow to sync or fails to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "libs/testing/files.h"
#include "libs/testing/http_client.h"
#include "libs/testing/running_server.h"
#include "tests/crash/director_process.h"
#include "tests/crash/disk.h"
#include "tests/crash/disk_image.h"
#include "tests/crash/history_checker.h"
#include "tests/crash/load.h"
#include "tests/crash/queue_client.h"

namespace callboard::crash {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class SlowDiskTest : public testing::Test {
 protected:
  History Run(DirectorProcess& director, const Load& load) {
    return RunLoad(load, director.address(), [this] { return disk_.Tick(); });
  }

  // Returns the submits that were answered before a sync of the log that began after them had
  // ended.
  std::vector<std::string> AnsweredEarly(const History& history) const {
    std::vector<DiskCall> syncs = disk_.Log();
    std::erase_if(syncs, [](const DiskCall& call) {
      return call.action != DiskAction::kSync || !call.path.ends_with(".log");
    });
    std::vector<std::string> early;
    for (const Call& call : history) {
      const bool is_new = call.kind == Call::Kind::kSubmit && !call.deduplicated;
      if (!is_new || call.answer != Call::Answer::kDone) continue;
      const bool is_synced = std::any_of(syncs.begin(), syncs.end(), [&](const DiskCall& sync) {
        return sync.begun > call.invoked && sync.tick < call.answered;
      });
      if (!is_synced) early.push_back(call.request_id);
    }
    return early;
  }

  Disk disk_ = Disk(test::NewFolder());
  const std::vector<std::string> flags_ = {"--queue.max_size=0"};
};

TEST_F(SlowDiskTest, LoggedCallsAreAllChangesOfTheFolder) {
  DirectorProcess director(disk_, flags_);
  Run(director, {});
  ASSERT_EQ(director.Stop(), 0);
  const std::filesystem::path image = test::NewFolder();
  WriteImage("", disk_.Log(), {.tick = kNever, .unsynced = Unsynced::kKept}, image);
  EXPECT_EQ(ContentsOf(image), ContentsOf(disk_.folder()));
}

TEST_F(SlowDiskTest, SubmitsAreAnsweredAfterTheirSync) {
  DirectorProcess director(disk_, flags_);
  ASSERT_TRUE(director.is_listening());
  disk_.control().sync_delay_ms = 200;
  disk_.control().spike_every = 3;
  disk_.control().spike_delay_ms = 5000;
  const History history = Run(director, {.calls_per_client = 3, .has_checkpoint = false});
  // The clients may share all of their three turns.
  EXPECT_GE(disk_.control().syncs, 3u);
  EXPECT_EQ(history.size(), 12u);
  EXPECT_THAT(AnsweredEarly(history), testing::IsEmpty());
  const CheckResult check_result =
      CheckHistory(history, *QueueClient(director.address()).FindAll());
  EXPECT_TRUE(check_result.ok()) << check_result.ToString();
  EXPECT_EQ(check_result.acknowledged, 12u);
}

TEST_F(SlowDiskTest, FailedSyncGivesNoAnswerAndReopensTheStore) {
  DirectorProcess director(disk_, flags_);
  ASSERT_TRUE(director.is_listening());
  History history = Run(director, {.name = "before"});
  disk_.control().log_syncs_to_fail = 1;
  // Some calls get no answer. The clients continue when the store is open again.
  for (Call& call : Run(director, {.name = "failing"})) history.push_back(std::move(call));
  EXPECT_EQ(disk_.control().log_syncs_to_fail, 0u);
  const auto open =
      static_cast<size_t>(std::count_if(history.begin(), history.end(), [](const Call& call) {
        return call.answer == Call::Answer::kUnknown;
      }));
  EXPECT_GT(open, 0u);
  QueueClient client(director.address());
  const CheckResult check_result = CheckHistory(history, *client.FindAll());
  EXPECT_TRUE(check_result.ok()) << check_result.ToString();
  EXPECT_THAT(director.process().Output(), HasSubstr("store=away"));
  EXPECT_THAT(AnsweredEarly(history), testing::IsEmpty());
}

TEST_F(SlowDiskTest, HealthFollowsTheStateOfTheStore) {
  DirectorProcess director(disk_, flags_);
  ASSERT_TRUE(director.is_listening());
  QueueClient client(director.address());
  ASSERT_TRUE(client.Submit("one", "text").ok());
  EXPECT_EQ(test::HealthAt(director.address(), ""), "SERVING");
  EXPECT_THAT(test::HttpGet(director.http_port(), "/metrics").body,
              AllOf(HasSubstr("callboard_commit_seconds_count 2\n"),
                    HasSubstr("callboard_commit_batch_size_count 2\n")));

  disk_.control().log_syncs_to_fail = std::numeric_limits<uint32_t>::max();
  EXPECT_FALSE(client.Submit("two", "text").ok());
  EXPECT_EQ(test::HealthAt(director.address(), "callboard.v1.QueueService"), "NOT_SERVING");
  const test::HttpAnswer readyz = test::HttpGet(director.http_port(), "/readyz");
  EXPECT_EQ(readyz.status, 503);
  EXPECT_THAT(readyz.body, HasSubstr("the store is away: "));
  EXPECT_EQ(test::HttpGet(director.http_port(), "/livez").status, 200);
  EXPECT_FALSE(client.Depth().ok());

  disk_.control().log_syncs_to_fail = 0;
  director.process().WaitForLine("store=open");
  EXPECT_EQ(test::HealthAt(director.address(), "callboard.v1.QueueService"), "SERVING");
  EXPECT_EQ(test::HttpGet(director.http_port(), "/readyz").status, 200);
  EXPECT_TRUE(client.Submit("one", "text")->deduplicated);
}

}  // namespace
}  // namespace callboard::crash
