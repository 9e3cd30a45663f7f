#include "libs/director/director.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "libs/testing/engine_fixture.h"
#include "libs/testing/fake_environment.h"
#include "libs/testing/memory_event_store.h"
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
using CommitResult = test::FaultyEventStores::CommitResult;

const CommitResult kFails = {absl::InternalError("I/O error"), /*written=*/false};
const CommitResult kFailsButWrote = {absl::InternalError("I/O error"), /*written=*/true};
const CommitResult kDiskIsFull = {absl::ResourceExhaustedError("no space left"), /*written=*/false};

// A director with a store whose results the test chooses, and callers whose replies are kept.
class DirectorTest : public testing::Test {
 protected:
  DirectorTest() { EXPECT_THAT(director_.Open(), IsOk()); }

  // A submit that waits if there is no place.
  CommandPtr Submit(uint64_t call, const std::string& prompt = "echo") {
    core::Submission submission = test::SubmissionOf("echo");
    submission.spec.bytes = test::SpecBytesOf(prompt);
    submission.policy = core::QueuePolicy::kBlock;
    return SubmitCommand(CallId(call), "me", std::move(submission), clock_.WallNow(),
                         [this, call](const Decision& decision) {
                           EXPECT_FALSE(answers_.contains(call)) << "answered twice";
                           answers_[call] = decision;
                         });
  }
  CommandPtr GetStatus() {
    return MakeCommand(
        {.access = Command::Access::kRead},
        [](DirectorEngine& engine, Moment now) { return engine.views().Status(now); },
        [this](absl::StatusOr<core::QueueStatus> status) { status_ = std::move(status); });
  }
  CommandPtr Open(uint64_t session) {
    core::SessionOpened opened = {.name = "a", .instance_id = "a/1", .url = "grpc://a"};
    opened.lanes = {{"default", {.slots = 1, .used = 0}}};
    return MakeCommand(
        {.origin = Command::Origin::kAgent}, [session, opened](DirectorEngine& engine, Moment now) {
          CHECK_OK(engine.OnSessionOpened(core::AgentSessionId(session), opened, now));
        });
  }
  CommandPtr Send(uint64_t session, core::AgentMessage message) {
    return MakeCommand({.origin = Command::Origin::kAgent},
                       [session, message](DirectorEngine& engine, Moment now) {
                         engine.OnMessages(core::AgentSessionId(session), {message}, now);
                       });
  }
  template <class... Commands>
  static std::vector<CommandPtr> ToVector(Commands... commands) {
    std::vector<CommandPtr> list;
    (list.push_back(std::move(commands)), ...);
    return list;
  }
  template <class... Commands>
  void Turn(Commands... commands) {
    director_.RunTurn(ToVector(std::move(commands)...));
  }
  template <class... Commands>
  void Decide(Commands... commands) {
    std::vector<CommandPtr> list = ToVector(std::move(commands)...);
    director_.Decide(absl::MakeSpan(list), director_.Now());
  }
  absl::Status ErrorOf(uint64_t call) { return std::get<absl::Status>(answers_.at(call)); }
  bool IsAccepted(uint64_t call) {
    return answers_.contains(call) && std::holds_alternative<SubmitResult>(answers_.at(call));
  }

