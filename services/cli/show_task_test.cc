#include "services/cli/task_commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "callboard/v1/queue.grpc.pb.h"
#include "libs/testing/running_server.h"
#include "libs/testing/status_matchers.h"
#include "libs/wire/time.h"
#include "services/cli/answer_text.h"

namespace callboard::cli {
namespace {

using config::v1::CliConfig;
using test::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

// A fake director with one task, whose two events are on two pages. Calls must not overlap.
class ScriptedDirector final : public v1::QueueService::Service {
 public:
  std::string address() const { return running_.address(); }

  // Status of the calls for the first and the second page of events.
  grpc::Status first_page = grpc::Status::OK;
  grpc::Status second_page = grpc::Status::OK;
  std::vector<std::string> page_tokens = {};

 private:
  grpc::Status GetTask(grpc::ServerContext*, const v1::GetTaskRequest* request,
                       v1::Task* task) override {
    if (request->queue_id() != "queue-1") return {grpc::StatusCode::NOT_FOUND, "no such task"};
    task->set_queue_id("queue-1");
    task->set_trace_id("0af7651916cd43dd8448eb211c80319c");
    return grpc::Status::OK;
  }
  grpc::Status ListTaskEvents(grpc::ServerContext*, const v1::ListTaskEventsRequest* request,
                              v1::ListTaskEventsResponse* response) override {
    page_tokens.push_back(request->page_token());
    const bool is_first = request->page_token().empty();
    response->add_events()->set_kind(is_first ? v1::TaskEvent::KIND_SUBMITTED
                                              : v1::TaskEvent::KIND_ADMITTED);
    if (is_first) response->set_next_page_token("more");
    return is_first ? first_page : second_page;
  }

  const test::RunningService running_{{this}};
};

class ShowTaskTest : public testing::Test {
 protected:
  ShowTaskTest() {
    config_.mutable_director()->set_address(director_.address());
    *config_.mutable_timeout() = wire::ToProto(absl::Seconds(30));
  }

  // Returns the text that the command prints.
  std::string Printed(const std::string& queue_id) {
    const absl::StatusOr<std::string> answer = ShowTask(config_, queue_id);
    return answer.ok() ? *answer : absl::StrCat("Error: ", answer.status().message());
  }

  ScriptedDirector director_;
  CliConfig config_;
};

TEST_F(ShowTaskTest, AllPagesOfEventsAreBelowTheTask) {
  EXPECT_THAT(Printed("queue-1"), MatchesRegex("task       queue-1\n.*"
                                               "trace      0af7651916cd43dd8448eb211c80319c\n"
                                               "\nTIME .*\n.* SUBMITTED .*\n.* ADMITTED .*\n"));
  EXPECT_THAT(director_.page_tokens, ElementsAre("", "more"));
}

TEST_F(ShowTaskTest, JsonIsOneDocumentWithAllEvents) {
  config_.set_output(CliConfig::OUTPUT_JSON);
  EXPECT_THAT(Printed("queue-1"),
              AllOf(StartsWith("{\"prompt\":"), HasSubstr("\"kind\":\"SUBMITTED\""),
                    HasSubstr("\"kind\":\"ADMITTED\""), EndsWith("}]}\n")));
}

TEST_F(ShowTaskTest, EventsOfAnUnknownTaskAreNotRequested) {
  EXPECT_EQ(ExitCodeOf(ShowTask(config_, "queue-2").status()), ExitCode::kNotFound);
  EXPECT_THAT(director_.page_tokens, ElementsAre());
}

TEST_F(ShowTaskTest, OlderDirectorShowsTheTaskWithoutEvents) {
  director_.first_page = {grpc::StatusCode::UNIMPLEMENTED, ""};
  EXPECT_THAT(Printed("queue-1"),
              AllOf(StartsWith("task       queue-1\n"),
                    EndsWith("\n\nthis director is too old to list the events of a "
                             "task\n")));
  config_.set_output(CliConfig::OUTPUT_JSON);
  EXPECT_THAT(Printed("queue-1"), EndsWith(",\"events\":null}\n"));
}

TEST_F(ShowTaskTest, LostDirectorIsAnErrorWithoutAPartialAnswer) {
  const grpc::Status gone = {grpc::StatusCode::UNAVAILABLE, "Socket closed"};
  for (grpc::Status* page : {&director_.second_page, &director_.first_page}) {
    *page = gone;
    const absl::StatusOr<std::string> answer = ShowTask(config_, "queue-1");
    EXPECT_THAT(answer, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("no director answers")));
    EXPECT_EQ(ExitCodeOf(answer.status()), ExitCode::kUnreachable);
  }
}

}  // namespace
}  // namespace callboard::cli
