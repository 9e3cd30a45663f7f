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

constexpr core::SessionId kSession(1);
const core::SessionTerms kTerms = {.director_epoch = 3,
                                   .lease = {.heartbeat = absl::Seconds(15),
                                             .self_fence = absl::Seconds(50),
                                             .redispatch_after = absl::Seconds(75),
                                             .kill_grace = absl::Seconds(10)}};

FenceToken Token(uint64_t task, uint64_t epoch = 3) {
  return {core::QueueId(core::Ulid(0, task)), core::DispatchNumber(1), epoch};
}

core::SpecPtr Spec(const std::string& lane = "") {
  core::TaskSpec spec;
  spec.prompt = "echo";
  spec.lane = lane;
  return std::make_shared<const core::TaskSpec>(std::move(spec));
}

// An agent with one slot, a Session and a clock, and what follows from what it hears.
class AgentEngineTest : public testing::Test {
 protected:
  AgentEngineTest() { Begin({.name = "agent-1", .instance_id = "i1"}); }

  void Begin(EngineOptions options, const Journaled& journal = {}) {
    engine_ = std::make_unique<AgentEngine>(std::move(options), journal);
    EXPECT_THAT(engine_->Open(kSession, kTerms, now_), IsOk());
    HearOpening();
  }
  // A Session breaks, and the next is opened.
  core::AgentOpened Reopen() {
    engine_->OnBroken(session_);
    session_ = core::SessionId(session_.value() + 1);
    EXPECT_THAT(engine_->Open(session_, kTerms, now_), IsOk());
    HearOpening();
    return opened_;
  }
  void HearOpening() {
    const Outcome outcome = Take();
    opened_ = std::get<core::AgentOpened>(outcome.words.at(0));
    results_ = Items<core::RunEnded>(outcome);
  }

  void Hear(core::DirectorItem item) { engine_->Hear(session_, std::move(item), now_); }
  void HearStart(uint64_t task, const std::string& lane = "") {
    Hear(core::StartRun{Token(task), Spec(lane), now_});
  }
  // The director has it that the task runs.
  void Runs(uint64_t task) {
    HearStart(task);
    EXPECT_THAT(Answers(), ElementsAre("OK"));
  }
  void Pass(absl::Duration time) {
    now_ += time;
    engine_->FireTimers(now_);
  }
  // The director acknowledges all heartbeats in the outcome.
  void Acknowledge(const Outcome& outcome) {
    for (const core::Heartbeat& beat : Items<core::Heartbeat>(outcome)) {
      engine_->Hear(session_, core::HeartbeatAcknowledged{beat.agent_time}, now_);
    }
  }

  Outcome Take() {
    engine_->EndTurn();
    return engine_->TakeOutcome();
  }
  template <class Item>
  static std::vector<Item> Items(const Outcome& outcome) {
    std::vector<Item> items;
    for (const core::AgentWord& word : outcome.words) {
      const auto* item = std::get_if<core::AgentItem>(&word);
      if (item != nullptr && std::holds_alternative<Item>(*item)) {
        items.push_back(std::get<Item>(*item));
      }
    }
    return items;
  }
  template <class Order>
  static std::vector<Order> Orders(const Outcome& outcome) {
    std::vector<Order> orders;
    for (const RunnerOrder& order : outcome.orders) {
      if (const auto* found = std::get_if<Order>(&order)) orders.push_back(*found);
    }
    return orders;
  }
  // How starts were answered since the last time: OK, or the reason.
  std::vector<std::string> Answers() {
    std::vector<std::string> answers;
    for (const core::StartAnswered& answered : Items<core::StartAnswered>(Take())) {
      answers.push_back(answered.answer.ok() ? "OK" : base::DetailsOf(answered.answer).reason);
    }
    return answers;
  }

