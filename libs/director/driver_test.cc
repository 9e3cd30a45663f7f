#include "libs/director/driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <future>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "libs/base/error.h"
#include "libs/testing/engine_fixture.h"
#include "libs/testing/fake_environment.h"
#include "libs/testing/memory_event_store.h"
#include "libs/testing/status_matchers.h"

namespace callboard::director {
namespace {

using test::HasReason;
using test::IsOk;
using test::StatusIs;
using CommitResult = test::FaultyEventStores::CommitResult;

class DirectorDriverTest : public testing::Test {
 protected:
  std::unique_ptr<DirectorDriver> Open(const DriverOptions& options = {}) {
    auto driver = DirectorDriver::Open(options, {clock_, random_, stores_, link_}, flow_.flow());
    EXPECT_THAT(driver, IsOk());
    return *std::move(driver);
  }

  Decision Submit(DirectorDriver& driver, const std::string& prompt,
                  const std::string& request_id = "") {
    core::Submission submission = test::SubmissionOf(prompt);
    submission.spec.request_id = request_id;
    std::promise<Decision> answer;
    driver.Post(SubmitCommand(driver.NewCallId(), "me", std::move(submission), clock_.WallNow(),
                              [&](const Decision& decision) { answer.set_value(decision); }));
    return answer.get_future().get();
  }
  // REQUIRES: it is accepted.
  core::QueueId Add(DirectorDriver& driver, const std::string& prompt,
                    const std::string& request_id = "") {
    return std::get<SubmitResult>(Submit(driver, prompt, request_id)).queue_id;
  }
  // Returns the reply of a call.
  template <class T, class Call>
  absl::StatusOr<T> Answer(Call call) {
    std::promise<absl::StatusOr<T>> answer;
    call([&answer](absl::StatusOr<T> given) { answer.set_value(std::move(given)); });
    return answer.get_future().get();
  }

  test::FakeClock clock_;
  test::DriverFlow flow_{clock_};
  test::FakeRandom random_;
  CommitResult commit_result_;
  test::FaultyEventStores::DecideCommit decide_ = [this] { return commit_result_; };
  test::FaultyEventStores stores_{[this] { return decide_(); }};
  test::FakeAgentLink link_;
};

// Keeps the deciding thread inside a command until it goes out of scope.
class HeldTurn {
 public:
  explicit HeldTurn(DirectorDriver& driver) {
    driver.Post(MakeCommand({.origin = Command::Origin::kAgent}, [this](DirectorEngine&, Moment) {
      std::future<void> released = release_.get_future();
      entered_.set_value();
      released.wait();
    }));
    entered_.get_future().wait();
  }
  ~HeldTurn() { release_.set_value(); }

 private:
  std::promise<void> entered_;
  std::promise<void> release_;
};

// Commands that are decided while the disk is busy with an earlier task.
class BusyDiskTest : public DirectorDriverTest {
 protected:
  // Together with the command that signals the end, enough to be decided while the disk is busy.
  static constexpr int kCalls = 15;

  // Submits a task, and then others. When it returns, the disk is busy with the first one and the
  // others are decided.
  void SubmitAll(DirectorDriver& driver) {
    std::promise<void> busy;
    decide_ = [this, &busy, is_first = true]() mutable {
      if (std::exchange(is_first, false)) {
        busy.set_value();
        released_.get_future().wait();
      }
      ++commits_;
      return std::exchange(commit_result_, {});
    };
    Post(driver);
    busy.get_future().wait();
    for (int i = 0; i < kCalls; ++i) Post(driver);
    std::promise<void> decided;
    driver.Post(MakeCommand({.origin = Command::Origin::kAgent},
                            [&decided](DirectorEngine&, Moment) { decided.set_value(); }));
    decided.get_future().wait();
  }
  void Release() { released_.set_value(); }
  // All replies, in the order of the calls.
  std::vector<Decision> Answers() {
    std::vector<Decision> answers;
    for (std::promise<Decision>& answer : answers_) answers.push_back(answer.get_future().get());
    return answers;
  }

  int commits_ = 0;

 private:
  void Post(DirectorDriver& driver) {
    std::promise<Decision>& answer = answers_.emplace_back();
    driver.Post(SubmitCommand(driver.NewCallId(), "me", test::SubmissionOf("echo"),
                              clock_.WallNow(),
                              [&answer](const Decision& decision) { answer.set_value(decision); }));
  }

