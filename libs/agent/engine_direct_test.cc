// Tests of direct starts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/agent/engine.h"
#include "libs/testing/status_matchers.h"

namespace callboard::agent {
namespace {

using core::FenceToken;
using test::HasReason;
using test::IsOk;
using test::StatusIs;
using testing::AllOf;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr core::AgentSessionId kSession(1);
constexpr absl::Duration kNow = absl::Seconds(1000);

FenceToken Direct(uint64_t task) {
  return {.queue_id = core::QueueId(core::Ulid(0, task)), .dispatch = core::DispatchNumber(1)};
}
FenceToken Dispatched(uint64_t task) {
  return {core::QueueId(core::Ulid(1, task)), core::DispatchNumber(1), 3};
}

DirectStart MakeStart(const std::string& request_id, uint64_t fingerprint = 1) {
  return {.run = std::make_shared<const core::RunSpec>(),
          .request_id = request_id,
          .fingerprint = {.high = fingerprint},
          .required_labels = {}};
}

// An agent with one slot and an open Session.
class DirectStartTest : public testing::Test {
 protected:
  DirectStartTest() { Init({.allow_direct = true}); }

  void Init(EngineOptions options) {
    engine_ = std::make_unique<AgentEngine>(std::move(options), JournalState());
    EXPECT_THAT(engine_->OpenSession(kSession, {.director_epoch = 3}, kNow), IsOk());
    engine_->TakeOutcome();
  }
  // Starts under a new token.
  absl::StatusOr<DirectStartResult> Start(const DirectStart& start) {
    return engine_->StartDirect(Direct(++last_), start);
  }
  void HandleStart(uint64_t task) {
    engine_->Handle(kSession,
                    core::StartRun{.token = Dispatched(task),
                                   .run = std::make_shared<const core::RunSpec>(),
                                   .agent_time = kNow},
                    kNow);
  }
  // Returns the answers to dispatched starts since the last call.
  std::vector<absl::Status> Answers() {
    std::vector<absl::Status> answers;
    for (const core::AgentMessage& message : engine_->TakeOutcome().messages) {
      if (const auto* answered = std::get_if<core::StartAnswer>(&message)) {
        answers.push_back(answered->answer);
      }
    }
    return answers;
  }

