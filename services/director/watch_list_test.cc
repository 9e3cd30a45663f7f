#include "services/director/lists.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "libs/testing/status_matchers.h"

namespace callboard {
namespace {

using test::IsOk;
using test::StatusIs;
using ::testing::HasSubstr;

constexpr char kTask[] = "queue-01hf81rywx2hm2aptby9afwnwa";

director::WatchUpdate::Item Item() {
  auto task = std::make_shared<core::Task>();
  task->queue_id = *core::ParseQueueId(kTask);
  task->spec.prompt = std::string(2000, 'x');
  task->spec.env = {{"TOKEN", "secret"}};
  return {task};
}

TEST(WatchListTest, EmptyRequestWatchesAllTasksFromTheBeginning) {
  const auto query = WatchQueryFrom({});
  ASSERT_THAT(query, IsOk());
  EXPECT_TRUE(query->tasks.empty());
  EXPECT_FALSE(query->resumes);
  EXPECT_EQ(query->from, std::nullopt);
}

TEST(WatchListTest, WrongFieldIsNamed) {
  v1::WatchTasksRequest request;
  request.add_queue_ids(kTask);
  request.add_queue_ids("queue-1");
  EXPECT_THAT(WatchQueryFrom(request),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("queue_ids[1] is no")));
  while (request.queue_ids_size() <= 1000) request.add_queue_ids(kTask);
  EXPECT_THAT(WatchQueryFrom(request), StatusIs(absl::StatusCode::kInvalidArgument,
                                                HasSubstr("queue_ids has 1001 entries, at most")));
  request.clear_queue_ids();
  request.set_resume_token("bGl2ZS94");
  EXPECT_THAT(WatchQueryFrom(request), StatusIs(absl::StatusCode::kInvalidArgument,
                                                HasSubstr("resume_token is not a token")));
}

TEST(WatchListTest, ResumeTokenContinuesTheWatch) {
  const director::FeedCursor cursor = {.epoch = 3, .number = 77};
  v1::WatchTasksRequest next;
  next.set_resume_token(ToProto(director::WatchUpdate{.cursor = cursor}).resume_token());
  EXPECT_EQ(WatchQueryFrom(next)->from, cursor);
  next.set_resume_token(ToProto(director::WatchUpdate{}).resume_token());
  EXPECT_NE(next.resume_token(), "");
  EXPECT_TRUE(WatchQueryFrom(next)->resumes);
  EXPECT_EQ(WatchQueryFrom(next)->from, std::nullopt) << "resumes from the beginning";
}

TEST(WatchListTest, TasksAreListedWithTheirEvents) {
  director::WatchUpdate update = {.items = {Item(), Item()}, .reset = true};
  update.items[1].event = core::TaskEvent{.number = 5, .kind = core::TaskEventKind::kDone};
  const v1::WatchTasksResponse response = ToProto(update);
  EXPECT_TRUE(response.reset());
  ASSERT_EQ(response.changes_size(), 2);
  EXPECT_EQ(response.changes(0).task().queue_id(), kTask);
  EXPECT_TRUE(response.changes(0).task().prompt_truncated());
  EXPECT_EQ(response.changes(0).task().env().at("TOKEN"), "");
  EXPECT_FALSE(response.changes(0).has_event());
  EXPECT_EQ(response.changes(1).event().number(), 5u);
  EXPECT_EQ(response.changes(1).event().kind(), v1::TaskEvent::KIND_DONE);
}

}  // namespace
}  // namespace callboard