  std::promise<void> released_;
  std::deque<std::promise<Decision>> answers_;
};

template <class Reply>
void PostStatus(DirectorDriver& driver, Reply reply) {
  driver.Post(MakeCommand(
      {.access = Command::Access::kRead},
      [](DirectorEngine& engine, Moment now) { return engine.views().Status(now); },
      std::move(reply)));
}

absl::StatusOr<core::QueueStatus> StatusFrom(DirectorDriver& driver) {
  std::promise<absl::StatusOr<core::QueueStatus>> answer;
  PostStatus(driver, [&answer](auto status) { answer.set_value(std::move(status)); });
  return answer.get_future().get();
}

TEST_F(DirectorDriverTest, RepliesWithTheStatusOfTheEngine) {
  const auto driver = Open({.engine = {.queue = {.max_size = 7}}});
  const absl::StatusOr<core::QueueStatus> status = StatusFrom(*driver);
  ASSERT_THAT(status, IsOk());
  EXPECT_EQ(status->options.max_size, 7u);
  EXPECT_FALSE(status->draining);
}

TEST_F(DirectorDriverTest, OpenFailsWithoutAStore) {
  stores_.FailToOpen(absl::DataLossError("checksum"));
  EXPECT_THAT(DirectorDriver::Open({}, {clock_, random_, stores_, link_}, flow_.flow()),
              StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(DirectorDriverTest, OpenOnAFullDiskAllowsReads) {
  commit_result_ = {absl::ResourceExhaustedError("no space left"), /*written=*/false};
  EXPECT_THAT(StatusFrom(*Open()), IsOk());
}

TEST_F(DirectorDriverTest, StatusAfterADrainShowsIt) {
  const auto driver = Open();
  driver->BeginDrain();
  EXPECT_TRUE(StatusFrom(*driver)->draining);
}

TEST_F(DirectorDriverTest, GoAwayReturnsAfterAgentsWereInformed) {
  const auto driver = Open();
  ASSERT_TRUE(driver->Post(
      MakeCommand({.origin = Command::Origin::kAgent}, [](DirectorEngine& engine, Moment now) {
        EXPECT_THAT(engine.OnSessionOpened(core::AgentSessionId(1),
                                           {.name = "agent-1", .instance_id = "i"}, now),
                    IsOk());
      })));
  driver->GoAway(absl::Minutes(1));
  const std::vector<test::FakeAgentLink::SentMessage> sent = link_.TakeSent();
  ASSERT_FALSE(sent.empty());
  EXPECT_TRUE(std::holds_alternative<core::GoingAway>(sent.back().message));
}

TEST_F(DirectorDriverTest, DrainIsAcceptedWhenTheInboxIsFull) {
  const auto driver = Open({.calls_max = 1});
  std::promise<absl::StatusOr<core::QueueStatus>> answered;
  {
    HeldTurn held(*driver);
    PostStatus(*driver, [&](auto status) { answered.set_value(std::move(status)); });
    driver->BeginDrain();
  }
  EXPECT_TRUE(answered.get_future().get()->draining);
}

TEST_F(DirectorDriverTest, CallBeyondTheBoundFailsWithRetryInfo) {
  const auto driver = Open({.calls_max = 1});
  std::optional<absl::StatusOr<core::QueueStatus>> error;
  std::promise<absl::StatusOr<core::QueueStatus>> answered;
  {
    HeldTurn held(*driver);
    PostStatus(*driver, [&](auto status) { answered.set_value(std::move(status)); });
    PostStatus(*driver, [&](auto status) { error = std::move(status); });
    ASSERT_TRUE(error.has_value());
  }
  EXPECT_THAT(*error, StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(*error, HasReason("OVERLOADED"));
  EXPECT_GT(*base::GetErrorDetails(error->status()).retry_after, absl::ZeroDuration());
  EXPECT_THAT(answered.get_future().get(), IsOk());
}

TEST_F(DirectorDriverTest, AgentMessagesHaveTheirOwnBound) {
  const auto driver = Open({.calls_max = 1, .agent_messages_max = 1});
  const auto message = [] {
    return MakeCommand({.origin = Command::Origin::kAgent}, [](DirectorEngine&, Moment) {});
  };
  HeldTurn held(*driver);
  PostStatus(*driver, [](const auto&) {});
  EXPECT_TRUE(driver->Post(message()));
  EXPECT_FALSE(driver->Post(message())) << "the Session stops reading";
}

TEST_F(DirectorDriverTest, DestructorAnswersCallsInTheInbox) {
  int answered = 0;
  {
    const auto driver = Open();
    HeldTurn held(*driver);
    for (int i = 0; i < 3; ++i) PostStatus(*driver, [&](const auto&) { ++answered; });
  }
  EXPECT_EQ(answered, 3);
}

// The writing thread decides small groups of commands, and the deciding thread larger ones. The
// callers are numerous enough that both happen.
TEST_F(DirectorDriverTest, BothThreadsAnswerCalls) {
  constexpr int kRounds = 10'000;
  const auto driver = Open();
  const auto call = [&driver](int seed) {
    for (int round = 0; round < kRounds; ++round) {
      const int calls = 1 + (round * seed) % 24;
      std::atomic<int> unanswered = calls;
      std::promise<void> answered;
      for (int i = 0; i < calls; ++i) {
        PostStatus(*driver, [&](const auto&) {
          if (--unanswered == 0) answered.set_value();
        });
      }
      answered.get_future().wait();
    }
  };
  std::vector<std::thread> callers;
  for (const int seed : {1, 5, 7, 11, 13, 17}) callers.emplace_back(call, seed);
  for (std::thread& caller : callers) caller.join();
  EXPECT_THAT(StatusFrom(*driver), IsOk());
}

TEST_F(BusyDiskTest, CallsDecidedDuringACommitAreOneCommit) {
  const auto driver = Open();
  SubmitAll(*driver);
  Release();
  for (const Decision& answer : Answers()) {
    EXPECT_TRUE(std::holds_alternative<SubmitResult>(answer));
  }
  EXPECT_EQ(commits_, 2);
}

TEST_F(BusyDiskTest, CallsDecidedDuringAFailedCommitFail) {
  const auto driver = Open();
  commit_result_ = {absl::InternalError("I/O error"), /*written=*/false};
  SubmitAll(*driver);
  Release();
  const std::vector<Decision> answers = Answers();
  EXPECT_THAT(std::get<absl::Status>(answers.front()), HasReason("OUTCOME_UNKNOWN"));
  for (int i = 1; i <= kCalls; ++i) {
    EXPECT_THAT(std::get<absl::Status>(answers[i]), HasReason("STORE_UNAVAILABLE"));
  }
  EXPECT_EQ(StatusFrom(*driver)->counts.pending, 0u) << "the store was opened again";
}

TEST_F(BusyDiskTest, DestructorAnswersAllCallsDuringACommit) {
  auto driver = Open();
  SubmitAll(*driver);
  std::thread going([&driver] { driver.reset(); });
  Release();
  going.join();
  for (const Decision& answer : Answers()) {
    EXPECT_TRUE(std::holds_alternative<SubmitResult>(answer));
  }
}

TEST_F(DirectorDriverTest, DestructorAnswersWaiters) {
  int answered = 0;
  {
    const auto driver = Open({.engine = {.queue = {.max_size = 1}}});
    core::Submission submission = test::SubmissionOf("echo");
    submission.policy = core::QueuePolicy::kBlock;
    for (int i = 0; i < 2; ++i) {
      driver->Post(SubmitCommand(driver->NewCallId(), "me", core::Submission(submission),
                                 clock_.WallNow(), [&](const Decision&) { ++answered; }));
    }
    EXPECT_EQ(StatusFrom(*driver)->waiting, 1u);
  }
  EXPECT_EQ(answered, 2);
}

TEST_F(DirectorDriverTest, CommandsOfTheLinkAreAlwaysAccepted) {
  const auto driver = Open({.calls_max = 1, .agent_messages_max = 1});
  HeldTurn held(*driver);
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(driver->Post(
        MakeCommand({.origin = Command::Origin::kLink}, [](DirectorEngine&, Moment) {})));
  }
}

TEST_F(DirectorDriverTest, TaskIsReadWithItsPositionAndItsRecords) {
  const auto driver = Open();
  Add(*driver, "first");
  const core::QueueId task = Add(*driver, "second");
  const absl::StatusOr<core::Task> read =
      Answer<core::Task>([&](auto reply) { driver->GetTask(task, std::move(reply)); });
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(test::ParseSpec(read->spec).prompt(), "second");
  EXPECT_EQ(read->position, 2u);
}

TEST_F(DirectorDriverTest, UnknownTaskIsNotFound) {
  const auto driver = Open();
  EXPECT_THAT(Answer<core::Task>([&](auto reply) {
                driver->GetTask(core::QueueId(core::Ulid(1, 1)), std::move(reply));
              }),
              HasReason("TASK_NOT_FOUND"));
}

TEST_F(DirectorDriverTest, RequestIdFindsItsTaskAndARememberedId) {
  const auto driver = Open({.engine = {.retention = {.count = 0}}});
  const auto find = [&] {
    return Answer<core::Task>(
        [&](auto reply) { driver->GetTaskByRequestId("me", "r", std::move(reply)); });
  };
  EXPECT_THAT(find(), HasReason("TASK_NOT_FOUND"));
  const core::QueueId task = Add(*driver, "first", "r");
  ASSERT_THAT(find(), IsOk());
  EXPECT_EQ(find()->queue_id, task);
  EXPECT_EQ(find()->position, 1u);
  EXPECT_EQ(test::ParseSpec(find()->spec).prompt(), "first");
  ASSERT_THAT(Answer<CancelResult>([&](auto reply) {
                driver->Post(MakeCommand(
                    {},
                    [task](DirectorEngine& engine, Moment now) {
                      return engine.Cancel(task, "me", "", now);
                    },
                    reply));
              }),
              IsOk());
  ASSERT_THAT(find(), IsOk());
  EXPECT_EQ(find()->queue_id, task);
  EXPECT_EQ(find()->state, core::LifecycleState::kCancelled);
  EXPECT_EQ(find()->spec, nullptr) << "the task is deleted";
}

TEST_F(DirectorDriverTest, TasksAreListedPageByPage) {
  const auto driver = Open();
  for (const char* prompt : {"1", "2", "3"}) Add(*driver, prompt);
  ListQuery query = {.page_size = 2};
  std::vector<std::string> prompts;
  for (int page = 0; page < 2; ++page) {
    const absl::StatusOr<TaskPage> answer =
        Answer<TaskPage>([&](auto reply) { driver->ListTasks(query, std::move(reply)); });
    ASSERT_THAT(answer, IsOk());
    for (const auto& item : answer->tasks)
      prompts.push_back(test::ParseSpec(item.task.spec).prompt());
    query.after = answer->next;
  }
  EXPECT_THAT(prompts, testing::ElementsAre("1", "2", "3"));
  EXPECT_EQ(query.after, std::nullopt);
}

TEST_F(DirectorDriverTest, EventsOfATaskAreReadPageByPage) {
  const auto driver = Open();
  const core::QueueId task = Add(*driver, "first");
  Answer<CancelResult>([&](auto reply) {
    driver->Post(MakeCommand(
        {},
        [task](DirectorEngine& engine, Moment now) { return engine.Cancel(task, "me", "", now); },
        reply));
  }).IgnoreError();
  const auto page = [&](size_t first) {
    return *Answer<EventPage>([&](auto reply) {
      driver->ListTaskEvents({.queue_id = task, .first = first, .page_size = 3}, std::move(reply));
    });
  };
  const auto kinds = [](const EventPage& page) {
    std::vector<core::TaskEventKind> kinds;
    for (const core::TaskEvent& event : page.events) kinds.push_back(event.kind);
    return kinds;
  };
  EXPECT_THAT(kinds(page(0)),
              testing::ElementsAre(core::TaskEventKind::kSubmitted, core::TaskEventKind::kAdmitted,
                                   core::TaskEventKind::kDenied));
  EXPECT_TRUE(page(0).has_more);
  EXPECT_THAT(kinds(page(3)), testing::ElementsAre(core::TaskEventKind::kCancelled));
  EXPECT_FALSE(page(3).has_more);
  EXPECT_THAT(kinds(page(99)), testing::IsEmpty());
}

TEST_F(DirectorDriverTest, TaskIsExplained) {
  const auto driver = Open();
  Add(*driver, "first");
  const core::QueueId task = Add(*driver, "second");
  const absl::StatusOr<Explanation> explanation = Answer<Explanation>([&](auto reply) {
    driver->Post(MakeCommand(
        {.access = Command::Access::kRead},
        [task](DirectorEngine& engine, Moment now) { return engine.views().Explain(task, now); },
        std::move(reply)));
  });
  ASSERT_THAT(explanation, IsOk());
  EXPECT_EQ(explanation->position, 2u);
  EXPECT_EQ(explanation->ready_ahead, 0u) << "no agent serves the first one";
  EXPECT_EQ(Answer<KickResult>([&](auto reply) {
              driver->Post(MakeCommand(
                  {}, [](DirectorEngine& engine, Moment now) { return engine.Kick(now); },
                  std::move(reply)));
            })->backoffs,
            0u);
}

TEST_F(DirectorDriverTest, CheckpointIsTakenDuringTurns) {
  const auto driver = Open();
  const auto checkpoint = [&] {
    return Answer<ports::Checkpoint>(
        [&](auto reply) { driver->CreateCheckpoint("one", std::move(reply)); });
  };
  EXPECT_THAT(checkpoint(), IsOk());
  EXPECT_THAT(checkpoint(), StatusIs(absl::StatusCode::kAlreadyExists));
}

TEST_F(DirectorDriverTest, FailedCommitReopensTheStore) {
  std::atomic<bool> fails = false;
  decide_ = [&]() -> CommitResult {
    return fails.exchange(false) ? CommitResult{absl::InternalError("I/O error"), false}
                                 : CommitResult{};
  };
  const auto driver = Open();
  fails = true;
  const Decision failed = Submit(*driver, "first");
  EXPECT_THAT(std::get<absl::Status>(failed), HasReason("OUTCOME_UNKNOWN"));
  EXPECT_TRUE(std::holds_alternative<SubmitResult>(Submit(*driver, "second")));
  EXPECT_EQ(link_.epochs().size(), 2u);
}

TEST_F(DirectorDriverTest, CallerThatWaitsForRoomIsNotifiedOnce) {
  const auto driver = Open({.calls_max = 1});
  std::promise<void> room;
  CommandPtr command = SubmitCommand(driver->NewCallId(), "me", test::SubmissionOf("echo"),
                                     clock_.WallNow(), [](const Decision&) {});
  {
    HeldTurn held(*driver);
    PostStatus(*driver, [](const auto&) {});
    EXPECT_FALSE(driver->PostOrWait(command, [&room] { room.set_value(); }));
    EXPECT_NE(command, nullptr) << "it is unchanged";
  }
  room.get_future().wait();
  EXPECT_TRUE(driver->PostOrWait(command, [] { FAIL() << "there is room"; }));
}

TEST_F(DirectorDriverTest, CallersThatCanWaitUseHalfOfTheInbox) {
  const auto driver = Open({.calls_max = 4});
  const auto submit = [&] {
    return SubmitCommand(driver->NewCallId(), "me", test::SubmissionOf("echo"), clock_.WallNow(),
                         [](const Decision&) {});
  };
  std::promise<absl::StatusOr<core::QueueStatus>> status;
  {
    HeldTurn held(*driver);
    CommandPtr first = submit();
    EXPECT_TRUE(driver->PostOrWait(first, [] {}));
    CommandPtr second = submit();
    EXPECT_TRUE(driver->PostOrWait(second, [] {}));
    CommandPtr third = submit();
    EXPECT_FALSE(driver->PostOrWait(third, [] {}));
    PostStatus(*driver, [&](auto answer) { status.set_value(std::move(answer)); });
  }
  EXPECT_TRUE(status.get_future().get().ok()) << "it is accepted";
}

TEST_F(DirectorDriverTest, SubmitStreamIsAnsweredInOrder) {
  const auto driver = Open({.engine = {.queue = {.max_size = 0}}, .calls_max = 10});
  std::promise<void> all;
  std::atomic<int> rooms = 0;
  std::shared_ptr<SubmitStream> stream;
  uint64_t answered = 0;
  const auto take = [&] {
    for (const SubmitStream::Answer& answer : stream->TakeAnswers(1000)) {
      EXPECT_EQ(answer.index, answered);
      if (++answered == 100) all.set_value();
    }
  };
  stream = driver->SubmitTasks({.on_answers = take, .on_room = [&rooms] { ++rooms; }});
  for (int i = 0, waits = 0; i < 100; i += 4) {
    std::vector<SubmitStream::Item> items;
    for (int item = 0; item < 4; ++item)
      items.push_back(MakeSubmitRequest("me", test::SubmissionOf("echo"), clock_.WallNow()));
    if (stream->Submit(std::move(items))) continue;
    ++waits;
    while (rooms < waits) {
    }
  }
  all.get_future().wait();
  EXPECT_EQ(StatusFrom(*driver)->counts.pending, 100u);
}

TEST_F(DirectorDriverTest, CallIdsAreUnique) {
  const auto driver = Open();
  EXPECT_NE(driver->NewCallId(), driver->NewCallId());
}

TEST_F(DirectorDriverTest, RunningCheckpointBlocksNoRead) {
  std::unique_ptr<DirectorDriver> driver = Open();
  const core::QueueId id = Add(*driver, "task");
  std::promise<void> release;
  // The lane may run this after the end of the test.
  const std::shared_future<void> released = release.get_future().share();
  flow::Lane& checkpoints = flow_.flow().lane(kCheckpointsLane);
  ASSERT_THAT(checkpoints.Add([released] { released.wait(); }), IsOk());
  EXPECT_THAT(Answer<core::Task>([&](auto reply) { driver->GetTask(id, reply); }), IsOk());
  release.set_value();
}

}  // namespace
}  // namespace callboard::director