  absl::Duration now_ = absl::Seconds(1000);
  core::SessionId session_ = kSession;
  std::unique_ptr<AgentEngine> engine_;
  // What was said at the last opening: it, and the results that followed.
  core::AgentOpened opened_;
  std::vector<core::RunEnded> results_;
};

const RunResult kDone = {.end = RunResult::End::kCompleted, .exit_code = 0, .result = "42"};
const RunResult kKilled = {.end = RunResult::End::kCancelled, .signal = "SIGTERM"};

// ---- Starts -------------------------------------------------------------------------------------

TEST_F(AgentEngineTest, StartIsJournaledThenRunThenAnswered) {
  HearStart(1);
  const Outcome outcome = Take();
  ASSERT_EQ(outcome.journal.size(), 1u);
  EXPECT_EQ(std::get<RunAccepted>(outcome.journal[0]).token, Token(1));
  const auto orders = Orders<ports::RunOrder>(outcome);
  ASSERT_EQ(orders.size(), 1u);
  EXPECT_EQ(orders[0].token, Token(1));
  EXPECT_EQ(orders[0].fence_at, now_ + absl::Seconds(50));
  EXPECT_EQ(orders[0].kill_grace, absl::Seconds(10));
  EXPECT_EQ(Items<core::StartAnswered>(outcome).size(), 1u);
  EXPECT_EQ(Items<core::LoadReported>(outcome).at(0).lanes.at("default").used, 1u);
}

TEST_F(AgentEngineTest, RunThatIsOverInTheTurnOfItsStartLeavesTheLoadUnsaid) {
  HearStart(1);
  engine_->OnEnded(Token(1), kDone);
  const Outcome outcome = Take();
  EXPECT_EQ(Items<core::StartAnswered>(outcome).size(), 1u);
  EXPECT_EQ(Items<core::RunEnded>(outcome).size(), 1u);
  EXPECT_THAT(Items<core::LoadReported>(outcome), IsEmpty());
}

TEST_F(AgentEngineTest, OneMoreThanTheLaneHoldsIsBusyAndTheLoadIsSaidWithIt) {
  Runs(1);
  HearStart(2);
  const Outcome outcome = Take();
  EXPECT_THAT(Items<core::StartAnswered>(outcome).at(0).answer, HasReason("AGENT_BUSY"));
  EXPECT_EQ(Items<core::LoadReported>(outcome).size(), 1u);
  EXPECT_THAT(outcome.orders, IsEmpty());
}

TEST_F(AgentEngineTest, LanesAreFilledSeparately) {
  Begin({.name = "a", .instance_id = "i", .lanes = {{"default", 1}, {"big", 2}}});
  HearStart(1);
  HearStart(2, "big");
  HearStart(3, "big");
  HearStart(4, "big");
  HearStart(5, "gpu");
  EXPECT_THAT(Answers(), ElementsAre("OK", "OK", "OK", "AGENT_BUSY", "AGENT_BUSY"));
}

TEST_F(AgentEngineTest, EveryCopyOfAStartIsAnsweredAsTheFirst) {
  HearStart(1);
  HearStart(1);
  HearStart(2);
  HearStart(2);
  const Outcome outcome = Take();
  EXPECT_EQ(Orders<ports::RunOrder>(outcome).size(), 1u);
  const auto answers = Items<core::StartAnswered>(outcome);
  ASSERT_EQ(answers.size(), 4u);
  EXPECT_THAT(answers[1].answer, IsOk());
  engine_->OnEnded(Token(1), kDone);
  Take();
  HearStart(2);
  EXPECT_THAT(Answers(), ElementsAre("AGENT_BUSY")) << "although there is a slot now";
}

TEST_F(AgentEngineTest, CopyOfAStartWhoseRunIsOverGetsTheResult) {
  Runs(1);
  engine_->OnEnded(Token(1), kDone);
  Take();
  HearStart(1);
  const Outcome outcome = Take();
  EXPECT_THAT(Items<core::StartAnswered>(outcome).at(0).answer, IsOk());
  EXPECT_EQ(Items<core::RunEnded>(outcome).at(0).result, kDone);
  EXPECT_THAT(outcome.orders, IsEmpty());
}

