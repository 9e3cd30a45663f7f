// Clients can parse the director's answers, whatever bytes come from agents or old records.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>

#include "absl/status/status.h"
#include "callboard/v1/fleet.pb.h"
#include "callboard/v1/queue.pb.h"
#include "libs/testing/engine_fixture.h"
#include "libs/testing/files.h"
#include "libs/wire/status.h"
#include "libs/wire/task.h"
#include "services/director/query_messages.h"

namespace callboard {
namespace {

using test::DrawBytes;
using test::Parses;

class Answers {
 public:
  // The agent sends `text` in every field that it can set.
  explicit Answers(const std::string& text) {
    core::Submission submission = test::EngineFixture::Prompt();
    submission.spec.terms.retry_on = {*core::ParseRetryRule("exit:*")};
    submission.spec.terms.max_attempts = 2;
    director_.Connect("agent-1");
    rejected_ = director_.Add(test::EngineFixture::Prompt());
    director_.AnswerStart(rejected_, absl::InvalidArgumentError(text));
    failed_ = director_.Add(submission);
    director_.AcceptStart(failed_);
    core::RunResult result = {.end = core::RunResult::End::kFailed};
    result.exit_code = 1;
    result.signal = text;
    result.result = text;
    result.error = text;
    director_.FinishRun(failed_, result);
    director_.DrainAgent("agent-1", text);
  }

  bool AllParse() {
    for (const core::QueueId id : {rejected_, failed_}) {
      if (!Parses(wire::ToProto(director_.Task(id)))) return false;
      for (const core::TaskEvent& event : director_.Events(id)) {
        if (!Parses(wire::ToProto(event))) return false;
      }
    }
    const director::AgentPage agents =
        director_.engine().views().ListAgents({.page_size = 10}, director_.now());
    return Parses(ListResponse(agents));
  }
  void Restart() { director_.Restart(); }

 private:
  test::EngineFixture director_;
  core::QueueId rejected_;
  core::QueueId failed_;
};

TEST(ResponseEncodingTest, ResponsesAreValidUtf8ForAnyAgentInput) {
  EXPECT_TRUE(rc::check([] {
    Answers answers(DrawBytes());
    RC_ASSERT(answers.AllParse());
    answers.Restart();
    RC_ASSERT(answers.AllParse());
  }));
}

TEST(ResponseEncodingTest, ErrorsAreValidUtf8AndFitInAHeader) {
  EXPECT_TRUE(rc::check([] {
    const google::rpc::Status error = wire::ToProto(absl::NotFoundError(DrawBytes()));
    RC_ASSERT(Parses(error));
    RC_ASSERT(error.ByteSizeLong() < 4096u);
  }));
}

}  // namespace
}  // namespace callboard
