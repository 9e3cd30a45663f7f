// Output of tasks, with a real director, a real agent and real processes.
#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "libs/testing/files.h"
#include "libs/testing/running_server.h"
#include "tests/integration/task_client.h"

namespace callboard {
namespace {

using test::RunningServer;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Optional;

class LogsTest : public testing::Test {
 protected:
  void StartDirector(const std::string& address = "127.0.0.1:0") {
    director_.emplace("services/director/callboard-director",
                      std::vector<std::string>{absl::StrCat("--data_dir=", data_dir_.string()),
                                               absl::StrCat("--grpc.listen=", address)});
    client_.emplace(*director_);
  }

  void SetUp() override {
    StartDirector();
    agent_.emplace("services/agent/callboard-agent",
                   std::vector<std::string>{
                       absl::StrCat("--director.address=", director_->grpc_address()),
                       "--agent.name=agent-1", "--runner.kind=shell", "--runner.allow_shell"});
  }

  // Returns a script that waits for Go().
  std::string WaitForGo() const {
    return absl::StrCat("while [ ! -e ", (folder_ / "go").string(), " ]; do sleep 0.01; done; ");
  }
  void Go() const { std::ofstream(folder_ / "go") << "go"; }

  // One call of TailTaskLogs.
  class Tail {
   public:
    Tail(v1::QueueService::Stub& stub, const v1::TailTaskLogsRequest& request)
        : stream_(stub.TailTaskLogs(&context_, request)) {}

    // Reads until standard output contains `text`. REQUIRES: it will.
    void ReadTo(const std::string& text) {
      while (text_.find(text) == std::string::npos && Read()) continue;
      EXPECT_THAT(text_, HasSubstr(text));
    }
    grpc::Status ReadAll() {
      while (Read()) continue;
      return stream_->Finish();
    }

    const std::vector<v1::LogChunk>& chunks() const { return chunks_; }
    const std::string& text() const { return text_; }
    const std::string& errors() const { return errors_; }

   private:
    bool Read() {
      v1::TailTaskLogsResponse response;
      if (!stream_->Read(&response)) return false;
      for (const v1::LogChunk& chunk : response.chunks()) {
        chunks_.push_back(chunk);
        (chunk.stream() == v1::LogChunk::STREAM_STDERR ? errors_ : text_) += chunk.data();
      }
      return true;
    }

    grpc::ClientContext context_;
    std::unique_ptr<grpc::ClientReader<v1::TailTaskLogsResponse>> stream_;
    std::vector<v1::LogChunk> chunks_;
    std::string text_;
    std::string errors_;
  };

  v1::TailTaskLogsRequest TailRequest(const std::string& id, bool follow = false) const {
    v1::TailTaskLogsRequest request;
    request.set_queue_id(id);
    request.set_follow(follow);
    return request;
  }

