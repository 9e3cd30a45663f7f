#include "libs/wire/page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "callboard/v1/queue.pb.h"
#include "callboard/v1/task.pb.h"
#include "libs/testing/status_matchers.h"

namespace callboard::wire {
namespace {

using test::IsOk;
using test::StatusIs;
using ::testing::HasSubstr;

TEST(PageTest, SizeIsFiftyByDefaultAndAtMostAThousand) {
  FieldChecks checks;
  EXPECT_EQ(ReadPageSize(0, checks), 50u);
  EXPECT_EQ(ReadPageSize(1000, checks), 1000u);
  EXPECT_THAT(checks.status(), IsOk());
  ReadPageSize(1001, checks);
  EXPECT_THAT(checks.status(), StatusIs(absl::StatusCode::kInvalidArgument,
                                        HasSubstr("page_size is 1001, not between 0 and 1000")));
}

TEST(PageTest, TokenRoundTripsAndOtherTextIsNoToken) {
  EXPECT_EQ(DecodePageToken(EncodePageToken("live/7")), "live/7");
  EXPECT_EQ(DecodePageToken(""), std::nullopt);
  EXPECT_EQ(DecodePageToken("%"), std::nullopt);
}

TEST(PageTest, TokenIsValidOnlyForItsMethodAndFilters) {
  v1::ListTasksRequest request;
  request.set_session_id("a");
  v1::ListTasksResponse page;
  page.set_next_page_token(EncodePageToken("live/7"));
  request.set_page_token(PageScope(request).Seal(page).next_page_token());
  request.set_page_size(7);
  const auto decode = [](const auto& next) {
    return DecodePageToken(PageScope(next).Unseal(next).page_token());
  };
  EXPECT_EQ(decode(request), "live/7");

  v1::ListTasksRequest other = request;
  other.set_session_id("b");
  EXPECT_EQ(decode(other), std::nullopt) << "other filters";
  v1::ListSessionsRequest elsewhere;
  elsewhere.set_page_token(request.page_token());
  EXPECT_EQ(decode(elsewhere), std::nullopt) << "another call";
  other = request;
  other.set_page_token(EncodePageToken("live/7"));
  EXPECT_EQ(decode(other), std::nullopt) << "without a seal";

  EXPECT_EQ(PageScope(request).Unseal(v1::ListTasksRequest()).page_token(), "") << "the first page";
  EXPECT_EQ(PageScope(request).Seal(v1::ListTasksResponse()).next_page_token(), "") << "the last";
}

TEST(PageTest, FirstItemAlwaysFitsOthersUpToTheLimit) {
  v1::Task task;
  task.set_prompt(std::string(1 << 20, 'x'));
  PageBytes bytes;
  EXPECT_TRUE(bytes.Add(task));
  EXPECT_TRUE(bytes.Add(task));
  EXPECT_FALSE(bytes.Add(task));
  task.set_prompt(std::string(4 << 20, 'x'));
  EXPECT_TRUE(PageBytes().Add(task));
}

}  // namespace
}  // namespace callboard::wire
