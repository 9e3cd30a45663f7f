#include "libs/director/driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <optional>

#include "libs/base/error.h"
#include "libs/testing/status_matchers.h"

namespace callboard::director {
namespace {

using test::HasReason;
using test::IsOk;
using test::StatusIs;

// Keeps the driver's thread inside a turn until it goes out of scope.
class HeldTurn {
 public:
  explicit HeldTurn(DirectorDriver& driver) {
    driver.GetQueueStatus([this](const auto&) {
      std::future<void> released = release_.get_future();
      entered_.set_value();
      released.wait();
    });
    entered_.get_future().wait();
  }
  ~HeldTurn() { release_.set_value(); }

 private:
  std::promise<void> entered_;
  std::promise<void> release_;
};

absl::StatusOr<core::QueueStatus> StatusFrom(DirectorDriver& driver) {
  std::promise<absl::StatusOr<core::QueueStatus>> answer;
  driver.GetQueueStatus([&answer](auto status) { answer.set_value(std::move(status)); });
  return answer.get_future().get();
}

TEST(DirectorDriverTest, AnswersTheEnginesStatus) {
  DirectorDriver driver({.queue = {.max_size = 7}});
  const absl::StatusOr<core::QueueStatus> status = StatusFrom(driver);
  ASSERT_THAT(status, IsOk());
  EXPECT_EQ(status->options.max_size, 7u);
  EXPECT_FALSE(status->draining);
}

TEST(DirectorDriverTest, AnswerAfterADrainShowsIt) {
  DirectorDriver driver({});
  driver.BeginDrain();
  EXPECT_TRUE(StatusFrom(driver)->draining);
}

TEST(DirectorDriverTest, DrainIsTakenAlsoWhenNoMoreCallsAre) {
  DirectorDriver driver({.calls_max = 1});
  std::promise<absl::StatusOr<core::QueueStatus>> answered;
  {
    HeldTurn held(driver);
    driver.GetQueueStatus([&](auto status) { answered.set_value(std::move(status)); });
    driver.BeginDrain();
  }
  EXPECT_TRUE(answered.get_future().get()->draining);
}

TEST(DirectorDriverTest, CallBeyondTheBoundIsRefusedAtOnceAndToldWhenToRetry) {
  DirectorDriver driver({.calls_max = 1});
  std::optional<absl::StatusOr<core::QueueStatus>> refused;
  std::promise<absl::StatusOr<core::QueueStatus>> answered;
  {
    HeldTurn held(driver);
    driver.GetQueueStatus([&](auto status) { answered.set_value(std::move(status)); });
    driver.GetQueueStatus([&](auto status) { refused = std::move(status); });
    ASSERT_TRUE(refused.has_value());
  }
  EXPECT_THAT(*refused, StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(*refused, HasReason("OVERLOADED"));
  EXPECT_GT(*base::DetailsOf(refused->status()).retry_after, absl::ZeroDuration());
  EXPECT_THAT(answered.get_future().get(), IsOk());
}

TEST(DirectorDriverTest, CallsThatWaitAreAnsweredBeforeTheDriverIsGone) {
  int answered = 0;
  {
    DirectorDriver driver({});
    HeldTurn held(driver);
    for (int i = 0; i < 3; ++i) driver.GetQueueStatus([&](const auto&) { ++answered; });
  }
  EXPECT_EQ(answered, 3);
}

}  // namespace
}  // namespace callboard::director
