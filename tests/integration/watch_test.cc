// WatchTasks over gRPC, on a director with its store.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
using ::testing::HasSubstr;
using ::testing::SizeIs;

// Reads a stream of changes one message at a time.
class Watch {
 public:
  Watch(v1::QueueService::Stub& stub, const v1::WatchTasksRequest& request)
      : reader_(stub.WatchTasks(&context_, request)) {}
  ~Watch() {
    context_.TryCancel();
    if (reader_ != nullptr) reader_->Finish();
  }

  // Returns the next message. REQUIRES: there is one.
  v1::WatchTasksResponse Next() {
    v1::WatchTasksResponse message;
    EXPECT_TRUE(reader_->Read(&message));
    EXPECT_NE(message.resume_token(), "");
    EXPECT_LT(message.ByteSizeLong(), 3u << 20);
    return message;
  }
  // Returns the next `count` changes, in any number of messages.
  std::vector<v1::WatchTasksResponse::Change> Take(size_t count) {
    std::vector<v1::WatchTasksResponse::Change> changes;
    while (changes.size() < count && !testing::Test::HasFailure()) {
      const v1::WatchTasksResponse message = Next();
      token_ = message.resume_token();
      changes.insert(changes.end(), message.changes().begin(), message.changes().end());
    }
    return changes;
  }
  const std::string& token() const { return token_; }
  absl::Status End() {
    v1::WatchTasksResponse message;
    while (reader_->Read(&message)) {
    }
    return wire::FromGrpc(std::exchange(reader_, nullptr)->Finish());
  }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::WatchTasksResponse>> reader_;
  std::string token_;
};

class WatchTest : public test::DirectorFixture {
 protected:
  std::unique_ptr<Watch> Begin(const std::vector<std::string>& tasks = {},
                               const std::string& token = "") {
    v1::WatchTasksRequest request;
    for (const std::string& task : tasks) request.add_queue_ids(task);
    request.set_resume_token(token);
    return std::make_unique<Watch>(*stub_, request);
  }
  // Submits `thousands` times 1000 tasks; returns once all are accepted.
  void SubmitThousands(int thousands, const std::string& prompt) {
    grpc::ClientContext context;
    const auto stream = stub_->SubmitTasks(&context);
    v1::SubmitTasksRequest request;
    for (int i = 0; i < 1000; ++i) *request.add_items() = Prompt(prompt);
    v1::SubmitTasksResponse response;
    for (int i = 0; i < thousands; ++i) {
      ASSERT_TRUE(stream->Write(request));
      for (int answered = 0; answered < 1000; answered += response.items_size()) {
        ASSERT_TRUE(stream->Read(&response));
      }
    }
    stream->WritesDone();
    EXPECT_TRUE(stream->Finish().ok());
  }
};

TEST_F(WatchTest, WatchSendsAllTasksAndThenChanges) {
  Start();
  const std::string first = Submit(Prompt("1"))->queue_id();
  const auto watch = Begin();
  const v1::WatchTasksResponse current = watch->Next();
  ASSERT_EQ(current.changes_size(), 1);
  EXPECT_EQ(current.changes(0).task().queue_id(), first);
  EXPECT_FALSE(current.changes(0).has_event());
  EXPECT_FALSE(current.reset());
  const std::string second = Submit(Prompt("2"))->queue_id();
  const auto submitted = watch->Take(2);
  EXPECT_EQ(submitted[0].event().kind(), v1::TaskEvent::KIND_SUBMITTED);
  EXPECT_EQ(submitted[1].event().kind(), v1::TaskEvent::KIND_ADMITTED);
  EXPECT_EQ(submitted[1].task().queue_id(), second);
  EXPECT_EQ(submitted[1].task().position(), 2u);
  ASSERT_THAT(Cancel(first), IsOk());
  const auto cancelled = watch->Take(1);
  EXPECT_EQ(cancelled[0].event().kind(), v1::TaskEvent::KIND_CANCELED);
  EXPECT_EQ(cancelled[0].task().state(), v1::Task::STATE_CANCELLED);
}