  const std::filesystem::path folder_ = test::NewFolder();
  const std::filesystem::path data_dir_ = test::NewFolder();
  std::optional<RunningServer> director_;
  std::optional<test::TaskClient> client_;
  std::optional<RunningServer> agent_;
};

TEST_F(LogsTest, OutputOfAnEndedTaskIsComplete) {
  const std::string id = client_->Submit("echo one; echo two; echo oops >&2");
  client_->WaitForEnd(id);
  Tail tail(client_->stub(), TailRequest(id));
  EXPECT_TRUE(tail.ReadAll().ok());
  EXPECT_EQ(tail.text(), "one\ntwo\n");
  EXPECT_EQ(tail.errors(), "oops\n");
  EXPECT_EQ(tail.chunks().front().dispatch(), 1u);
  EXPECT_EQ(tail.chunks().front().number(), 1u);
  EXPECT_TRUE(tail.chunks().front().has_at());
}

TEST_F(LogsTest, FollowerSeesOutputUntilTheTaskEnds) {
  const std::string id = client_->Submit("echo begun; " + WaitForGo() + "echo done");
  Tail tail(client_->stub(), TailRequest(id, /*follow=*/true));
  tail.ReadTo("begun\n");
  EXPECT_EQ(client_->Get(id).state(), v1::Task::STATE_WORKING);
  Tail snapshot(client_->stub(), TailRequest(id));
  EXPECT_TRUE(snapshot.ReadAll().ok()) << "without follow the call does not wait";
  EXPECT_EQ(snapshot.text(), "begun\n");
  Go();
  EXPECT_TRUE(tail.ReadAll().ok());
  EXPECT_EQ(tail.text(), "begun\ndone\n");
}

TEST_F(LogsTest, FollowingCanBeginBeforeTheTask) {
  const std::string first = client_->Submit(WaitForGo());
  const std::string id = client_->Submit("echo hello");
  Tail tail(client_->stub(), TailRequest(id, /*follow=*/true));
  Go();
  EXPECT_TRUE(tail.ReadAll().ok());
  EXPECT_EQ(tail.text(), "hello\n");
}

TEST_F(LogsTest, ReaderResumesAfterItsLastChunk) {
  const std::string id = client_->Submit("echo one; " + WaitForGo() + "echo two");
  Tail tail(client_->stub(), TailRequest(id, /*follow=*/true));
  tail.ReadTo("one\n");
  Go();
  client_->WaitForEnd(id);
  v1::TailTaskLogsRequest request = TailRequest(id);
  request.set_dispatch(tail.chunks().back().dispatch());
  request.set_after_number(tail.chunks().back().number());
  Tail rest(client_->stub(), request);
  EXPECT_TRUE(rest.ReadAll().ok());
  EXPECT_EQ(rest.text(), "two\n");
}

TEST_F(LogsTest, FollowerSeesEveryDispatchOfARetriedTask) {
  v1::SubmitTaskRequest request;
  request.set_prompt(absl::StrCat("if mkdir ", (folder_ / "tried").string(),
                                  "; then echo first; exit 1; fi; echo second"));
  request.set_max_attempts(2);
  request.add_retry_on("exit:*");
  const std::string id = client_->Submit(request);
  Tail tail(client_->stub(), TailRequest(id, /*follow=*/true));
  tail.ReadTo("first\n");
  client_->WaitFor(id, v1::Task::STATE_PENDING);
  client_->Kick();
  EXPECT_TRUE(tail.ReadAll().ok());
  EXPECT_EQ(tail.text(), "first\nsecond\n");
  EXPECT_EQ(tail.chunks().back().dispatch(), 2u);
  v1::TailTaskLogsRequest earlier = TailRequest(id);
  earlier.set_dispatch(1);
  Tail one(client_->stub(), earlier);
  EXPECT_TRUE(one.ReadAll().ok());
  EXPECT_EQ(one.text(), "first\n");
  Tail last(client_->stub(), TailRequest(id));
  EXPECT_TRUE(last.ReadAll().ok());
  EXPECT_EQ(last.text(), "second\n") << "the last dispatch by default";
}

TEST_F(LogsTest, RestartedDirectorHasAllOutputOnce) {
  const std::string id = client_->Submit("echo before; " + WaitForGo() + "echo meanwhile");
  {
    Tail tail(client_->stub(), TailRequest(id, /*follow=*/true));
    tail.ReadTo("before\n");
    director_->process().Signal(SIGKILL);
    EXPECT_FALSE(tail.ReadAll().ok());
  }
  ASSERT_THAT(director_->process().WaitForExit(absl::Seconds(60)), Optional(128 + SIGKILL));
  Go();
  StartDirector(director_->grpc_address());
  Tail tail(client_->stub(), TailRequest(id, /*follow=*/true));
  EXPECT_TRUE(tail.ReadAll().ok());
  EXPECT_EQ(tail.text(), "before\nmeanwhile\n");
}

TEST_F(LogsTest, FloodKeepsItsBeginningAndEndAndCountsTheRest) {
  constexpr uint64_t kBytes = 20'000'000;
  const std::string id =
      client_->Submit(absl::StrCat("yes 123456789 | head -c ", kBytes, "; echo the end"));
  EXPECT_EQ(client_->WaitForEnd(id).state(), v1::Task::STATE_COMPLETED);
  Tail tail(client_->stub(), TailRequest(id));
  EXPECT_TRUE(tail.ReadAll().ok());
  uint64_t dropped = 0;
  for (const v1::LogChunk& chunk : tail.chunks()) dropped += chunk.dropped_bytes();
  EXPECT_EQ(tail.text().size() + dropped, kBytes + 8);
  EXPECT_LE(tail.text().size(), 1u << 20);
  EXPECT_EQ(tail.text().substr(0, 10), "123456789\n");
  EXPECT_EQ(tail.text().substr(tail.text().size() - 8), "the end\n");
}

TEST_F(LogsTest, TaskThatWasNeverRunHasNoOutput) {
  const std::string first = client_->Submit(WaitForGo());
  const std::string id = client_->Submit("echo never");
  client_->Cancel(id);
  Tail tail(client_->stub(), TailRequest(id, /*follow=*/true));
  EXPECT_TRUE(tail.ReadAll().ok());
  EXPECT_TRUE(tail.chunks().empty());
  Go();
  client_->WaitForEnd(first);
}

TEST_F(LogsTest, UnknownTaskOrDispatchHasNoOutput) {
  Tail unknown(client_->stub(), TailRequest("queue-00000000000000000000000001"));
  EXPECT_EQ(unknown.ReadAll().error_code(), grpc::StatusCode::NOT_FOUND);
  Tail nonsense(client_->stub(), TailRequest("nonsense"));
  EXPECT_EQ(nonsense.ReadAll().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

}  // namespace
}  // namespace callboard
