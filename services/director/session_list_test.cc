#include "services/director/lists.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libs/testing/status_matchers.h"

namespace callboard {
namespace {

using test::IsOk;
using test::StatusIs;
using ::testing::HasSubstr;

const core::QueueId kTask(core::Ulid(1, 2));

TEST(SessionListTest, SessionIsConvertedWithAllFields) {
  const v1::ListSessionsResponse response =
      ListResponse({.sessions = {{.session_id = "s",
                                  .agent = "a",
                                  .queued = 2,
                                  .running = kTask,
                                  .active_at = absl::FromUnixSeconds(7)},
                                 {.session_id = "t"}}});
  ASSERT_EQ(response.sessions_size(), 2);
  EXPECT_EQ(response.sessions(0).session_id(), "s");
  EXPECT_EQ(response.sessions(0).agent(), "a");
  EXPECT_EQ(response.sessions(0).queued(), 2u);
  EXPECT_EQ(response.sessions(0).running_queue_id(), core::ToString(kTask));
  EXPECT_EQ(response.sessions(0).last_active_at().seconds(), 7);
  EXPECT_EQ(response.sessions(1).running_queue_id(), "");
  EXPECT_EQ(response.next_page_token(), "");
}

TEST(SessionListTest, PageTokenContinuesAtTheNextPage) {
  v1::ListSessionsRequest next;
  next.set_page_token(ListResponse({.next = "s"}).next_page_token());
  next.set_page_size(3);
  const auto query = SessionQueryFrom(next);
  ASSERT_THAT(query, IsOk());
  EXPECT_EQ(query->after, "s");
  EXPECT_EQ(query->page_size, 3u);
}

TEST(SessionListTest, WrongFieldIsNamed) {
  v1::ListSessionsRequest request;
  request.set_page_token("%");
  EXPECT_THAT(SessionQueryFrom(request),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("page_token")));
  request.set_page_token("");
  request.set_page_size(1001);
  EXPECT_THAT(SessionQueryFrom(request),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("page_size")));
}

}  // namespace
}  // namespace callboard