TEST_F(AgentEngineTest, ItemThatItDoesNotKnowIsIgnoredAndCounted) {
  engine_->Hear(kSession, core::UnknownItem(), now_);
  EXPECT_EQ(engine_->unknown_items(), 1u);
}

TEST_F(AgentEngineTest, CopyOfAStartWhoseRunIsSettledIsNotBegunAgain) {
  Runs(1);
  engine_->OnEnded(Token(1), kDone);
  Hear(core::ResultAcknowledged{Token(1)});
  Take();
  Runs(2);
  Hear(core::FencedOff{Token(2)});
  engine_->OnEnded(Token(2), kKilled);
  Take();
  HearStart(1);
  HearStart(2);
  EXPECT_THAT(Answers(), ElementsAre("START_TOO_LATE", "START_TOO_LATE"));
  EXPECT_THAT(engine_->Running(), IsEmpty());
}

TEST_F(AgentEngineTest, StartThatArrivesAfterItsLeaseIsRefused) {
  const absl::Duration sent = now_;
  Pass(absl::Seconds(51));
  Take();
  Hear(core::StartRun{Token(1), Spec(), sent});
  EXPECT_THAT(Answers(), ElementsAre("START_TOO_LATE"));
}

TEST_F(AgentEngineTest, TaskThatCannotBeRunIsRefusedWithTheRunnersReason) {
  Begin({.name = "a", .instance_id = "i", .check = [](const core::TaskSpec&) {
           return base::WithReason(absl::FailedPreconditionError("no shell"), "SHELL_DISABLED");
         }});
  HearStart(1);
  EXPECT_THAT(Answers(), ElementsAre("SHELL_DISABLED"));
}

TEST_F(AgentEngineTest, RefusalsAreForgottenAfterTheLeaseCanNoLongerBeTheirs) {
  Runs(1);
  HearStart(2);
  EXPECT_THAT(Answers(), ElementsAre("AGENT_BUSY"));
  engine_->OnEnded(Token(1), kDone);
  Pass(absl::Seconds(75));
  Take();
  HearStart(2);
  EXPECT_THAT(Answers(), ElementsAre("OK"));
}

// ---- Results ------------------------------------------------------------------------------------

TEST_F(AgentEngineTest, ResultIsJournaledAndSaidUntilItIsAcknowledged) {
  Runs(1);
  engine_->OnEnded(Token(1), kDone);
  const Outcome outcome = Take();
  EXPECT_EQ(std::get<ResultKept>(outcome.journal.at(0)).result, kDone);
  EXPECT_EQ(Items<core::RunEnded>(outcome).size(), 1u);
  EXPECT_EQ(Items<core::LoadReported>(outcome).at(0).lanes.at("default").used, 0u);
  Pass(absl::Seconds(15));
  EXPECT_EQ(Items<core::RunEnded>(Take()).size(), 1u) << "with every heartbeat";
  Hear(core::ResultAcknowledged{Token(1)});
  EXPECT_EQ(std::get<RunForgotten>(Take().journal.at(0)).token, Token(1));
  Pass(absl::Seconds(15));
  EXPECT_THAT(Items<core::RunEnded>(Take()), IsEmpty());
}

TEST_F(AgentEngineTest, CancelledRunIsStoppedAndReported) {
  Runs(1);
  Hear(core::CancelRun{Token(1)});
  Hear(core::CancelRun{Token(1)});
  EXPECT_EQ(Orders<StopRun>(Take()).size(), 1u);
  engine_->OnEnded(Token(1), kKilled);
  EXPECT_EQ(Items<core::RunEnded>(Take()).at(0).result, kKilled);
}