  class RecordingObserver final : public Observer {
   public:
    void OnService(Service service, const absl::Status& why) override {
      services.emplace_back(service, std::string(why.message()));
    }
    void OnCommit(size_t records, absl::Duration) override { batches.push_back(records); }
    void OnTurn(absl::Span<const core::Record> records,
                absl::Span<const TaskStep> turn_steps) override {
      for (const TaskStep& step : turn_steps) {
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
  RecordingObserver observer_;
  CommitResult commit_result_;
  size_t commits_ = 0;
  // Number of replies and messages that had been sent at the last commit.
  size_t answers_at_commit_ = 0;
  size_t messages_at_commit_ = 0;
  test::FakeAgentLink link_;
  test::FaultyEventStores stores_{[this] {
    ++commits_;
    answers_at_commit_ = answers_.size();
    messages_at_commit_ = link_.TakeSent().size();
    return commit_result_;
  }};
  std::map<uint64_t, Decision> answers_;
  absl::StatusOr<core::QueueStatus> status_ = absl::UnknownError("no reply yet");
  Director director_{{.queue = {.max_size = 1}}, {clock_, random_, stores_, link_, &observer_}};
};

TEST_F(DirectorTest, NothingIsSentBeforeTheCommit) {
  Turn(Open(1), Submit(1));
  EXPECT_EQ(answers_at_commit_, 0u);
  EXPECT_EQ(messages_at_commit_, 0u);
  EXPECT_TRUE(IsAccepted(1));
  EXPECT_THAT(link_.TakeSent(), SizeIs(1));
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
  Turn(Send(1, core::Heartbeat{absl::Seconds(1), {}}));
  EXPECT_EQ(commits_, before);
}

TEST_F(DirectorTest, ArrivedHeartbeatRenewsTheLeaseBeforeTimersFire) {
  Turn(Open(1), Submit(1));
  const core::FenceToken token = std::get<core::StartRun>(link_.TakeSent().front().message).token;
  Turn(Send(1, core::StartAnswer{token, absl::OkStatus()}));
  // The disk was slow: the lease ended long ago, and a heartbeat is waiting.
  clock_.Advance(absl::Minutes(2));
  Turn(Send(1, core::Heartbeat{absl::Minutes(2), {token}}));
  EXPECT_EQ(director_.engine()->views().Summarize(token.queue_id)->state,
            core::LifecycleState::kWorking);
}

TEST_F(DirectorTest, FailedCommitRepliesOutcomeUnknown) {
  commit_result_ = kFails;
  Turn(Submit(1), GetStatus());
  EXPECT_THAT(ErrorOf(1), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(ErrorOf(1), HasReason("OUTCOME_UNKNOWN"));
  EXPECT_THAT(status_, HasReason("OUTCOME_UNKNOWN"));
}

TEST_F(DirectorTest, FailedCommitSendsNothingToAgents) {
  Turn(Open(1));
  commit_result_ = kFails;
  Turn(Submit(1));
  EXPECT_THAT(link_.TakeSent(), IsEmpty());
}

TEST_F(DirectorTest, FailedCommitFailsWaiters) {
  Turn(Submit(1), Submit(2));
  ASSERT_FALSE(answers_.contains(2));
  commit_result_ = kFails;
  Turn(Submit(3), MakeCommand({.origin = Command::Origin::kAgent},
                              [](auto& engine, auto now) { engine.Pause("me", "", now); }));
  EXPECT_THAT(ErrorOf(2), HasReason("STORE_UNAVAILABLE"));
  EXPECT_THAT(ErrorOf(3), HasReason("STORE_UNAVAILABLE"));
}

TEST_F(DirectorTest, WaiterAdmittedByAFailedCommitGetsOutcomeUnknown) {
  Turn(Submit(1), Submit(2));
  commit_result_ = kFails;
  Turn(Open(1));
  EXPECT_THAT(ErrorOf(2), HasReason("OUTCOME_UNKNOWN"));
}

TEST_F(DirectorTest, ReopenedStoreIsARestart) {
  Turn(Open(1), Submit(1));
  const uint64_t epoch = director_.engine()->epoch();
  commit_result_ = kFailsButWrote;
  Turn(Submit(2));
  // Writing the new epoch failed too.
  EXPECT_NE(director_.service(), Service::kFull);
  commit_result_ = {};
  clock_.Advance(absl::Seconds(1));
  Turn();
  EXPECT_EQ(director_.service(), Service::kFull);
  EXPECT_GT(director_.engine()->epoch(), epoch);
  EXPECT_THAT(link_.epochs(), ElementsAre(epoch, director_.engine()->epoch()));
  // The record was written, although its caller got an error.
  EXPECT_EQ(
      director_.engine()->views().Status({clock_.WallNow(), clock_.MonotonicNow()}).counts.pending,
      1u);
  EXPECT_FALSE(director_.engine()->fleet().agents().at("a").is_connected());
}

TEST_F(DirectorTest, WithoutAStoreNothingIsServed) {
  commit_result_ = kFails;
  stores_.FailToOpen(absl::InternalError("I/O error"));
  Turn(Submit(1));
  Turn(Submit(2), GetStatus());
  EXPECT_THAT(ErrorOf(2), HasReason("STORE_UNAVAILABLE"));
  EXPECT_THAT(status_, HasReason("STORE_UNAVAILABLE"));
  EXPECT_EQ(director_.NextTurnAt(), clock_.MonotonicNow() + absl::Seconds(1));
}

TEST_F(DirectorTest, FullDiskAllowsReadsUntilThereIsSpace) {
  Turn(Open(1), Submit(1));
  link_.TakeSent();
  commit_result_ = kDiskIsFull;
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
  commit_result_ = {};
  clock_.Advance(absl::Seconds(1));
  Turn(Submit(5));
  EXPECT_TRUE(IsAccepted(5));
}

TEST_F(DirectorTest, ObserverSeesCommitsAndServiceLevels) {
  Turn(Open(1), Submit(1));
  EXPECT_THAT(observer_.batches, ElementsAre(1, 2))
      << "an epoch; a task that is admitted and dispatched";
  commit_result_ = kDiskIsFull;
  Turn(Submit(2));
  commit_result_ = kFails;
  clock_.Advance(absl::Seconds(1));
  Turn();
  commit_result_ = {};
  clock_.Advance(absl::Seconds(1));
  Turn();
  EXPECT_THAT(observer_.services,
              ElementsAre(Pair(Service::kFull, ""), Pair(Service::kNone, "no space left"),
                          Pair(Service::kReadOnly, "no space left"),
                          Pair(Service::kNone, "I/O error"), Pair(Service::kFull, "")));
  EXPECT_THAT(observer_.batches, ElementsAre(1, 2, 1)) << "a failed commit is not counted";
}

TEST_F(DirectorTest, ObserverSeesTaskChangesAndThePreviousStates) {
  const absl::Time submitted = clock_.WallNow();
  Turn(Submit(1));
  clock_.Advance(absl::Seconds(2));
  Turn(Open(1));
  const core::FenceToken token = std::get<core::StartRun>(link_.TakeSent().front().message).token;
  clock_.Advance(absl::Seconds(3));
  Turn(Send(1, core::StartAnswer{token, absl::UnavailableError("down")}));
  std::vector<core::TaskEventKind> kinds;
  for (const auto& [kind, step] : observer_.steps) kinds.push_back(kind);
  ASSERT_THAT(kinds, ElementsAre(core::TaskEventKind::kAdmitted, core::TaskEventKind::kDispatching,
                                 core::TaskEventKind::kRetry));
  EXPECT_EQ(observer_.steps[0].second.submitted_at, submitted);
  EXPECT_EQ(observer_.steps[0].second.max_attempts, 3u);
  EXPECT_EQ(observer_.steps[1].second.from, core::LifecycleState::kPending);
  EXPECT_EQ(observer_.steps[1].second.since, submitted);
  EXPECT_EQ(observer_.steps[1].second.submitted_at, submitted);
  EXPECT_EQ(observer_.steps[2].second.from, core::LifecycleState::kDispatching);
  EXPECT_EQ(observer_.steps[2].second.since, submitted + absl::Seconds(2));
  EXPECT_EQ(observer_.steps[2].second.attempts, 0u);
  EXPECT_EQ(observer_.steps[2].second.max_attempts, 3u);
  Turn(Send(1, core::RunEnded{{core::QueueId(core::Ulid(0, 1)), token.dispatch, 1}, {}}));
  EXPECT_EQ(observer_.orphans, 1u) << "of an unknown task";
}

TEST_F(DirectorTest, ObserverSeesNoTurnThatIsNotOnDisk) {
  commit_result_ = kFails;
  Turn(Submit(1));
  EXPECT_THAT(observer_.steps, IsEmpty());
}

TEST_F(DirectorTest, ObserverSeesQueueLevelsInEveryTurn) {
  const absl::Time accepted = clock_.WallNow();
  Turn(Submit(1), Submit(2));
  const QueueLevels full = {.pending = 1, .waiting = 1, .max_size = 1, .oldest = accepted};
  EXPECT_EQ(observer_.levels, full);
  Turn(Open(1));
  const QueueLevels running = {.pending = 1, .in_flight = 1, .max_size = 1, .oldest = accepted};
  EXPECT_EQ(observer_.levels, running);
}

TEST_F(DirectorTest, ObserverSeesWaitersWithoutATurn) {
  Turn(Submit(1));
  Decide(Submit(2));
  EXPECT_FALSE(director_.has_turn());
  EXPECT_EQ(observer_.levels.waiting, 1u);
}

TEST_F(DirectorTest, ObserverSeesAgentsOncePerSecond) {
  Turn(Open(1));
  Turn(Submit(1));
  EXPECT_THAT(observer_.agents, SizeIs(1));
  EXPECT_LE(director_.NextTurnAt(), clock_.MonotonicNow() + absl::Seconds(1));
  clock_.Advance(absl::Seconds(1));
  Turn();
  EXPECT_THAT(observer_.agents.back(), ElementsAre(Pair(AgentState::kBusy, 1u)));
  EXPECT_THAT(observer_.agents, SizeIs(2));
}

TEST_F(DirectorTest, NextTurnTimeIsStable) {
  Turn(Open(1), Submit(1));
  const absl::Duration due = director_.NextTurnAt();
  clock_.Advance(absl::Milliseconds(300));
  EXPECT_EQ(director_.NextTurnAt(), due);
}

TEST_F(DirectorTest, ResultIsNotAcknowledgedWhileTheDiskIsFull) {
  Turn(Open(1), Submit(1));
  const core::FenceToken token = std::get<core::StartRun>(link_.TakeSent().front().message).token;
  commit_result_ = kDiskIsFull;
  Turn(Send(1, core::RunEnded{token, {}}));
  Turn(Send(1, core::RunEnded{token, {}}));
  EXPECT_THAT(link_.TakeSent(), IsEmpty());
  EXPECT_EQ(director_.engine()->views().Summarize(token.queue_id)->state,
            core::LifecycleState::kDispatching);
}

TEST_F(DirectorTest, ShutdownOutlivesAReopenedStore) {
  director_.BeginShutdown(director_.Now());
  Turn(Submit(1));
  EXPECT_THAT(ErrorOf(1), HasReason("QUEUE_DRAINING"));
  commit_result_ = kFails;
  Turn(MakeCommand({.origin = Command::Origin::kAgent},
                   [](auto& engine, auto now) { engine.Pause("me", "", now); }));
  commit_result_ = {};
  clock_.Advance(absl::Seconds(1));
  Turn(Submit(2));
  EXPECT_THAT(ErrorOf(2), HasReason("QUEUE_DRAINING"));
}

TEST_F(DirectorTest, TurnDecidedDuringACommitIsFlushedAfterItsOwnCommit) {
  Decide(Submit(1));
  director::Turn first = director_.TakeTurn();
  Decide(Open(1), GetStatus());
  ASSERT_THAT(director_.Commit(first), IsOk());
  ASSERT_THAT(director_.Flush(std::move(first)), IsOk());
  EXPECT_TRUE(IsAccepted(1));
  EXPECT_FALSE(status_.ok()) << "a read of uncommitted state waits for the commit";
  EXPECT_THAT(link_.TakeSent(), IsEmpty());
  director::Turn second = director_.TakeTurn();
  ASSERT_THAT(director_.Commit(second), IsOk());
  ASSERT_THAT(director_.Flush(std::move(second)), IsOk());
  EXPECT_EQ(status_->counts.dispatching, 1u);
  EXPECT_THAT(link_.TakeSent(), SizeIs(1));
}

TEST_F(DirectorTest, TurnBuiltOnAFailedCommitIsDropped) {
  Decide(Submit(1));
  const director::Turn first = director_.TakeTurn();
  Decide(Open(1), GetStatus());
  commit_result_ = kFails;
  const absl::Status failure = director_.Commit(first);
  commit_result_ = {};
  director_.Fail(first, failure);
  EXPECT_THAT(ErrorOf(1), HasReason("OUTCOME_UNKNOWN"));
  EXPECT_THAT(status_, HasReason("STORE_UNAVAILABLE"));
  EXPECT_FALSE(director_.has_turn());
  EXPECT_THAT(director_.engine()->tasks().live_tasks(), IsEmpty());
  EXPECT_THAT(link_.TakeSent(), IsEmpty());
}

TEST_F(DirectorTest, StartReadsItsSpecFromDisk) {
  Turn(Submit(1, std::string(20 << 20, 'x')));
  const core::QueueId task = std::get<SubmitResult>(answers_.at(1)).queue_id;
  ASSERT_EQ(director_.engine()->tasks().Find(task)->spec, nullptr) << "too large to keep in memory";
  Turn(Open(1));
  const auto sent = link_.TakeSent();
  ASSERT_THAT(sent, SizeIs(1));
  EXPECT_GT(std::get<core::StartRun>(sent[0].message).spec->size(), 20u << 20);
}

TEST_F(DirectorTest, StoreListenerSeesTheStoreWhileItIsOpen) {
  std::vector<bool> seen;
  director_.SetStoreListener(
      [&](const ports::EventStore* store) { seen.push_back(store != nullptr); });
  commit_result_ = kFails;
  Turn(Submit(1));
  commit_result_ = {};
  clock_.Advance(absl::Seconds(1));
  Turn();
  EXPECT_TRUE(seen.front());
  EXPECT_TRUE(seen.back());
  EXPECT_THAT(seen, testing::Contains(false));
  director_.SetStoreListener([](const ports::EventStore*) {});
}

TEST_F(DirectorTest, CancelledWaitLeavesNothingBehind) {
  Turn(Submit(1), Submit(2), Submit(3));
  Turn(CancelWaitCommand(CallId(2)));
  EXPECT_THAT(ErrorOf(2), StatusIs(absl::StatusCode::kCancelled));
  Turn(Open(1));
  EXPECT_TRUE(IsAccepted(3));
  EXPECT_THAT(director_.engine()->tasks().live_tasks(), SizeIs(2));
}

TEST_F(DirectorTest, CancelledWaitAfterAdmissionKeepsTheTask) {
  Turn(Submit(1), Submit(2));
  Turn(Open(1), CancelWaitCommand(CallId(2)));
  EXPECT_THAT(director_.engine()->tasks().live_tasks(), SizeIs(2));
  EXPECT_TRUE(IsAccepted(2)) << "not CANCELLED";
}

// Takes changes when it is notified, and counts them.
class CountingSubscriber final : public FeedSubscriber,
                                 public std::enable_shared_from_this<CountingSubscriber> {
 public:
  explicit CountingSubscriber(ChangeFeed& feed) : feed_(feed) {}
  void Begin() {
    CHECK_OK(feed_.Subscribe(shared_from_this(), {}, {}).status());
    OnChanges();
  }

  void OnChanges() override {
    while (true) {
      const ChangeFeed::ChangeBatch batch = feed_.TakeChanges(*this, 100);
      changes += batch.changes.size();
      resets += batch.was_reset ? 1 : 0;
      if (batch.changes.empty() && !batch.was_reset) return;
    }
  }
  void OnFellBehind() override { FAIL() << "it takes all changes immediately"; }

  size_t changes = 0;
  int resets = 0;

 private:
  ChangeFeed& feed_;
};

TEST_F(DirectorTest, FeedHasCommittedChangesAndResetsWithTheStore) {
  ChangeFeed feed;
  director_.SetChangeFeed(feed);
  const auto subscriber = std::make_shared<CountingSubscriber>(feed);
  subscriber->Begin();
  Decide(Submit(1));
  EXPECT_EQ(subscriber->changes, 0u) << "it is decided, but not on disk";
  Turn();
  const size_t changes = subscriber->changes;
  EXPECT_GT(changes, 0u);
  const auto cancel = [this] {
    const core::QueueId id = std::get<SubmitResult>(answers_.at(1)).queue_id;
    return MakeCommand({.origin = Command::Origin::kAgent},
                       [id](DirectorEngine& engine, Moment now) {
                         CHECK_OK(engine.Cancel(id, "me", "", now).status());
                       });
  };
  commit_result_ = kFails;
  Turn(cancel());
  EXPECT_EQ(subscriber->changes, changes);
  EXPECT_EQ(subscriber->resets, 0) << "there is no store";
  commit_result_ = {};
  clock_.Advance(absl::Seconds(1));
  Turn();
  EXPECT_EQ(subscriber->resets, 1);
  Turn(cancel());
  EXPECT_GT(subscriber->changes, changes);
  EXPECT_THAT(observer_.cancels, ElementsAre(CancelPhase::kQueued));
}

TEST_F(DirectorTest, AgentsGetMessagesBeforeCallersGetReplies) {
  Turn(Open(1));
  size_t messages_before_reply = 0;
  core::Submission submission = test::SubmissionOf("echo");
  Turn(SubmitCommand(CallId(1), "me", std::move(submission), clock_.WallNow(),
                     [&](const Decision&) { messages_before_reply = link_.TakeSent().size(); }));
  EXPECT_EQ(messages_before_reply, 1u);
}

TEST_F(DirectorTest, TurnSendsOneMessagePerAgent) {
  Turn(Open(1), Submit(1));
  const core::FenceToken first = std::get<core::StartRun>(link_.TakeSent().front().message).token;
  Turn(Submit(2));
  Turn(Send(1, core::StartAnswer{first, absl::OkStatus()}), Send(1, core::RunEnded{first, {}}));
  const auto sent = link_.TakeSent();
  ASSERT_THAT(sent, SizeIs(2));
  EXPECT_TRUE(std::holds_alternative<core::ResultAck>(sent[0].message));
  EXPECT_TRUE(std::holds_alternative<core::StartRun>(sent[1].message));
  EXPECT_EQ(sent[0].batch, sent[1].batch);
}

}  // namespace
}  // namespace callboard::director