  std::unique_ptr<AgentEngine> engine_;
  uint64_t last_ = 0;
};

TEST_F(DirectStartTest, HasNoLeaseAndIsNotReportedToTheDirector) {
  const absl::StatusOr<DirectStartResult> start = Start(MakeStart("r"));
  ASSERT_THAT(start, IsOk());
  EXPECT_EQ(start->token, Direct(1));
  EXPECT_FALSE(start->deduplicated);
  Outcome outcome = engine_->TakeOutcome();
  EXPECT_THAT(outcome.journal, IsEmpty());
  ASSERT_EQ(outcome.runner_commands.size(), 1u);
  EXPECT_EQ(std::get<ports::RunRequest>(outcome.runner_commands[0]).fence_at,
            absl::InfiniteDuration());
  EXPECT_THAT(engine_->RunningDispatches(), IsEmpty());
  EXPECT_EQ(engine_->RunningTaskIds().size(), 1u);
  EXPECT_FALSE(engine_->is_idle());
  engine_->EndTurn();
  engine_->TakeOutcome();
  engine_->OnEnded(Direct(1), {});
  engine_->EndTurn();
  outcome = engine_->TakeOutcome();
  EXPECT_THAT(outcome.journal, IsEmpty());
  ASSERT_EQ(outcome.messages.size(), 1u) << "the load, but no result";
  const auto& load = std::get<core::LoadReport>(outcome.messages[0]);
  EXPECT_EQ(load.lanes.at("default").used, 0u);
  EXPECT_TRUE(engine_->is_idle());
}

TEST_F(DirectStartTest, SharesSlotsWithDispatchedTasks) {
  ASSERT_THAT(Start(MakeStart("r")), IsOk());
  EXPECT_THAT(Start(MakeStart("s")),
              AllOf(StatusIs(absl::StatusCode::kAborted), HasReason("AGENT_BUSY")));
  HandleStart(1);
  EXPECT_THAT(Answers(), ElementsAre(HasReason("AGENT_BUSY")));
  engine_->OnEnded(Direct(1), {});
  HandleStart(2);
  EXPECT_THAT(Answers(), ElementsAre(IsOk()));
  EXPECT_THAT(Start(MakeStart("s")), HasReason("AGENT_BUSY"));
}

TEST_F(DirectStartTest, RepeatedRequestReturnsTheFirstRunEvenAfterItEnded) {
  ASSERT_THAT(Start(MakeStart("r")), IsOk());
  engine_->TakeOutcome();
  for (const bool ended : {false, true}) {
    if (ended) engine_->OnEnded(Direct(1), {});
    const absl::StatusOr<DirectStartResult> again = Start(MakeStart("r"));
    ASSERT_THAT(again, IsOk());
    EXPECT_EQ(again->token, Direct(1));
    EXPECT_TRUE(again->deduplicated);
  }
  EXPECT_THAT(engine_->TakeOutcome().runner_commands, IsEmpty());
}

TEST_F(DirectStartTest, RequestIdWithDifferentContentIsRejected) {
  ASSERT_THAT(Start(MakeStart("r", 1)), IsOk());
  EXPECT_THAT(Start(MakeStart("r", 2)),
              AllOf(StatusIs(absl::StatusCode::kAlreadyExists), HasReason("REQUEST_ID_REUSED")));
}

TEST_F(DirectStartTest, RejectedStartMayBeRetried) {
  HandleStart(1);
  EXPECT_THAT(Start(MakeStart("r")), HasReason("AGENT_BUSY"));
  engine_->OnEnded(Dispatched(1), {});
  const absl::StatusOr<DirectStartResult> start = Start(MakeStart("r"));
  ASSERT_THAT(start, IsOk());
  EXPECT_FALSE(start->deduplicated);
}

TEST_F(DirectStartTest, OldestRequestIdsOfEndedRunsAreForgotten) {
  Init({.lanes = {{"default", 2}}, .allow_direct = true});
  ASSERT_THAT(Start(MakeStart("running")), IsOk());
  for (size_t i = 0; i <= AgentEngine::kDirectRequestsMax; ++i) {
    ASSERT_THAT(Start(MakeStart(absl::StrCat(i))), IsOk());
    engine_->OnEnded(Direct(last_), {});
  }
  EXPECT_TRUE(Start(MakeStart("running"))->deduplicated) << "it is still running";
  EXPECT_TRUE(Start(MakeStart("1"))->deduplicated);
  EXPECT_FALSE(Start(MakeStart("0"))->deduplicated);
}

TEST_F(DirectStartTest, IsRejectedUnlessAllowed) {
  Init({});
  EXPECT_THAT(Start(MakeStart("r")),
              AllOf(StatusIs(absl::StatusCode::kFailedPrecondition), HasReason("DIRECT_DISABLED")));
}

TEST_F(DirectStartTest, DrainingAgentAnswersRepeatedRequestsAndRejectsNewOnes) {
  ASSERT_THAT(Start(MakeStart("r")), IsOk());
  engine_->BeginDrain();
  EXPECT_TRUE(Start(MakeStart("r"))->deduplicated);
  EXPECT_THAT(Start(MakeStart("s")),
              AllOf(StatusIs(absl::StatusCode::kUnavailable), HasReason("AGENT_DRAINING")));
}

TEST_F(DirectStartTest, EveryRequiredLabelMustMatch) {
  Init({.labels = {{"os", "linux"}, {"zone", "a"}}, .allow_direct = true});
  DirectStart start = MakeStart("r");
  start.required_labels = {{"os", "linux"}, {"gpu", "yes"}};
  EXPECT_THAT(Start(start), HasReason("LABEL_MISSING"));
  start.required_labels = {{"os", "linux"}, {"zone", "b"}};
  EXPECT_THAT(Start(start), HasReason("LABEL_MISSING"));
  start.required_labels = {{"os", "linux"}, {"zone", "a"}};
  EXPECT_THAT(Start(start), IsOk());
}

TEST_F(DirectStartTest, IsNotAffectedByLeases) {
  ASSERT_THAT(Start(MakeStart("r")), IsOk());
  engine_->TakeOutcome();
  engine_->Handle(kSession, core::GoingAway{absl::Minutes(5)}, kNow);
  engine_->OnSessionClosed(kSession);
  ASSERT_THAT(engine_->OpenSession(core::AgentSessionId(2), {.director_epoch = 4}, kNow), IsOk());
  engine_->FireTimers(kNow + absl::Hours(1));
  EXPECT_THAT(engine_->TakeOutcome().runner_commands, IsEmpty());
}

}  // namespace
}  // namespace callboard::agent
