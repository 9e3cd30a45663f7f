#include "libs/agent/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "libs/base/error.h"
#include "libs/core/limits.h"
#include "libs/testing/status_matchers.h"

namespace callboard::agent {
namespace {

using core::FenceToken;
using core::RunResult;
using test::HasReason;
using test::IsOk;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr core::AgentSessionId kSession(1);
const core::SessionTerms kTerms = {.director_epoch = 3,
                                   .lease = {.heartbeat = absl::Seconds(15),
                                             .self_fence = absl::Seconds(50),
                                             .redispatch_after = absl::Seconds(75),
                                             .kill_grace = absl::Seconds(10)}};

FenceToken Token(uint64_t task, uint64_t epoch = 3) {
  return {core::QueueId(core::Ulid(0, task)), core::DispatchNumber(1), epoch};
}

core::RunSpecPtr Spec(const std::string& lane = "default") {
  core::RunSpec spec;
  spec.prompt = "echo";
  spec.lane = lane;
  return std::make_shared<const core::RunSpec>(std::move(spec));
}

// An agent with one slot, an open Session and a clock.
class AgentEngineTest : public testing::Test {
 protected:
  AgentEngineTest() { CreateEngine({.name = "agent-1", .instance_id = "i1"}); }

  void CreateEngine(EngineOptions options, const JournalState& journal = {}) {
    engine_ = std::make_unique<AgentEngine>(std::move(options), journal);
    EXPECT_THAT(engine_->OpenSession(kSession, kTerms, now_), IsOk());
    TakeOpening();
  }
  // Breaks the Session and opens the next one.
  core::SessionOpened Reopen() {
    engine_->OnSessionClosed(session_);
    session_ = core::AgentSessionId(session_.value() + 1);
    EXPECT_THAT(engine_->OpenSession(session_, kTerms, now_), IsOk());
    TakeOpening();
    return opened_;
  }
  void TakeOpening() {
    const Outcome outcome = TakeTurnOutcome();
    opened_ = std::get<core::SessionOpened>(outcome.messages.at(0));
    results_ = Messages<core::RunEnded>(outcome);
  }

  void Handle(const core::DirectorMessage& message) { engine_->Handle(session_, message, now_); }
  void HandleStart(uint64_t task, const std::string& lane = "default") {
    Handle(core::StartRun{.token = Token(task), .run = Spec(lane), .agent_time = now_});
  }
  // Starts the task and expects the agent to accept it.
  void RunTask(uint64_t task) {
    HandleStart(task);
    EXPECT_THAT(Answers(), ElementsAre("OK"));
  }
  void Advance(absl::Duration time) {
    now_ += time;
    engine_->FireTimers(now_);
  }
  // Acknowledges all heartbeats in the outcome.
  void Acknowledge(const Outcome& outcome) {
    for (const core::Heartbeat& heartbeat : Messages<core::Heartbeat>(outcome)) {
      engine_->Handle(session_, core::HeartbeatAck{heartbeat.agent_time}, now_);
    }
  }

  Outcome TakeTurnOutcome() {
    engine_->EndTurn();
    return engine_->TakeOutcome();
  }
  template <class Message>
  static std::vector<Message> Messages(const Outcome& outcome) {
    std::vector<Message> messages;
    for (const core::AgentMessage& message : outcome.messages) {
      if (const auto* found = std::get_if<Message>(&message)) messages.push_back(*found);
    }
    return messages;
  }
  template <class Command>
  static std::vector<Command> Commands(const Outcome& outcome) {
    std::vector<Command> commands;
    for (const RunnerCommand& command : outcome.runner_commands) {
      if (const auto* found = std::get_if<Command>(&command)) commands.push_back(*found);
    }
    return commands;
  }
  // Returns the answers to starts since the last call: OK, or the reason.
  std::vector<std::string> Answers() {
    std::vector<std::string> answers;
    for (const core::StartAnswer& answered : Messages<core::StartAnswer>(TakeTurnOutcome())) {
      answers.push_back(answered.answer.ok() ? "OK"
                                             : base::GetErrorDetails(answered.answer).reason);
    }
    return answers;
  }