TEST_F(AgentEngineTest, CancelOfAnUnknownDispatchIsConfirmedAndItsStartRefusedFromThenOn) {
  Hear(core::CancelRun{Token(1)});
  EXPECT_EQ(Items<core::RunEnded>(Take()).at(0).result.end, RunResult::End::kCancelled);
  HearStart(1);
  const Outcome outcome = Take();
  EXPECT_FALSE(Items<core::StartAnswered>(outcome).at(0).answer.ok());
  EXPECT_THAT(outcome.orders, IsEmpty());
}

TEST_F(AgentEngineTest, CancelAfterTheEndIsAnsweredWithTheResult) {
  Runs(1);
  engine_->OnEnded(Token(1), kDone);
  Take();
  Hear(core::CancelRun{Token(1)});
  EXPECT_EQ(Items<core::RunEnded>(Take()).at(0).result, kDone);
}

TEST_F(AgentEngineTest, FencedRunIsKilledAndNothingIsToldOfIt) {
  Runs(1);
  Hear(core::FencedOff{Token(1)});
  EXPECT_EQ(Orders<StopRun>(Take()).size(), 1u);
  engine_->OnEnded(Token(1), kDone);
  const Outcome outcome = Take();
  EXPECT_THAT(Items<core::RunEnded>(outcome), IsEmpty());
  EXPECT_EQ(std::get<RunForgotten>(outcome.journal.at(0)).token, Token(1));
  EXPECT_THAT(Reopen().running, IsEmpty());
}

// ---- Leases -------------------------------------------------------------------------------------

TEST_F(AgentEngineTest, AcknowledgedHeartbeatMovesTheFenceOfWhatItLists) {
  Runs(1);
  Pass(absl::Seconds(15));
  const Outcome beat = Take();
  ASSERT_EQ(Items<core::Heartbeat>(beat).size(), 1u);
  EXPECT_THAT(Items<core::Heartbeat>(beat)[0].running, ElementsAre(Token(1)));
  const absl::Duration sent = now_;
  now_ += absl::Seconds(3);
  Acknowledge(beat);
  const auto moved = Orders<MoveFence>(Take());
  ASSERT_EQ(moved.size(), 1u);
  EXPECT_EQ(moved[0].fence_at, sent + absl::Seconds(50)) << "from when it was sent, not heard";
}

TEST_F(AgentEngineTest, RunsAreRenewedBySessionsThatAreTooShortForABeat) {
  Runs(1);
  absl::Duration fence_at = now_ + absl::Seconds(50);
  for (int i = 0; i < 20; ++i) {
    Pass(absl::Seconds(4));
    Reopen();
    engine_->FireTimers(now_);
    Acknowledge(Take());
    const auto moved = Orders<MoveFence>(Take());
    ASSERT_EQ(moved.size(), 1u);
    EXPECT_GT(moved[0].fence_at, fence_at);
    fence_at = moved[0].fence_at;
  }
  EXPECT_EQ(fence_at, now_ + absl::Seconds(50));
}

TEST_F(AgentEngineTest, SessionOfAnAgentThatRunsNothingBeginsWithoutAHeartbeat) {
  Reopen();
  engine_->FireTimers(now_);
  EXPECT_THAT(Items<core::Heartbeat>(Take()), IsEmpty());
}

TEST_F(AgentEngineTest, HeartbeatRenewsNothingThatItDidNotList) {
  Pass(absl::Seconds(15));
  const Outcome beat = Take();
  Runs(1);
  Acknowledge(beat);
  EXPECT_THAT(Orders<MoveFence>(Take()), IsEmpty());
}

TEST_F(AgentEngineTest, RunThatNobodyAskedToEndIsToldOfAtOnceAndLost) {
  Runs(1);
  engine_->OnEnded(Token(1), kKilled);
  EXPECT_EQ(engine_->UntilNextTimer(now_), absl::ZeroDuration());
  Pass(absl::ZeroDuration());
  EXPECT_EQ(Items<core::RunEnded>(Take()).at(0).result, kKilled);
  EXPECT_FALSE(engine_->is_idle()) << "it is not acknowledged";
  Hear(core::ResultAcknowledged{Token(1)});
  EXPECT_TRUE(engine_->is_idle());
  EXPECT_EQ(std::get<RunForgotten>(Take().journal.at(0)).token, Token(1));
  EXPECT_THAT(Reopen().lost, IsEmpty());
}

