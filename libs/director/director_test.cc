#include "libs/director/director.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libs/testing/fake_agent_link.h"
#include "libs/testing/fake_clock.h"
#include "libs/testing/fake_random.h"
#include "libs/testing/faulty_event_stores.h"
#include "libs/testing/status_matchers.h"

namespace callboard::director {
namespace {

using test::HasReason;
using test::IsOk;
using test::StatusIs;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;
using Fate = test::FaultyEventStores::Fate;

const Fate kFails = {absl::InternalError("I/O error"), /*written=*/false};
const Fate kFailsButWrote = {absl::InternalError("I/O error"), /*written=*/true};
const Fate kDiskIsFull = {absl::ResourceExhaustedError("no space left"), /*written=*/false};

// A director on a store that does what the test says, and callers whose answers it keeps.
class DirectorTest : public testing::Test {
 protected:
  DirectorTest() { EXPECT_THAT(director_.Open(), IsOk()); }

  // A submit that waits for its place when there is none.
  CommandPtr Submit(uint64_t call, const std::string& prompt = "echo") {
    core::Submission submission;
    submission.spec.prompt = prompt;
    submission.policy = core::QueuePolicy::kBlock;
    return SubmitCommand(CallId(call), "me", std::move(submission), clock_.WallNow(),
                         [this, call](const Decision& decision) {
                           EXPECT_FALSE(answers_.contains(call)) << "answered twice";
                           answers_[call] = decision;
                         });
  }
  CommandPtr GetStatus() {
    return CallCommand<core::QueueStatus>(
        Command::Need::kRead, [](DirectorEngine& engine, Moment now) { return engine.Status(now); },
        [this](absl::StatusOr<core::QueueStatus> status) { status_ = std::move(status); });
  }
  CommandPtr Open(uint64_t session) {
    core::AgentOpened opened = {.name = "a", .instance_id = "a/1", .url = "grpc://a"};
    opened.lanes = {{"default", {.slots = 1, .used = 0}}};
    return AgentCommand([session, opened](DirectorEngine& engine, Moment now) {
      CHECK_OK(engine.OnOpened(core::SessionId(session), opened, now));
    });
  }
  CommandPtr Say(uint64_t session, core::AgentItem item) {
    return AgentCommand([session, item](DirectorEngine& engine, Moment now) {
      engine.OnItems(core::SessionId(session), {item}, now);
    });
  }
  template <class... Commands>
  static std::vector<CommandPtr> Together(Commands... commands) {
    std::vector<CommandPtr> together;
    (together.push_back(std::move(commands)), ...);
    return together;
  }
  template <class... Commands>
  void Turn(Commands... commands) {
    director_.RunTurn(Together(std::move(commands)...));
  }
  template <class... Commands>
  void Decide(Commands... commands) {
    std::vector<CommandPtr> together = Together(std::move(commands)...);
    director_.Decide(absl::MakeSpan(together), director_.Now());
  }
  absl::Status ErrorOf(uint64_t call) { return std::get<absl::Status>(answers_.at(call)); }
  bool IsAccepted(uint64_t call) {
    return answers_.contains(call) && std::holds_alternative<Submitted>(answers_.at(call));
  }

  class Heard final : public Observer {
   public:
    void OnService(Service service, const absl::Status& why) override {
      services.emplace_back(service, std::string(why.message()));
    }
    void OnCommit(size_t records, absl::Duration) override { batches.push_back(records); }
    void OnTurn(absl::Span<const core::Record> records,
                absl::Span<const TaskStep> of_turn) override {
      for (const TaskStep& step : of_turn) {
        const auto& record = std::get<core::TaskRecord>(records[step.record]);
        steps.emplace_back(record.event.kind, step);
      }
    }
    void OnOrphans(absl::Span<const OrphanResult> found) override { orphans += found.size(); }
    void OnCancel(const CancelledTask& task) override { cancels.push_back(task.phase); }
    void OnStateChange(const QueueLevels& now) override { levels = now; }
    void OnAgents(const AgentCounts& counts) override { agents.push_back(counts); }
    std::vector<std::pair<Service, std::string>> services;
    std::vector<size_t> batches;
    std::vector<std::pair<core::TaskEventKind, TaskStep>> steps;
    size_t orphans = 0;
    std::vector<CancelPhase> cancels;
    QueueLevels levels;
    std::vector<AgentCounts> agents;
  };