  absl::Duration now_ = absl::Seconds(1000);
  core::AgentSessionId session_ = kSession;
  std::unique_ptr<AgentEngine> engine_;
  // The last opening message and the results that followed it.
  core::SessionOpened opened_;
  std::vector<core::RunEnded> results_;
};

const RunResult kCompleted = {.end = RunResult::End::kCompleted, .exit_code = 0, .result = "42"};
const RunResult kKilled = {.end = RunResult::End::kCancelled, .signal = "SIGTERM"};

// ---- Starts -------------------------------------------------------------------------------------

TEST_F(AgentEngineTest, AcceptedStartIsJournaledRunAndAnswered) {
  HandleStart(1);
  const Outcome outcome = TakeTurnOutcome();
  ASSERT_EQ(outcome.journal.size(), 1u);
  EXPECT_EQ(std::get<RunAccepted>(outcome.journal[0]).token, Token(1));
  const auto commands = Commands<ports::RunRequest>(outcome);
  ASSERT_EQ(commands.size(), 1u);
  EXPECT_EQ(commands[0].token, Token(1));
  EXPECT_EQ(commands[0].fence_at, now_ + absl::Seconds(50));
  EXPECT_EQ(commands[0].kill_grace, absl::Seconds(10));
  EXPECT_EQ(Messages<core::StartAnswer>(outcome).size(), 1u);
  EXPECT_EQ(Messages<core::LoadReport>(outcome).at(0).lanes.at("default").used, 1u);
}

TEST_F(AgentEngineTest, RunWithinOneTurnDoesNotChangeTheLoad) {
  HandleStart(1);
  engine_->OnEnded(Token(1), kCompleted);
  const Outcome outcome = TakeTurnOutcome();
  EXPECT_EQ(Messages<core::StartAnswer>(outcome).size(), 1u);
  EXPECT_EQ(Messages<core::RunEnded>(outcome).size(), 1u);
  EXPECT_THAT(Messages<core::LoadReport>(outcome), IsEmpty());
}

TEST_F(AgentEngineTest, FullLaneAnswersBusyAndReportsTheLoad) {
  RunTask(1);
  HandleStart(2);
  const Outcome outcome = TakeTurnOutcome();
  EXPECT_THAT(Messages<core::StartAnswer>(outcome).at(0).answer, HasReason("AGENT_BUSY"));
  EXPECT_EQ(Messages<core::LoadReport>(outcome).size(), 1u);
  EXPECT_THAT(outcome.runner_commands, IsEmpty());
}

TEST_F(AgentEngineTest, LanesAreFilledSeparately) {
  CreateEngine({.name = "a", .instance_id = "i", .lanes = {{"default", 1}, {"big", 2}}});
  HandleStart(1);
  HandleStart(2, "big");
  HandleStart(3, "big");
  HandleStart(4, "big");
  HandleStart(5, "gpu");
  EXPECT_THAT(Answers(), ElementsAre("OK", "OK", "OK", "AGENT_BUSY", "AGENT_BUSY"));
}

TEST_F(AgentEngineTest, RepeatedStartGetsTheSameAnswer) {
  HandleStart(1);
  HandleStart(1);
  HandleStart(2);
  HandleStart(2);
  const Outcome outcome = TakeTurnOutcome();
  EXPECT_EQ(Commands<ports::RunRequest>(outcome).size(), 1u);
  const auto answers = Messages<core::StartAnswer>(outcome);
  ASSERT_EQ(answers.size(), 4u);
  EXPECT_THAT(answers[1].answer, IsOk());
  engine_->OnEnded(Token(1), kCompleted);
  TakeTurnOutcome();
  HandleStart(2);
  EXPECT_THAT(Answers(), ElementsAre("AGENT_BUSY")) << "although there is a free slot now";
}

TEST_F(AgentEngineTest, RepeatedStartOfAnEndedRunGetsTheResult) {
  RunTask(1);
  engine_->OnEnded(Token(1), kCompleted);
  TakeTurnOutcome();
  HandleStart(1);
  const Outcome outcome = TakeTurnOutcome();
  EXPECT_THAT(Messages<core::StartAnswer>(outcome).at(0).answer, IsOk());
  EXPECT_EQ(Messages<core::RunEnded>(outcome).at(0).result, kCompleted);
  EXPECT_THAT(outcome.runner_commands, IsEmpty());
}

TEST_F(AgentEngineTest, UnknownItemIsIgnoredAndCounted) {
  engine_->Handle(kSession, core::UnknownItem(), now_);
  EXPECT_EQ(engine_->unknown_items(), 1u);
}

TEST_F(AgentEngineTest, RepeatedStartOfASettledRunIsRejected) {
  RunTask(1);
  engine_->OnEnded(Token(1), kCompleted);
  Handle(core::ResultAck{Token(1)});
  TakeTurnOutcome();
  RunTask(2);
  Handle(core::FenceOff{Token(2)});
  engine_->OnEnded(Token(2), kKilled);
  TakeTurnOutcome();
  HandleStart(1);
  HandleStart(2);
  EXPECT_THAT(Answers(), ElementsAre("START_TOO_LATE", "START_TOO_LATE"));
  EXPECT_THAT(engine_->RunningDispatches(), IsEmpty());
}

TEST_F(AgentEngineTest, StartAfterItsLeaseIsRejected) {
  const absl::Duration sent = now_;
  Advance(absl::Seconds(51));
  TakeTurnOutcome();
  Handle(core::StartRun{.token = Token(1), .run = Spec(), .agent_time = sent});
  EXPECT_THAT(Answers(), ElementsAre("START_TOO_LATE"));
}

TEST_F(AgentEngineTest, TaskThatCannotBeRunIsRejectedWithTheRunnersReason) {
  CreateEngine({.name = "a", .instance_id = "i", .check = [](const core::RunSpec&) {
                  return base::WithReason(absl::FailedPreconditionError("no shell"),
                                          "SHELL_DISABLED");
                }});
  HandleStart(1);
  EXPECT_THAT(Answers(), ElementsAre("SHELL_DISABLED"));
}

TEST_F(AgentEngineTest, RejectionIsForgottenAfterTheLease) {
  RunTask(1);
  HandleStart(2);
  EXPECT_THAT(Answers(), ElementsAre("AGENT_BUSY"));
  engine_->OnEnded(Token(1), kCompleted);
  Advance(absl::Seconds(75));
  TakeTurnOutcome();
  HandleStart(2);
  EXPECT_THAT(Answers(), ElementsAre("OK"));
}

// ---- Results ------------------------------------------------------------------------------------

TEST_F(AgentEngineTest, ResultIsJournaledAndSentUntilAcknowledged) {
  RunTask(1);
  engine_->OnEnded(Token(1), kCompleted);
  const Outcome outcome = TakeTurnOutcome();
  EXPECT_EQ(std::get<ResultStored>(outcome.journal.at(0)).result, kCompleted);
  EXPECT_EQ(Messages<core::RunEnded>(outcome).size(), 1u);
  EXPECT_EQ(Messages<core::LoadReport>(outcome).at(0).lanes.at("default").used, 0u);
  Advance(absl::Seconds(15));
  EXPECT_EQ(Messages<core::RunEnded>(TakeTurnOutcome()).size(), 1u) << "with every heartbeat";
  Handle(core::ResultAck{Token(1)});
  EXPECT_EQ(std::get<RunForgotten>(TakeTurnOutcome().journal.at(0)).token, Token(1));
  Advance(absl::Seconds(15));
  EXPECT_THAT(Messages<core::RunEnded>(TakeTurnOutcome()), IsEmpty());
}

TEST_F(AgentEngineTest, CancelledRunIsStoppedAndReported) {
  RunTask(1);
  Handle(core::CancelRun{Token(1)});
  Handle(core::CancelRun{Token(1)});
  EXPECT_EQ(Commands<StopRun>(TakeTurnOutcome()).size(), 1u);
  engine_->OnEnded(Token(1), kKilled);
  EXPECT_EQ(Messages<core::RunEnded>(TakeTurnOutcome()).at(0).result, kKilled);
}

TEST_F(AgentEngineTest, CancelOfAnUnknownDispatchIsConfirmedAndItsStartRejected) {
  Handle(core::CancelRun{Token(1)});
  EXPECT_EQ(Messages<core::RunEnded>(TakeTurnOutcome()).at(0).result.end,
            RunResult::End::kCancelled);
  HandleStart(1);
  const Outcome outcome = TakeTurnOutcome();
  EXPECT_FALSE(Messages<core::StartAnswer>(outcome).at(0).answer.ok());
  EXPECT_THAT(outcome.runner_commands, IsEmpty());
}

TEST_F(AgentEngineTest, CancelAfterTheEndIsAnsweredWithTheResult) {
  RunTask(1);
  engine_->OnEnded(Token(1), kCompleted);
  TakeTurnOutcome();
  Handle(core::CancelRun{Token(1)});
  EXPECT_EQ(Messages<core::RunEnded>(TakeTurnOutcome()).at(0).result, kCompleted);
}

TEST_F(AgentEngineTest, FencedOffRunIsStoppedAndNotReported) {
  RunTask(1);
  Handle(core::FenceOff{Token(1)});
  EXPECT_EQ(Commands<StopRun>(TakeTurnOutcome()).size(), 1u);
  engine_->OnEnded(Token(1), kCompleted);
  const Outcome outcome = TakeTurnOutcome();
  EXPECT_THAT(Messages<core::RunEnded>(outcome), IsEmpty());
  EXPECT_EQ(std::get<RunForgotten>(outcome.journal.at(0)).token, Token(1));
  EXPECT_THAT(Reopen().running, IsEmpty());
}

// ---- Leases -------------------------------------------------------------------------------------

TEST_F(AgentEngineTest, AcknowledgedHeartbeatMovesTheFencesOfListedRuns) {
  RunTask(1);
  Advance(absl::Seconds(15));
  const Outcome heartbeat = TakeTurnOutcome();
  ASSERT_EQ(Messages<core::Heartbeat>(heartbeat).size(), 1u);
  EXPECT_THAT(Messages<core::Heartbeat>(heartbeat)[0].running, ElementsAre(Token(1)));
  const absl::Duration sent = now_;
  now_ += absl::Seconds(3);
  Acknowledge(heartbeat);
  const auto moved = Commands<MoveFence>(TakeTurnOutcome());
  ASSERT_EQ(moved.size(), 1u);
  EXPECT_EQ(moved[0].fence_at, sent + absl::Seconds(50))
      << "counted from its sending, not from its arrival";
}

TEST_F(AgentEngineTest, SessionsShorterThanAHeartbeatPeriodRenewRuns) {
  RunTask(1);
  absl::Duration fence_at = now_ + absl::Seconds(50);
  for (int i = 0; i < 20; ++i) {
    Advance(absl::Seconds(4));
    Reopen();
    engine_->FireTimers(now_);
    Acknowledge(TakeTurnOutcome());
    const auto moved = Commands<MoveFence>(TakeTurnOutcome());
    ASSERT_EQ(moved.size(), 1u);
    EXPECT_GT(moved[0].fence_at, fence_at);
    fence_at = moved[0].fence_at;
  }
  EXPECT_EQ(fence_at, now_ + absl::Seconds(50));
}

TEST_F(AgentEngineTest, SessionOfAnIdleAgentOpensWithoutAHeartbeat) {
  Reopen();
  engine_->FireTimers(now_);
  EXPECT_THAT(Messages<core::Heartbeat>(TakeTurnOutcome()), IsEmpty());
}

TEST_F(AgentEngineTest, HeartbeatDoesNotRenewUnlistedRuns) {
  Advance(absl::Seconds(15));
  const Outcome heartbeat = TakeTurnOutcome();
  RunTask(1);
  Acknowledge(heartbeat);
  EXPECT_THAT(Commands<MoveFence>(TakeTurnOutcome()), IsEmpty());
}

TEST_F(AgentEngineTest, RunThatEndsWithoutACancelIsReportedImmediatelyAndLost) {
  RunTask(1);
  engine_->OnEnded(Token(1), kKilled);
  EXPECT_EQ(engine_->TimeUntilNextTimer(now_), absl::ZeroDuration());
  Advance(absl::ZeroDuration());
  EXPECT_EQ(Messages<core::RunEnded>(TakeTurnOutcome()).at(0).result, kKilled);
  EXPECT_FALSE(engine_->is_idle()) << "it is not acknowledged";
  Handle(core::ResultAck{Token(1)});
  EXPECT_TRUE(engine_->is_idle());
  EXPECT_EQ(std::get<RunForgotten>(TakeTurnOutcome().journal.at(0)).token, Token(1));
  EXPECT_THAT(Reopen().lost, IsEmpty());
}

TEST_F(AgentEngineTest, RunStoppedAtItsFenceIsLostWithoutAResult) {
  RunTask(1);
  now_ += absl::Seconds(50);
  engine_->OnEnded(Token(1), kKilled);
  Advance(absl::ZeroDuration());
  EXPECT_THAT(Messages<core::RunEnded>(TakeTurnOutcome()), IsEmpty())
      << "it may run on another agent";
  const core::SessionOpened opened = Reopen();
  EXPECT_THAT(opened.lost, ElementsAre(Token(1)));
  EXPECT_THAT(opened.ended, IsEmpty());
  Handle(core::FenceOff{Token(1)});
  EXPECT_EQ(std::get<RunForgotten>(TakeTurnOutcome().journal.at(0)).token, Token(1));
}

TEST_F(AgentEngineTest, LongResultIsTruncatedToItsEndAndFlagged) {
  RunTask(1);
  RunResult large = kCompleted;
  large.result = std::string(core::kMessageBytesMax, 'x') + "end";
  large.error = std::string(core::kErrorBytesMax - 1, 'x') + "\xc3\xa4";
  engine_->OnEnded(Token(1), large);
  const Outcome outcome = TakeTurnOutcome();
  const RunResult sent = Messages<core::RunEnded>(outcome).at(0).result;
  EXPECT_EQ(sent.result.size(), core::kResultBytesMax);
  EXPECT_TRUE(sent.result.ends_with("xend"));
  EXPECT_TRUE(sent.result_truncated);
  EXPECT_EQ(sent.error.size(), core::kErrorBytesMax - 1) << "no partial character";
  EXPECT_EQ(std::get<ResultStored>(outcome.journal.at(0)).result, sent);
}

TEST_F(AgentEngineTest, RestartNoticeExtendsFencesUntilTheNextSession) {
  RunTask(1);
  Handle(core::GoingAway{absl::Minutes(5)});
  EXPECT_EQ(Commands<MoveFence>(TakeTurnOutcome()).at(0).fence_at,
            now_ + absl::Seconds(50) + absl::Minutes(5));
  Advance(absl::Minutes(1));
  TakeTurnOutcome();
  engine_->OnSessionClosed(session_);
  ASSERT_THAT(engine_->OpenSession(core::AgentSessionId(9), kTerms, now_), IsOk());
  EXPECT_EQ(Commands<MoveFence>(TakeTurnOutcome()).at(0).fence_at, now_ + absl::Seconds(50));
}

// ---- Sessions -----------------------------------------------------------------------------------

TEST_F(AgentEngineTest, OpeningMessageListsAllKnownDispatches) {
  CreateEngine({.name = "a",
                .instance_id = "i2",
                .url = "grpc://h:1",
                .labels = {{"os", "linux"}},
                .lanes = {{"default", 2}}},
               {.accepted = {Token(1)}, .results = {{Token(2), kCompleted}}});
  EXPECT_EQ(opened_.name, "a");
  EXPECT_EQ(opened_.instance_id, "i2");
  EXPECT_EQ(opened_.url, "grpc://h:1");
  EXPECT_EQ(opened_.labels.at("os"), "linux");
  EXPECT_EQ(opened_.lanes.at("default").slots, 2u);
  EXPECT_EQ(opened_.agent_time, now_);
  EXPECT_THAT(opened_.lost, ElementsAre(Token(1))) << "accepted by the previous process";
  EXPECT_THAT(opened_.ended, ElementsAre(Token(2)));
  RunTask(3);
  EXPECT_THAT(Reopen().running, ElementsAre(Token(3)));
}

TEST_F(AgentEngineTest, LostRunIsNotStartedAgain) {
  CreateEngine({.name = "a", .instance_id = "i2"}, {.accepted = {Token(1)}});
  HandleStart(1);
  EXPECT_THAT(Answers(), ElementsAre("START_TOO_LATE"));
}

TEST_F(AgentEngineTest, OlderDirectorIsRejected) {
  EXPECT_THAT(engine_->OpenSession(core::AgentSessionId(5), {.director_epoch = 2}, now_),
              HasReason("SESSION_REPLACED"));
  EXPECT_TRUE(engine_->IsOpen(session_));
}

TEST_F(AgentEngineTest, MessagesFromAReplacedSessionAreIgnored) {
  ASSERT_THAT(engine_->OpenSession(core::AgentSessionId(5), kTerms, now_), IsOk());
  TakeTurnOutcome();
  HandleStart(1);
  engine_->OnSessionClosed(session_);
  EXPECT_TRUE(TakeTurnOutcome().empty());
  EXPECT_TRUE(engine_->IsOpen(core::AgentSessionId(5)));
}

TEST_F(AgentEngineTest, WithoutASessionResultsAreKept) {
  RunTask(1);
  engine_->OnSessionClosed(session_);
  engine_->OnEnded(Token(1), kCompleted);
  Advance(absl::Minutes(1));
  EXPECT_THAT(TakeTurnOutcome().messages, IsEmpty());
  EXPECT_THAT(Reopen().ended, ElementsAre(Token(1)));
}

TEST_F(AgentEngineTest, ResultsFollowTheOpeningMessageUntilAcknowledged) {
  CreateEngine({.name = "a", .instance_id = "i2"},
               {.results = {{Token(1), kCompleted}, {Token(2), {.result = "other"}}}});
  for (int session = 0; session < 2; ++session) {
    EXPECT_THAT(opened_.ended, ElementsAre(Token(1), Token(2)));
    ASSERT_EQ(results_.size(), 2u);
    EXPECT_EQ(results_[0].token, Token(1));
    EXPECT_EQ(results_[0].result, kCompleted);
    EXPECT_EQ(results_[1].result.result, "other");
    Reopen();
  }
  Handle(core::ResultAck{Token(1)});
  TakeTurnOutcome();
  EXPECT_THAT(Reopen().ended, ElementsAre(Token(2)));
  EXPECT_EQ(results_.size(), 1u);
}

// ---- The end ------------------------------------------------------------------------------------

TEST_F(AgentEngineTest, DrainingAgentAcceptsNothingAndReportsIt) {
  RunTask(1);
  engine_->BeginDrain();
  EXPECT_TRUE(Messages<core::LoadReport>(TakeTurnOutcome()).at(0).leaving);
  HandleStart(2);
  EXPECT_THAT(Answers(), ElementsAre("AGENT_BUSY"));
  EXPECT_TRUE(Reopen().leaving) << "from the opening message on";
  EXPECT_FALSE(engine_->is_idle());
  engine_->OnEnded(Token(1), kCompleted);
  EXPECT_FALSE(engine_->is_idle()) << "the result is not acknowledged yet";
  Handle(core::ResultAck{Token(1)});
  EXPECT_TRUE(engine_->is_idle());
}

TEST(JournalStateTest, ShortestRecordsReproduceTheState) {
  JournalState state;
  for (uint64_t task = 1; task <= 4; ++task) state.Apply(RunAccepted{Token(task)});
  state.Apply(ResultStored{Token(2), kCompleted});
  state.Apply(ResultStored{Token(3), kCompleted});
  state.Apply(RunForgotten{Token(3)});
  state.Apply(RunForgotten{Token(4)});
  EXPECT_THAT(state.accepted, ElementsAre(Token(1)));
  EXPECT_EQ(state.results.size(), 1u);
  JournalState rebuilt;
  for (const JournalRecord& record : state.Records()) rebuilt.Apply(record);
  EXPECT_EQ(rebuilt.accepted, state.accepted);
  EXPECT_EQ(rebuilt.results, state.results);
}

}  // namespace
}  // namespace callboard::agent