TEST_F(AgentEngineTest, RunThatItsFenceEndedIsLostAndHasNoResult) {
  Runs(1);
  now_ += absl::Seconds(50);
  engine_->OnEnded(Token(1), kKilled);
  Pass(absl::ZeroDuration());
  EXPECT_THAT(Items<core::RunEnded>(Take()), IsEmpty()) << "it may run elsewhere";
  const core::AgentOpened opened = Reopen();
  EXPECT_THAT(opened.lost, ElementsAre(Token(1)));
  EXPECT_THAT(opened.ended, IsEmpty());
  Hear(core::FencedOff{Token(1)});
  EXPECT_EQ(std::get<RunForgotten>(Take().journal.at(0)).token, Token(1));
}

TEST_F(AgentEngineTest, ResultIsCutToItsEndAndSaysSo) {
  Runs(1);
  RunResult large = kDone;
  large.result = std::string(core::kMessageBytesMax, 'x') + "end";
  large.error = std::string(core::kErrorBytesMax - 1, 'x') + "\xc3\xa4";
  engine_->OnEnded(Token(1), large);
  const Outcome outcome = Take();
  const RunResult said = Items<core::RunEnded>(outcome).at(0).result;
  EXPECT_EQ(said.result.size(), core::kResultBytesMax);
  EXPECT_TRUE(said.result.ends_with("xend"));
  EXPECT_TRUE(said.result_truncated);
  EXPECT_EQ(said.error.size(), core::kErrorBytesMax - 1) << "no part of a character";
  EXPECT_EQ(std::get<ResultKept>(outcome.journal.at(0)).result, said);
}

TEST_F(AgentEngineTest, AnnouncedRestartMovesFencesAndTheNextOpeningTakesThemBack) {
  Runs(1);
  Hear(core::GoingAway{absl::Minutes(5)});
  EXPECT_EQ(Orders<MoveFence>(Take()).at(0).fence_at, now_ + absl::Seconds(50) + absl::Minutes(5));
  Pass(absl::Minutes(1));
  Take();
  engine_->OnBroken(session_);
  ASSERT_THAT(engine_->Open(core::SessionId(9), kTerms, now_), IsOk());
  EXPECT_EQ(Orders<MoveFence>(Take()).at(0).fence_at, now_ + absl::Seconds(50));
}

// ---- Sessions -----------------------------------------------------------------------------------

TEST_F(AgentEngineTest, OpeningTellsEverythingThatIsKnown) {
  Begin({.name = "a",
         .instance_id = "i2",
         .url = "grpc://h:1",
         .labels = {{"os", "linux"}},
         .lanes = {{"default", 2}}},
        {.accepted = {Token(1)}, .results = {{Token(2), kDone}}});
  EXPECT_EQ(opened_.name, "a");
  EXPECT_EQ(opened_.instance_id, "i2");
  EXPECT_EQ(opened_.url, "grpc://h:1");
  EXPECT_EQ(opened_.labels.at("os"), "linux");
  EXPECT_EQ(opened_.lanes.at("default").slots, 2u);
  EXPECT_EQ(opened_.agent_time, now_);
  EXPECT_THAT(opened_.lost, ElementsAre(Token(1))) << "of the life before";
  EXPECT_THAT(opened_.ended, ElementsAre(Token(2)));
  Runs(3);
  EXPECT_THAT(Reopen().running, ElementsAre(Token(3)));
}

