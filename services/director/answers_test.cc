// Whatever bytes agents and old records hold, a client can parse what the director answers.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>

#include "absl/status/status.h"
#include "callboard/v1/fleet.pb.h"
#include "callboard/v1/queue.pb.h"
#include "libs/testing/any_bytes.h"
#include "libs/testing/engine_fixture.h"
#include "libs/wire/status.h"
#include "libs/wire/task.h"
#include "services/director/agent_list.h"

namespace callboard {
namespace {

using test::DrawBytes;
using test::Parses;

class Answers {
 public:
  // A task whose agent says `said` in whatever way it can.
  explicit Answers(const std::string& said) {
    core::Submission submission = test::EngineFixture::Prompt();
    submission.spec.retry_on = {*core::ParseRetryRule("exit:*")};
    submission.spec.max_attempts = 2;
    director_.Connect("agent-1");
    refused_ = director_.Add(test::EngineFixture::Prompt());
    director_.Answer(refused_, absl::InvalidArgumentError(said));
    failed_ = director_.Add(submission);
    director_.Accept(failed_);
    core::RunResult result = {.end = core::RunResult::End::kFailed};
    result.exit_code = 1;
    result.signal = said;
    result.result = said;
    result.error = said;
    director_.Finish(failed_, result);
    director_.DrainAgent("agent-1", said);
  }

  bool Parse() {
    for (const core::QueueId id : {refused_, failed_}) {
      if (!Parses(wire::ToProto(director_.Task(id)))) return false;
      for (const core::TaskEvent& event : director_.Events(id)) {
        if (!Parses(wire::ToProto(event))) return false;
      }
    }
    const director::AgentPage agents =
        director_.engine().ListAgents({.page_size = 10}, director_.now());
    return Parses(ListResponse(agents));
  }
  void Restart() { director_.Restart(); }

 private:
  test::EngineFixture director_;
  core::QueueId refused_;
  core::QueueId failed_;
};

TEST(AnswersTest, EveryAnswerParsesWhateverAnAgentSays) {
  EXPECT_TRUE(rc::check([] {
    Answers answers(DrawBytes());
    RC_ASSERT(answers.Parse());
    answers.Restart();
    RC_ASSERT(answers.Parse());
  }));
}

TEST(AnswersTest, EveryErrorParsesAndFitsIntoAHeader) {
  EXPECT_TRUE(rc::check([] {
    const google::rpc::Status error = wire::ToProto(absl::NotFoundError(DrawBytes()));
    RC_ASSERT(Parses(error));
    RC_ASSERT(error.ByteSizeLong() < 4096u);
  }));
}

}  // namespace
}  // namespace callboard
