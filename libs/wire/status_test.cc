#include "libs/wire/status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "libs/base/error.h"
#include "libs/core/limits.h"
#include "libs/testing/status_matchers.h"

namespace callboard::wire {
namespace {

using test::HasReason;
using test::StatusIs;
using ::testing::ElementsAre;
using ::testing::Pair;

google::rpc::ErrorInfo GetErrorInfo(const grpc::Status& status) {
  google::rpc::Status rich;
  google::rpc::ErrorInfo info;
  EXPECT_TRUE(rich.ParseFromString(status.error_details()));
  EXPECT_TRUE(rich.details(0).UnpackTo(&info));
  return info;
}

TEST(StatusTest, OkStaysOk) {
  EXPECT_TRUE(ToGrpc(absl::OkStatus()).ok());
  EXPECT_TRUE(FromGrpc(grpc::Status::OK).ok());
}

TEST(StatusTest, EveryErrorHasAReasonInOurDomain) {
  const grpc::Status plain = ToGrpc(absl::NotFoundError("no such task"));
  EXPECT_EQ(plain.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(plain.error_message(), "no such task");
  EXPECT_EQ(GetErrorInfo(plain).reason(), "NOT_FOUND");
  EXPECT_EQ(GetErrorInfo(plain).domain(), "callboard");
}

TEST(StatusTest, DetailsRoundTripThroughGrpc) {
  absl::Status error = base::WithReason(absl::ResourceExhaustedError("full"), "QUEUE_FULL",
                                        {{"depth", "50"}, {"policy", "reject"}});
  error = base::WithRetryAfter(std::move(error), absl::Milliseconds(1500));
  error = base::WithFieldViolation(std::move(error), "project.name", "is empty");

  const absl::Status back = FromGrpc(ToGrpc(error));
  EXPECT_THAT(back, StatusIs(absl::StatusCode::kResourceExhausted, "full"));
  EXPECT_THAT(back, HasReason("QUEUE_FULL"));
  const base::ErrorDetails details = base::GetErrorDetails(back);
  EXPECT_THAT(details.metadata, ElementsAre(Pair("depth", "50"), Pair("policy", "reject")));
  EXPECT_EQ(details.retry_after, absl::Milliseconds(1500));
  EXPECT_THAT(details.field_violations, ElementsAre(Pair("project.name", "is empty")));
}

TEST(StatusTest, LongErrorsAreCutBetweenCharacters) {
  std::string text = "x";
  while (text.size() < 100'000) text += "€";
  const grpc::Status status = ToGrpc(
      base::WithReason(absl::NotFoundError(text), "JOB_NOT_FOUND", {{"job", text + "\xff"}}));
  EXPECT_EQ(status.error_message().size(), 1u + 3 * 682);
  EXPECT_EQ(GetErrorInfo(status).metadata().at("job").size(), 1u + 3 * 42);
}

TEST(StatusTest, ErrorOfAnotherServerIsMadeUtf8AndCut) {
  const grpc::Status cut_inside(grpc::StatusCode::UNAVAILABLE, "broken \xe2\x82");
  EXPECT_EQ(FromGrpc(cut_inside), absl::UnavailableError("broken \xef\xbf\xbd\xef\xbf\xbd"));
  const grpc::Status long_one(grpc::StatusCode::UNAVAILABLE, std::string(100'000, 'x'));
  EXPECT_EQ(FromGrpc(long_one).message().size(), core::kErrorBytesMax);
}

TEST(StatusTest, ErrorOfAnotherServerKeepsCodeAndMessage) {
  EXPECT_EQ(FromGrpc(grpc::Status(grpc::StatusCode::UNAVAILABLE, "down", "not a message \xff")),
            absl::UnavailableError("down"));
}

}  // namespace
}  // namespace callboard::wire