TEST_F(AgentEngineTest, WhatIsLostIsNotBegunAgain) {
  Begin({.name = "a", .instance_id = "i2"}, {.accepted = {Token(1)}});
  HearStart(1);
  EXPECT_THAT(Answers(), ElementsAre("START_TOO_LATE"));
}

TEST_F(AgentEngineTest, OlderDirectorIsNotServed) {
  EXPECT_THAT(engine_->Open(core::SessionId(5), {.director_epoch = 2}, now_),
              HasReason("SESSION_REPLACED"));
  EXPECT_TRUE(engine_->IsOpen(session_));
}

TEST_F(AgentEngineTest, NewerSessionReplacesTheOneBeforeWhichIsNotHeardAnyMore) {
  ASSERT_THAT(engine_->Open(core::SessionId(5), kTerms, now_), IsOk());
  Take();
  HearStart(1);
  engine_->OnBroken(session_);
  EXPECT_TRUE(Take().empty());
  EXPECT_TRUE(engine_->IsOpen(core::SessionId(5)));
}

TEST_F(AgentEngineTest, WithoutASessionNothingIsSaidAndNothingIsLost) {
  Runs(1);
  engine_->OnBroken(session_);
  engine_->OnEnded(Token(1), kDone);
  Pass(absl::Minutes(1));
  EXPECT_THAT(Take().words, IsEmpty());
  EXPECT_THAT(Reopen().ended, ElementsAre(Token(1)));
}

TEST_F(AgentEngineTest, OpeningNamesResultsAndEachFollowsUntilItIsAcknowledged) {
  Begin({.name = "a", .instance_id = "i2"},
        {.results = {{Token(1), kDone}, {Token(2), {.result = "other"}}}});
  for (int session = 0; session < 2; ++session) {
    EXPECT_THAT(opened_.ended, ElementsAre(Token(1), Token(2)));
    ASSERT_EQ(results_.size(), 2u);
    EXPECT_EQ(results_[0].token, Token(1));
    EXPECT_EQ(results_[0].result, kDone);
    EXPECT_EQ(results_[1].result.result, "other");
    Reopen();
  }
  Hear(core::ResultAcknowledged{Token(1)});
  Take();
  EXPECT_THAT(Reopen().ended, ElementsAre(Token(2)));
  EXPECT_EQ(results_.size(), 1u);
}

// ---- The end ------------------------------------------------------------------------------------

TEST_F(AgentEngineTest, DrainingAgentTakesNothingMoreAndSaysSo) {
  Runs(1);
  engine_->BeginDrain();
  EXPECT_TRUE(Items<core::LoadReported>(Take()).at(0).leaving);
  HearStart(2);
  EXPECT_THAT(Answers(), ElementsAre("AGENT_BUSY"));
  EXPECT_TRUE(Reopen().leaving) << "before anything else is";
  EXPECT_FALSE(engine_->is_idle());
  engine_->OnEnded(Token(1), kDone);
  EXPECT_FALSE(engine_->is_idle()) << "the result is not acknowledged yet";
  Hear(core::ResultAcknowledged{Token(1)});
  EXPECT_TRUE(engine_->is_idle());
}

TEST(JournaledTest, RecordsAddUpAndTheFewestAddUpToTheSame) {
  Journaled journaled;
  for (uint64_t task = 1; task <= 4; ++task) journaled.Apply(RunAccepted{Token(task)});
  journaled.Apply(ResultKept{Token(2), kDone});
  journaled.Apply(ResultKept{Token(3), kDone});
  journaled.Apply(RunForgotten{Token(3)});
  journaled.Apply(RunForgotten{Token(4)});
  EXPECT_THAT(journaled.accepted, ElementsAre(Token(1)));
  EXPECT_EQ(journaled.results.size(), 1u);
  Journaled again;
  for (const JournalRecord& record : journaled.Records()) again.Apply(record);
  EXPECT_EQ(again.accepted, journaled.accepted);
  EXPECT_EQ(again.results, journaled.results);
}

}  // namespace
}  // namespace callboard::agent