  test::FakeClock clock_;
  test::FakeRandom random_;
  Heard heard_;
  Fate fate_;
  size_t commits_ = 0;
  // What was said by the time of the last commit.
  size_t answers_at_commit_ = 0;
  size_t said_at_commit_ = 0;
  test::FakeAgentLink link_;
  test::FaultyEventStores stores_{[this] {
    ++commits_;
    answers_at_commit_ = answers_.size();
    said_at_commit_ = link_.TakeSaid().size();
    return fate_;
  }};
  std::map<uint64_t, Decision> answers_;
  absl::StatusOr<core::QueueStatus> status_ = absl::UnknownError("not asked yet");
  Director director_{{.queue = {.max_size = 1}}, {clock_, random_, stores_, link_, &heard_}};
};

TEST_F(DirectorTest, NobodyHearsOfATurnBeforeItIsOnDisk) {
  Turn(Open(1), Submit(1));
  EXPECT_EQ(answers_at_commit_, 0u);
  EXPECT_EQ(said_at_commit_, 0u);
  EXPECT_TRUE(IsAccepted(1));
  EXPECT_THAT(link_.TakeSaid(), SizeIs(1));
}

TEST_F(DirectorTest, TurnIsOneCommit) {
  Turn(Open(1));
  const size_t before = commits_;
  Turn(Submit(1), Submit(2));
  EXPECT_EQ(commits_ - before, 1u);
}

TEST_F(DirectorTest, HeartbeatNeedsNoCommit) {
  Turn(Open(1));
  const size_t before = commits_;
  Turn(Say(1, core::Heartbeat{absl::Seconds(1), {}}));
  EXPECT_EQ(commits_, before);
}

TEST_F(DirectorTest, LeaseIsRenewedByWhatArrivedBeforeItIsFoundToHaveEnded) {
  Turn(Open(1), Submit(1));
  const core::FenceToken token = std::get<core::StartRun>(link_.TakeSaid().front().item).token;
  Turn(Say(1, core::StartAnswered{token, absl::OkStatus()}));
  // The disk was slow: the lease ended long ago, and a heartbeat waits.
  clock_.Advance(absl::Minutes(2));
  Turn(Say(1, core::Heartbeat{absl::Minutes(2), {token}}));
  EXPECT_EQ(director_.engine()->Look(token.queue_id)->state, core::TaskState::kWorking);
}

TEST_F(DirectorTest, OutcomeOfAFailedCommitIsUnknownToItsCallers) {
  fate_ = kFails;
  Turn(Submit(1), GetStatus());
  EXPECT_THAT(ErrorOf(1), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(ErrorOf(1), HasReason("OUTCOME_UNKNOWN"));
  EXPECT_THAT(status_, HasReason("OUTCOME_UNKNOWN"));
}

TEST_F(DirectorTest, NothingIsSaidToAgentsOfAFailedCommit) {
  Turn(Open(1));
  fate_ = kFails;
  Turn(Submit(1));
  EXPECT_THAT(link_.TakeSaid(), IsEmpty());
}

TEST_F(DirectorTest, WaitersEndWithAFailedCommit) {
  Turn(Submit(1), Submit(2));
  ASSERT_FALSE(answers_.contains(2));
  fate_ = kFails;
  Turn(Submit(3), AgentCommand([](auto& engine, auto now) { engine.Pause("me", "", now); }));
  EXPECT_THAT(ErrorOf(2), HasReason("STORE_UNAVAILABLE"));
  EXPECT_THAT(ErrorOf(3), HasReason("STORE_UNAVAILABLE"));
}

TEST_F(DirectorTest, WaiterThatWasLetInByAFailedCommitDoesNotKnowEither) {
  Turn(Submit(1), Submit(2));
  fate_ = kFails;
  Turn(Open(1));
  EXPECT_THAT(ErrorOf(2), HasReason("OUTCOME_UNKNOWN"));
}

TEST_F(DirectorTest, ReopenedStoreIsARestart) {
  Turn(Open(1), Submit(1));
  const uint64_t epoch = director_.engine()->epoch();
  fate_ = kFailsButWrote;
  Turn(Submit(2));
  // The new epoch could not be written either.
  EXPECT_NE(director_.service(), Service::kFull);
  fate_ = {};
  clock_.Advance(absl::Seconds(1));
  Turn();
  EXPECT_EQ(director_.service(), Service::kFull);
  EXPECT_GT(director_.engine()->epoch(), epoch);
  EXPECT_THAT(link_.epochs(), ElementsAre(epoch, director_.engine()->epoch()));
  // What was written is there, although its caller could not be told.
  EXPECT_EQ(director_.engine()->Status({clock_.WallNow(), clock_.MonotonicNow()}).counts.pending,
            1u);
  EXPECT_FALSE(director_.engine()->fleet().agents().at("a").is_connected());
}

TEST_F(DirectorTest, WithoutAStoreNothingIsServedAndTheProcessGoesOn) {
  fate_ = kFails;
  stores_.FailToOpen(absl::InternalError("I/O error"));
  Turn(Submit(1));
  Turn(Submit(2), GetStatus());
  EXPECT_THAT(ErrorOf(2), HasReason("STORE_UNAVAILABLE"));
  EXPECT_THAT(status_, HasReason("STORE_UNAVAILABLE"));
  EXPECT_EQ(director_.NextTurnAt(), clock_.MonotonicNow() + absl::Seconds(1));
}

TEST_F(DirectorTest, FullDiskLeavesReadsAndEndsByItself) {
  Turn(Open(1), Submit(1));
  link_.TakeSaid();
  fate_ = kDiskIsFull;
  Turn(Submit(2));
  EXPECT_THAT(ErrorOf(2), HasReason("OUTCOME_UNKNOWN"));
  Turn(Submit(3), GetStatus());
  EXPECT_THAT(ErrorOf(3), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(ErrorOf(3), HasReason("STORE_FULL"));
  ASSERT_THAT(status_, IsOk());
  EXPECT_EQ(status_->counts.dispatching, 1u);
  clock_.Advance(absl::Seconds(1));
  Turn(Submit(4));
  EXPECT_THAT(ErrorOf(4), HasReason("STORE_FULL"));
  fate_ = {};
  clock_.Advance(absl::Seconds(1));
  Turn(Submit(5));
  EXPECT_TRUE(IsAccepted(5));
}

TEST_F(DirectorTest, ObserverHearsOfEveryBatchAndOfWhatIsServed) {
  Turn(Open(1), Submit(1));
  EXPECT_THAT(heard_.batches, ElementsAre(1, 2)) << "an epoch; a task that is admitted and sent";
  fate_ = kDiskIsFull;
  Turn(Submit(2));
  fate_ = kFails;
  clock_.Advance(absl::Seconds(1));
  Turn();
  fate_ = {};
  clock_.Advance(absl::Seconds(1));
  Turn();
  EXPECT_THAT(heard_.services,
              ElementsAre(Pair(Service::kFull, ""), Pair(Service::kNone, "no space left"),
                          Pair(Service::kReadOnly, "no space left"),
                          Pair(Service::kNone, "I/O error"), Pair(Service::kFull, "")));
  EXPECT_THAT(heard_.batches, ElementsAre(1, 2, 1)) << "what failed is none";
}

TEST_F(DirectorTest, ObserverHearsWhatHappenedToTasksAndWhereTheyStoodBefore) {
  const absl::Time submitted = clock_.WallNow();
  Turn(Submit(1));
  clock_.Advance(absl::Seconds(2));
  Turn(Open(1));
  const core::FenceToken token = std::get<core::StartRun>(link_.TakeSaid().front().item).token;
  clock_.Advance(absl::Seconds(3));
  Turn(Say(1, core::StartAnswered{token, absl::UnavailableError("down")}));
  std::vector<core::TaskEventKind> kinds;
  for (const auto& [kind, step] : heard_.steps) kinds.push_back(kind);
  ASSERT_THAT(kinds, ElementsAre(core::TaskEventKind::kAdmitted, core::TaskEventKind::kDispatching,
                                 core::TaskEventKind::kRetry));
  EXPECT_EQ(heard_.steps[0].second.submitted_at, submitted);
  EXPECT_EQ(heard_.steps[0].second.max_attempts, 3u);
  EXPECT_EQ(heard_.steps[1].second.from, core::TaskState::kPending);
  EXPECT_EQ(heard_.steps[1].second.since, submitted);
  EXPECT_EQ(heard_.steps[1].second.submitted_at, submitted);
  EXPECT_EQ(heard_.steps[2].second.from, core::TaskState::kDispatching);
  EXPECT_EQ(heard_.steps[2].second.since, submitted + absl::Seconds(2));
  EXPECT_EQ(heard_.steps[2].second.attempts, 0u);
  EXPECT_EQ(heard_.steps[2].second.max_attempts, 3u);
  Turn(Say(1, core::RunEnded{{core::QueueId(core::Ulid(0, 1)), token.dispatch, 1}, {}}));
  EXPECT_EQ(heard_.orphans, 1u) << "of a task that nobody knows";
}

TEST_F(DirectorTest, ObserverHearsNothingOfATurnThatIsNotOnDisk) {
  fate_ = kFails;
  Turn(Submit(1));
  EXPECT_THAT(heard_.steps, IsEmpty());
}

TEST_F(DirectorTest, ObserverSeesHowFullTheQueueIsWithEveryTurn) {
  const absl::Time accepted = clock_.WallNow();
  Turn(Submit(1), Submit(2));
  const QueueLevels full = {.pending = 1, .waiting = 1, .max_size = 1, .oldest = accepted};
  EXPECT_EQ(heard_.levels, full);
  Turn(Open(1));
  const QueueLevels running = {.pending = 1, .in_flight = 1, .max_size = 1, .oldest = accepted};
  EXPECT_EQ(heard_.levels, running);
}

TEST_F(DirectorTest, ObserverSeesWhoWaitsAlsoWithoutATurn) {
  Turn(Submit(1));
  Decide(Submit(2));
  EXPECT_FALSE(director_.has_turn());
  EXPECT_EQ(heard_.levels.waiting, 1u);
}

TEST_F(DirectorTest, ObserverSeesTheAgentsOnceASecondAlsoWhenNothingHappens) {
  Turn(Open(1));
  Turn(Submit(1));
  EXPECT_THAT(heard_.agents, SizeIs(1));
  EXPECT_LE(director_.NextTurnAt(), clock_.MonotonicNow() + absl::Seconds(1));
  clock_.Advance(absl::Seconds(1));
  Turn();
  EXPECT_THAT(heard_.agents.back(), ElementsAre(Pair(AgentState::kBusy, 1u)));
  EXPECT_THAT(heard_.agents, SizeIs(2));
}

TEST_F(DirectorTest, WhatIsDueNextIsDueWhenItWasHoweverLateOneAsks) {
  Turn(Open(1), Submit(1));
  const absl::Duration due = director_.NextTurnAt();
  clock_.Advance(absl::Milliseconds(300));
  EXPECT_EQ(director_.NextTurnAt(), due);
}

TEST_F(DirectorTest, ResultsAreNotAcknowledgedWhileTheDiskIsFull) {
  Turn(Open(1), Submit(1));
  const core::FenceToken token = std::get<core::StartRun>(link_.TakeSaid().front().item).token;
  fate_ = kDiskIsFull;
  Turn(Say(1, core::RunEnded{token, {}}));
  Turn(Say(1, core::RunEnded{token, {}}));
  EXPECT_THAT(link_.TakeSaid(), IsEmpty());
  EXPECT_EQ(director_.engine()->Look(token.queue_id)->state, core::TaskState::kDispatching);
}

TEST_F(DirectorTest, ShutdownOutlivesAReopenedStore) {
  director_.BeginShutdown(director_.Now());
  Turn(Submit(1));
  EXPECT_THAT(ErrorOf(1), HasReason("QUEUE_DRAINING"));
  fate_ = kFails;
  Turn(AgentCommand([](auto& engine, auto now) { engine.Pause("me", "", now); }));
  fate_ = {};
  clock_.Advance(absl::Seconds(1));
  Turn(Submit(2));
  EXPECT_THAT(ErrorOf(2), HasReason("QUEUE_DRAINING"));
}

TEST_F(DirectorTest, WhatIsDecidedDuringACommitIsSaidAfterItsOwn) {
  Decide(Submit(1));
  director::Turn first = director_.TakeTurn();
  Decide(Open(1), GetStatus());
  ASSERT_THAT(director_.Commit(first), IsOk());
  ASSERT_THAT(director_.Say(std::move(first)), IsOk());
  EXPECT_TRUE(IsAccepted(1));
  EXPECT_FALSE(status_.ok()) << "a read shows what is not on disk yet, and waits for it";
  EXPECT_THAT(link_.TakeSaid(), IsEmpty());
  director::Turn second = director_.TakeTurn();
  ASSERT_THAT(director_.Commit(second), IsOk());
  ASSERT_THAT(director_.Say(std::move(second)), IsOk());
  EXPECT_EQ(status_->counts.dispatching, 1u);
  EXPECT_THAT(link_.TakeSaid(), SizeIs(1));
}

TEST_F(DirectorTest, WhatRestsOnAFailedCommitIsNotDone) {
  Decide(Submit(1));
  const director::Turn first = director_.TakeTurn();
  Decide(Open(1), GetStatus());
  fate_ = kFails;
  const absl::Status failure = director_.Commit(first);
  fate_ = {};
  director_.Fail(first, failure);
  EXPECT_THAT(ErrorOf(1), HasReason("OUTCOME_UNKNOWN"));
  EXPECT_THAT(status_, HasReason("STORE_UNAVAILABLE"));
  EXPECT_FALSE(director_.has_turn());
  EXPECT_THAT(director_.engine()->book().line(), IsEmpty());
  EXPECT_THAT(link_.TakeSaid(), IsEmpty());
}

TEST_F(DirectorTest, StartHasItsSpecAlsoWhenThatIsOnDiskOnly) {
  Turn(Submit(1, std::string(20 << 20, 'x')));
  const core::QueueId task = std::get<Submitted>(answers_.at(1)).queue_id;
  ASSERT_EQ(director_.engine()->book().Find(task)->spec, nullptr) << "more than is kept in memory";
  Turn(Open(1));
  const auto said = link_.TakeSaid();
  ASSERT_THAT(said, SizeIs(1));
  EXPECT_EQ(std::get<core::StartRun>(said[0].item).spec->prompt.size(), 20u << 20);
}

TEST_F(DirectorTest, OthersSeeTheStoreOnlyWhileItIsOpen) {
  std::vector<bool> seen;
  director_.OnStore([&](const ports::EventStore* store) { seen.push_back(store != nullptr); });
  fate_ = kFails;
  Turn(Submit(1));
  fate_ = {};
  clock_.Advance(absl::Seconds(1));
  Turn();
  EXPECT_TRUE(seen.front());
  EXPECT_TRUE(seen.back());
  EXPECT_THAT(seen, testing::Contains(false));
  director_.OnStore([](const ports::EventStore*) {});
}

TEST_F(DirectorTest, CallerWhoLeavesWhileItWaitsLeavesNothingBehind) {
  Turn(Submit(1), Submit(2), Submit(3));
  Turn(LeaveCommand(CallId(2)));
  EXPECT_THAT(ErrorOf(2), StatusIs(absl::StatusCode::kCancelled));
  Turn(Open(1));
  EXPECT_TRUE(IsAccepted(3));
  EXPECT_THAT(director_.engine()->book().line(), SizeIs(2));
}

TEST_F(DirectorTest, CallerWhoLeavesAfterItWasLetInStaysAccepted) {
  Turn(Submit(1), Submit(2));
  Turn(Open(1), LeaveCommand(CallId(2)));
  EXPECT_THAT(director_.engine()->book().line(), SizeIs(2));
  EXPECT_TRUE(IsAccepted(2)) << "its reply is not that it was cancelled";
}

// Takes what it is told of, and remembers how much that was.
class Curious final : public Follower, public std::enable_shared_from_this<Curious> {
 public:
  explicit Curious(ChangeFeed& feed) : feed_(feed) {}
  void Begin() {
    CHECK_OK(feed_.Follow(shared_from_this(), {}, {}).status());
    OnChanges();
  }

  void OnChanges() override {
    while (true) {
      const ChangeFeed::Taken taken = feed_.Take(*this, 100);
      changes += taken.changes.size();
      beginnings += taken.began_anew ? 1 : 0;
      if (taken.changes.empty() && !taken.began_anew) return;
    }
  }
  void OnLeftBehind() override { FAIL() << "it takes everything at once"; }

  size_t changes = 0;
  int beginnings = 0;

 private:
  ChangeFeed& feed_;
};

TEST_F(DirectorTest, FeedHasWhatIsOnDiskAndBeginsAnewWithTheStore) {
  ChangeFeed feed;
  director_.Feed(feed);
  const auto curious = std::make_shared<Curious>(feed);
  curious->Begin();
  Decide(Submit(1));
  EXPECT_EQ(curious->changes, 0u) << "it is decided, and not on disk";
  Turn();
  const size_t changes = curious->changes;
  EXPECT_GT(changes, 0u);
  const auto cancel = [this] {
    const core::QueueId id = std::get<Submitted>(answers_.at(1)).queue_id;
    return AgentCommand([id](DirectorEngine& engine, Moment now) {
      CHECK_OK(engine.Cancel(id, "me", "", now).status());
    });
  };
  fate_ = kFails;
  Turn(cancel());
  EXPECT_EQ(curious->changes, changes);
  EXPECT_EQ(curious->beginnings, 0) << "the store is away";
  fate_ = {};
  clock_.Advance(absl::Seconds(1));
  Turn();
  EXPECT_EQ(curious->beginnings, 1);
  Turn(cancel());
  EXPECT_GT(curious->changes, changes);
  EXPECT_THAT(heard_.cancels, ElementsAre(CancelPhase::kQueued));
}

TEST_F(DirectorTest, WhoIsAnsweredCanBeSureThatAgentsWereTold) {
  Turn(Open(1));
  size_t said_when_answered = 0;
  core::Submission submission;
  submission.spec.prompt = "echo";
  Turn(SubmitCommand(CallId(1), "me", std::move(submission), clock_.WallNow(),
                     [&](const Decision&) { said_when_answered = link_.TakeSaid().size(); }));
  EXPECT_EQ(said_when_answered, 1u);
}

TEST_F(DirectorTest, WhatATurnHasForAnAgentIsSaidTogether) {
  Turn(Open(1), Submit(1));
  const core::FenceToken first = std::get<core::StartRun>(link_.TakeSaid().front().item).token;
  Turn(Submit(2));
  Turn(Say(1, core::StartAnswered{first, absl::OkStatus()}), Say(1, core::RunEnded{first, {}}));
  const auto said = link_.TakeSaid();
  ASSERT_THAT(said, SizeIs(2));
  EXPECT_TRUE(std::holds_alternative<core::ResultAcknowledged>(said[0].item));
  EXPECT_TRUE(std::holds_alternative<core::StartRun>(said[1].item));
  EXPECT_EQ(said[0].message, said[1].message);
}

}  // namespace
}  // namespace callboard::director
