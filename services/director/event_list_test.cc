#include "services/director/lists.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "libs/testing/status_matchers.h"

namespace callboard {
namespace {

using test::IsOk;
using test::StatusIs;
using ::testing::HasSubstr;

constexpr char kTask[] = "queue-01hf81rywx2hm2aptby9afwnwa";

v1::ListTaskEventsRequest Request(const std::string& page_token = "") {
  v1::ListTaskEventsRequest request;
  request.set_queue_id(kTask);
  request.set_page_token(page_token);
  return request;
}

TEST(EventListTest, DefaultPageIsTheFirstFiftyEvents) {
  const auto query = EventQueryFrom(Request());
  ASSERT_THAT(query, IsOk());
  EXPECT_EQ(core::ToString(query->queue_id), kTask);
  EXPECT_EQ(query->first, 0u);
  EXPECT_EQ(query->page_size, 50u);
}

TEST(EventListTest, WrongFieldIsNamed) {
  EXPECT_THAT(EventQueryFrom({}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("queue_id is required")));
  EXPECT_THAT(EventQueryFrom(Request("bGl2ZS94")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("page_token")));
  v1::ListTaskEventsRequest request = Request();
  request.set_page_size(-1);
  EXPECT_THAT(EventQueryFrom(request),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("page_size")));
}

TEST(EventListTest, PageTokenContinuesAtTheNextPage) {
  const director::EventPage page = {.events = {{.number = 1}, {.number = 1}}, .first = 3};
  EXPECT_EQ(ListResponse(page).next_page_token(), "") << "the last page has no token";
  director::EventPage first = page;
  first.has_more = true;
  const v1::ListTaskEventsResponse response = ListResponse(first);
  EXPECT_EQ(response.events_size(), 2);
  EXPECT_EQ(EventQueryFrom(Request(response.next_page_token()))->first, 5u);
}

TEST(EventListTest, PageEndsEarlyWhenItIsTooLarge) {
  director::EventPage page;
  page.events.resize(1000, {.why = std::string(4096, 'x')});
  const v1::ListTaskEventsResponse response = ListResponse(page);
  EXPECT_LT(response.ByteSizeLong(), (3u << 20) + 100);
  EXPECT_EQ(EventQueryFrom(Request(response.next_page_token()))->first,
            static_cast<size_t>(response.events_size()));
}

}  // namespace
}  // namespace callboard