TEST_F(WatchTest, WatchOfATaskEndsWithIt) {
  Start();
  const std::string task = Submit(Prompt("1"))->queue_id();
  const auto watch = Begin({task});
  EXPECT_THAT(watch->Take(1), SizeIs(1));
  ASSERT_THAT(Submit(Prompt("2")), IsOk());
  ASSERT_THAT(Cancel(task), IsOk());
  EXPECT_EQ(watch->Take(1)[0].event().kind(), v1::TaskEvent::KIND_CANCELED);
  EXPECT_THAT(watch->End(), IsOk());
  EXPECT_THAT(Begin({task})->End(), IsOk()) << "a task that has ended";
}

TEST_F(WatchTest, WatchResumesFromItsToken) {
  Start();
  auto watch = Begin();
  const std::string token = watch->Next().resume_token();
  watch.reset();
  const std::string task = Submit(Prompt("1"))->queue_id();
  const auto missed = Begin({}, token)->Take(2);
  EXPECT_EQ(missed[0].event().kind(), v1::TaskEvent::KIND_SUBMITTED);
  EXPECT_EQ(missed[1].task().queue_id(), task);
}

TEST_F(WatchTest, TokenOfADeadDirectorGivesAReset) {
  Start();
  const std::string task = Submit(Prompt("1"))->queue_id();
  const std::string token = Begin()->Next().resume_token();
  Kill();
  Start();
  const v1::WatchTasksResponse message = Begin({}, token)->Next();
  EXPECT_TRUE(message.reset());
  ASSERT_EQ(message.changes_size(), 1);
  EXPECT_EQ(message.changes(0).task().queue_id(), task);
}

TEST_F(WatchTest, OldTokenGivesAReset) {
  Start({"--queue.max_size=0"});
  const std::string token = Begin()->Next().resume_token();
  SubmitThousands(11, "echo");
  const auto watch = Begin({}, token);
  v1::WatchTasksResponse message = watch->Next();
  EXPECT_TRUE(message.reset());
  int tasks = message.changes_size();
  while (tasks < 11'000 && !HasFailure()) {
    message = watch->Next();
    EXPECT_FALSE(message.reset()) << "once is enough";
    tasks += message.changes_size();
  }
  EXPECT_EQ(tasks, 11'000);
  const std::string task = Submit(Prompt("1"))->queue_id();
  EXPECT_EQ(Begin({}, message.resume_token())->Take(1)[0].task().queue_id(), task);
}

TEST_F(WatchTest, SlowReaderIsCutOff) {
  Start({"--queue.max_size=0"});
  const auto watch = Begin();
  const std::string token = watch->Next().resume_token();
  // More than gRPC buffers for the reader.
  SubmitThousands(30, std::string(1000, 'x'));
  EXPECT_THAT(watch->End(), HasReason("SLOW_READER"));
  EXPECT_TRUE(Begin({}, token)->Next().reset());
}

TEST_F(WatchTest, OpenWatchDoesNotDelayShutdown) {
  Start();
  const std::string task = Submit(Prompt("1"))->queue_id();
  const auto all = Begin();
  const auto one = Begin({task});
  all->Next();
  one->Next();
  director_->process().Signal(SIGTERM);
  EXPECT_EQ(director_->process().WaitForExit(absl::Seconds(10)), 0);
  EXPECT_FALSE(all->End().ok());
  EXPECT_FALSE(one->End().ok());
}

TEST_F(WatchTest, InvalidWatchIsRejectedByField) {
  Start();
  EXPECT_THAT(Begin({}, "%")->End(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("resume_token")));
  EXPECT_THAT(Begin({"queue-01hf81rywx2hm2aptby9afwnwa"})->End(), HasReason("TASK_NOT_FOUND"));
}

TEST_F(WatchTest, LargeTasksAreSplitAcrossMessages) {
  Start();
  std::vector<std::string> tasks;
  for (int i = 0; i < 8; ++i) {
    tasks.push_back(Submit(Prompt(std::string(1'000'000, 'x')))->queue_id());
  }
  std::vector<std::string> shown;
  for (const auto& change : Begin()->Take(tasks.size())) {
    shown.push_back(change.task().queue_id());
    EXPECT_TRUE(change.task().prompt_truncated());
  }
  EXPECT_EQ(shown, tasks);
}

}  // namespace
}  // namespace callboard
