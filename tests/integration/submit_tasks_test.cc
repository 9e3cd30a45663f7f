// Many tasks submitted over one stream, on a director with its store.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/integration/director_fixture.h"

namespace callboard {
namespace {

using test::HasReason;
using test::IsOk;
using test::StatusIs;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using Answers = std::vector<v1::SubmitTasksResponse::Item>;

class SubmitTasksTest : public test::DirectorFixture {
 protected:
  void Open() { stream_ = stub_->SubmitTasks(&context_); }
  void Write(const std::vector<v1::SubmitTaskRequest>& items) {
    v1::SubmitTasksRequest request;
    for (const v1::SubmitTaskRequest& item : items) *request.add_items() = item;
    EXPECT_TRUE(stream_->Write(request));
  }
  // So many answers, in however many messages, each in its place.
  Answers Take(size_t count) {
    Answers answers;
    v1::SubmitTasksResponse response;
    while (answers.size() < count && stream_->Read(&response)) {
      for (const auto& item : response.items()) {
        EXPECT_EQ(item.index(), answered_++);
        answers.push_back(item);
      }
    }
    EXPECT_THAT(answers, SizeIs(count));
    return answers;
  }
  absl::Status End() {
    v1::SubmitTasksResponse response;
    while (stream_->Read(&response)) {
    }
    return wire::FromGrpc(stream_->Finish());
  }

  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::SubmitTasksRequest, v1::SubmitTasksResponse>>
      stream_;
  uint64_t answered_ = 0;
};

TEST_F(SubmitTasksTest, TasksAreAdmittedAndAnsweredInTheOrderSent) {
  Start({"--queue.max_size=0"});
  Open();
  constexpr int kMessages = 200;
  auto writing = std::async(std::launch::async, [this] {
    for (int i = 0; i < kMessages; ++i) {
      Write({Prompt("echo"), Prompt("echo"), Prompt("echo")});
    }
    stream_->WritesDone();
  });
  std::vector<std::string> accepted;
  for (const auto& answer : Take(3 * kMessages)) {
    EXPECT_TRUE(answer.has_accepted());
    EXPECT_FALSE(answer.accepted().has_task());
    accepted.push_back(answer.accepted().queue_id());
  }
  writing.get();
  EXPECT_THAT(End(), IsOk());
  EXPECT_THAT(List(), ElementsAreArray(accepted));
}

TEST_F(SubmitTasksTest, ItemThatIsRefusedDoesNotStopTheOthers) {
  Start({"--queue.max_size=2"});
  Open();
  Write({Prompt("1", "r"), Prompt(""), Prompt("1", "r"), Prompt("2"), Prompt("3")});
  const Answers answers = Take(5);
  EXPECT_EQ(answers[0].accepted().position(), 1u);
  EXPECT_THAT(wire::FromProto(answers[1].refused()),
              StatusIs(absl::StatusCode::kInvalidArgument, "prompt is required"));
  EXPECT_TRUE(answers[2].accepted().deduplicated());
  EXPECT_EQ(answers[2].accepted().queue_id(), answers[0].accepted().queue_id());
  EXPECT_TRUE(answers[3].has_accepted());
  EXPECT_THAT(wire::FromProto(answers[4].refused()), HasReason("QUEUE_FULL"));
  stream_->WritesDone();
  EXPECT_THAT(End(), IsOk());
}

TEST_F(SubmitTasksTest, ItemThatWaitsHoldsUpThoseBehindIt) {
  Start({"--queue.max_size=1", "--queue.policy=block"});
  Open();
  Write({Prompt("1"), Prompt("2"), Prompt("")});
  const std::string first = Take(1)[0].accepted().queue_id();
  while (Status().waiting() == 0) {
  }
  ASSERT_THAT(Cancel(first), IsOk());
  const Answers answers = Take(2);
  EXPECT_TRUE(answers[0].has_accepted());
  EXPECT_TRUE(answers[1].has_refused());
  EXPECT_THAT(List(), ElementsAre(answers[0].accepted().queue_id(), first));
  stream_->WritesDone();
  EXPECT_THAT(End(), IsOk());
}

TEST_F(SubmitTasksTest, CallerThatLeavesWhileItWaitsLeavesNothingBehind) {
  Start({"--queue.max_size=1", "--queue.policy=block"});
  Open();
  Write({Prompt("1"), Prompt("2"), Prompt("3")});
  const std::string first = Take(1)[0].accepted().queue_id();
  while (Status().waiting() == 0) {
  }
  context_.TryCancel();
  EXPECT_THAT(End(), StatusIs(absl::StatusCode::kCancelled));
  while (Status().waiting() > 0) {
  }
  EXPECT_THAT(List(), ElementsAre(first));
}

TEST_F(SubmitTasksTest, MessageWithTooManyItemsEndsTheStreamAfterWhatCameBefore) {
  Start({"--queue.max_size=0"});
  Open();
  Write({Prompt("1")});
  Write(std::vector<v1::SubmitTaskRequest>(1001, Prompt("2")));
  EXPECT_TRUE(Take(1)[0].has_accepted());
  EXPECT_THAT(End(), StatusIs(absl::StatusCode::kInvalidArgument,
                              HasSubstr("items has 1001 entries, at most 1000 are allowed")));
  EXPECT_THAT(List(), SizeIs(1));
}

TEST_F(SubmitTasksTest, DirectorThatStopsSaysSoToThoseThatWait) {
  Start({"--queue.max_size=1", "--queue.policy=block"});
  Open();
  Write({Prompt("1"), Prompt("2"), Prompt("3")});
  Take(1);
  while (Status().waiting() == 0) {
  }
  director_->process().Signal(SIGTERM);
  for (const auto& answer : Take(2)) {
    EXPECT_THAT(wire::FromProto(answer.refused()), HasReason("QUEUE_DRAINING"));
  }
  EXPECT_EQ(director_->process().WaitForExit(absl::Seconds(10)), 0);
  EXPECT_FALSE(End().ok());
}

TEST_F(SubmitTasksTest, WhatWasAnsweredSurvivesAKill) {
  Start({"--queue.max_size=0"});
  Open();
  Write(std::vector<v1::SubmitTaskRequest>(1000, Prompt("echo")));
  std::vector<std::string> accepted;
  for (const auto& answer : Take(1000)) accepted.push_back(answer.accepted().queue_id());
  Kill();
  EXPECT_FALSE(End().ok());
  Start({"--queue.max_size=0"});
  EXPECT_THAT(List(), ElementsAreArray(accepted));
}

}  // namespace
}  // namespace callboard
