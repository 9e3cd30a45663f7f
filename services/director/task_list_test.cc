#include "services/director/lists.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "libs/testing/status_matchers.h"

namespace callboard {
namespace {

using test::IsOk;
using test::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

director::TaskPage::Item Item(uint64_t sequence, const std::string& error = "") {
  core::Task task;
  task.queue_id = core::QueueId(core::Ulid(1, sequence));
  task.last_error = error;
  return {task, {.live = sequence}};
}

TEST(TaskListTest, EmptyRequestAsksForTheFirstFiftyTasks) {
  const auto query = ListQueryFrom({});
  ASSERT_THAT(query, IsOk());
  EXPECT_EQ(query->page_size, 50u);
  EXPECT_TRUE(query->states.empty());
  EXPECT_EQ(query->after, std::nullopt);
  EXPECT_EQ(query->ready, std::nullopt);
}

TEST(TaskListTest, EveryFilterIsParsed) {
  v1::ListTasksRequest request;
  request.add_states(v1::Task::STATE_PENDING);
  request.add_states(v1::Task::STATE_FAILED);
  request.set_source("cli");
  request.set_source_job("job");
  request.set_job_type("report");
  request.set_session_id("session");
  request.set_label("team=a=b");
  request.set_ready(false);
  request.set_page_size(1000);
  const auto query = ListQueryFrom(request);
  ASSERT_THAT(query, IsOk());
  EXPECT_THAT(query->states,
              ElementsAre(core::LifecycleState::kPending, core::LifecycleState::kFailed));
  EXPECT_EQ(query->source, core::TaskSource::kCli);
  EXPECT_EQ(query->source_job, "job");
  EXPECT_EQ(query->job_type, "report");
  EXPECT_EQ(query->session_id, "session");
  EXPECT_EQ(query->label, "team");
  EXPECT_EQ(query->label_value, "a=b");
  EXPECT_EQ(query->ready, false);
  EXPECT_EQ(query->page_size, 1000u);
  request.set_label("team");
  EXPECT_EQ(ListQueryFrom(request)->label_value, std::nullopt);
}

TEST(TaskListTest, WrongFieldIsNamed) {
  const auto wrong = [](auto set) {
    v1::ListTasksRequest request;
    set(request);
    return ListQueryFrom(request).status();
  };
  EXPECT_THAT(wrong([](auto& request) { request.set_source("mail"); }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("source is none of")));
  EXPECT_THAT(
      wrong([](auto& request) { request.set_page_size(1001); }),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("page_size is 1001, not between")));
  EXPECT_THAT(wrong([](auto& request) { request.set_page_size(-1); }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("page_size")));
  EXPECT_THAT(wrong([](auto& request) { request.set_label("=a"); }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("label has no key")));
  EXPECT_THAT(wrong([](auto& request) { request.set_page_token("bGl2ZS94"); }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("page_token")));
  EXPECT_THAT(wrong([](auto& request) { request.add_states(static_cast<v1::Task::State>(99)); }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("states")));
}

TEST(TaskListTest, PageTokenContinuesAtTheNextPage) {
  const director::ListCursor cursors[] = {
      {.live = 7},
      {.ended = {absl::FromUnixNanos(1'700'000'000'123'456'789), core::QueueId(core::Ulid(1, 2))}},
  };
  for (const director::ListCursor& cursor : cursors) {
    const v1::ListTasksResponse response = ListResponse({.tasks = {Item(7)}, .next = cursor});
    v1::ListTasksRequest next;
    next.set_page_token(response.next_page_token());
    const auto query = ListQueryFrom(next);
    ASSERT_THAT(query, IsOk());
    EXPECT_EQ(query->after, cursor);
  }
}

TEST(TaskListTest, LastPageHasNoToken) {
  EXPECT_EQ(ListResponse({.tasks = {Item(1)}}).next_page_token(), "");
}

TEST(TaskListTest, PageEndsEarlyWhenItIsTooLarge) {
  director::TaskPage page;
  for (uint64_t i = 1; i <= 1000; ++i) page.tasks.push_back(Item(i, std::string(4096, 'x')));
  const v1::ListTasksResponse response = ListResponse(page);
  EXPECT_LE(response.ByteSizeLong(), (3u << 20) + 100) << "with the token";
  const uint64_t shown = static_cast<uint64_t>(response.tasks_size());
  EXPECT_GT(shown, 500u);
  v1::ListTasksRequest next;
  next.set_page_token(response.next_page_token());
  EXPECT_EQ(ListQueryFrom(next)->after->live, shown);
}

}  // namespace
}  // namespace callboard
