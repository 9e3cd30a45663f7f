#include "libs/agent/driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/base/mutex.h"
#include "libs/testing/fake_clock.h"
#include "libs/testing/fake_random.h"
#include "libs/testing/fake_task_runner.h"
#include "libs/testing/status_matchers.h"

namespace callboard::agent {
namespace {

using test::HasReason;
using test::IsOk;
using test::StatusIs;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

core::FenceToken Token(uint64_t task) {
  return {core::QueueId(core::Ulid(0, task)), core::DispatchNumber(1), 3};
}

core::DirectorWord Start(uint64_t task, absl::Duration agent_time) {
  core::TaskSpec spec;
  spec.prompt = "echo";
  return core::DirectorItem(core::StartRun{
      Token(task), std::make_shared<const core::TaskSpec>(std::move(spec)), agent_time});
}

// Keeps what was written, and notes whether the process was there before it.
class MemoryJournal final : public Journal {
 public:
  absl::Status Write(absl::Span<const JournalRecord> records) override {
    base::MutexLock lock(mutex_);
    if (!failure_.ok()) return failure_;
    for (const JournalRecord& record : records) journaled_.Apply(record);
    return absl::OkStatus();
  }
  Journaled journaled() {
    base::MutexLock lock(mutex_);
    return journaled_;
  }
  void Fail(const absl::Status& failure) {
    base::MutexLock lock(mutex_);
    failure_ = failure;
  }

 private:
  base::Mutex mutex_;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  Journaled journaled_ ABSL_GUARDED_BY(mutex_);
};

// What is said in a Session, for the test to wait for.
class FakeLine final : public SessionLine {
 public:
  void Say(absl::Span<const core::AgentWord> words) override {
    base::MutexLock lock(mutex_);
    ++messages_;
    words_.insert(words_.end(), words.begin(), words.end());
    changed_.NotifyAll();
  }
  void End(const absl::Status& why) override {
    base::MutexLock lock(mutex_);
    end_ = why;
    changed_.NotifyAll();
  }

  core::AgentWord Next() {
    base::MutexLock lock(mutex_);
    while (words_.empty()) changed_.Wait(mutex_);
    core::AgentWord word = std::move(words_.front());
    words_.pop_front();
    return word;
  }
  // Waits for an item of that kind, past others.
  template <class Item>
  Item NextItem() {
    while (true) {
      const core::AgentWord word = Next();
      const auto* item = std::get_if<core::AgentItem>(&word);
      if (item != nullptr && std::holds_alternative<Item>(*item)) return std::get<Item>(*item);
    }
  }
  core::OutputWritten NextOutput() {
    while (true) {
      const core::AgentWord word = Next();
      if (const auto* output = std::get_if<core::OutputWritten>(&word)) return *output;
    }
  }
  absl::Status WaitForEnd() {
    base::MutexLock lock(mutex_);
    while (!end_.has_value()) changed_.Wait(mutex_);
    return *end_;
  }
  bool empty() {
    base::MutexLock lock(mutex_);
    return words_.empty();
  }
  size_t messages() {
    base::MutexLock lock(mutex_);
    return messages_;
  }

 private:
  base::Mutex mutex_;
  base::CondVar changed_;
  size_t messages_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<core::AgentWord> words_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
};

// Whose runs end before Start() returns.
class QuickRunner final : public ports::TaskRunner {
 public:
  explicit QuickRunner(ports::RunWatcher& watcher) : watcher_(watcher) {}
  absl::Status Check(const core::TaskSpec&) const override { return absl::OkStatus(); }
  void Start(ports::RunOrder order) override { watcher_.OnEnded(order.token, {.exit_code = 0}); }
  void Stop(const core::FenceToken&) override {}
  void Kill(const core::FenceToken&) override {}
  void SetFence(const core::FenceToken&, absl::Duration) override {}
  void Delivered(const core::FenceToken&, uint64_t) override {}

 private:
  ports::RunWatcher& watcher_;
};

class Heard final : public Observer {
 public:
  void OnRunAccepted(const ports::RunOrder& order) override {
    Note(absl::StrCat("accepted ", order.task_id));
  }
  void OnRunStarted(const core::FenceToken& token, int64_t pid) override {
    Note(absl::StrCat("started ", core::TaskIdText(token.queue_id, token.dispatch), " ", pid));
  }
  void OnRunEnded(const core::FenceToken& token, const core::RunResult& result) override {
    Note(absl::StrCat("ended ", core::TaskIdText(token.queue_id, token.dispatch)));
    base::MutexLock lock(mutex_);
    ends_.push_back(result.end);
  }
  void OnCannotRun(const absl::Status& why) override {
    Note(absl::StrCat("cannot run: ", why.message()));
  }
  void OnLevels(const AgentLevels& levels) override {
    base::MutexLock lock(mutex_);
    levels_ = levels;
  }
  std::vector<std::string> notes() {
    base::MutexLock lock(mutex_);
    return notes_;
  }
  std::vector<core::RunResult::End> ends() {
    base::MutexLock lock(mutex_);
    return ends_;
  }
  AgentLevels levels() {
    base::MutexLock lock(mutex_);
    return levels_;
  }

 private:
  void Note(std::string note) {
    base::MutexLock lock(mutex_);
    notes_.push_back(std::move(note));
  }

  base::Mutex mutex_;
  std::vector<std::string> notes_ ABSL_GUARDED_BY(mutex_);
  std::vector<core::RunResult::End> ends_ ABSL_GUARDED_BY(mutex_);
  AgentLevels levels_ ABSL_GUARDED_BY(mutex_);
};

class AgentDriverTest : public testing::Test {
 protected:
  std::shared_ptr<FakeLine> OpenSession(uint64_t epoch = 3) {
    auto line = std::make_shared<FakeLine>();
    session_ = driver_->Open(line, {.director_epoch = epoch});
    return line;
  }
  void Hear(core::DirectorWord word) { driver_->Hear(session_, {std::move(word)}); }

  // Returns once the run has begun.
  core::FenceToken StartDirect() {
    core::TaskSpec spec;
    spec.request_id = "r";
    std::promise<absl::StatusOr<DirectStart>> answer;
    driver_->StartDirect(std::make_shared<const core::TaskSpec>(std::move(spec)), {},
                         [&](auto start) { answer.set_value(std::move(start)); });
    return answer.get_future().get()->token;
  }
  absl::StatusOr<RunView> GetRun(const core::FenceToken& token) {
    std::promise<absl::StatusOr<RunView>> answer;
    driver_->GetRun(core::TaskIdText(token.queue_id, token.dispatch),
                    [&](auto run) { answer.set_value(std::move(run)); });
    return answer.get_future().get();
  }

  test::FakeClock clock_;
  test::FakeRandom random_;
  MemoryJournal journal_;
  Heard heard_;
  test::FakeTaskRunner* runner_ = nullptr;
  std::unique_ptr<AgentDriver> driver_ = *AgentDriver::Start(
      {.name = "agent-1", .instance_id = "i", .allow_direct = true}, {},
      {clock_, random_, journal_, &heard_},
      [this](ports::RunWatcher& watcher) -> absl::StatusOr<std::unique_ptr<ports::TaskRunner>> {
        auto runner = std::make_unique<test::FakeTaskRunner>(watcher);
        runner_ = runner.get();
        return runner;
      });
  core::SessionId session_;
};

TEST_F(AgentDriverTest, StartIsInTheJournalAndRunsWhenItIsAnswered) {
  const std::shared_ptr<FakeLine> line = OpenSession();
  EXPECT_EQ(std::get<core::AgentOpened>(line->Next()).name, "agent-1");
  Hear(Start(1, clock_.MonotonicNow()));
  EXPECT_THAT(line->NextItem<core::StartAnswered>().answer, IsOk());
  EXPECT_THAT(journal_.journaled().accepted, ElementsAre(Token(1)));
  EXPECT_THAT(runner_->running(), ElementsAre(Token(1)));
  runner_->End(Token(1), {.exit_code = 0, .result = "42"});
  EXPECT_EQ(line->NextItem<core::RunEnded>().result.result, "42");
  EXPECT_EQ(journal_.journaled().results.size(), 1u);
  EXPECT_FALSE(driver_->WaitUntilIdle(absl::ZeroDuration())) << "it is not acknowledged yet";
  Hear(core::DirectorItem(core::ResultAcknowledged{Token(1)}));
  EXPECT_TRUE(driver_->WaitUntilIdle(absl::Hours(1)));
  EXPECT_THAT(journal_.journaled().results, IsEmpty());
}

TEST_F(AgentDriverTest, RunThatEndsAtOnceIsToldOfInTheMessageThatAnswersItsStart) {
  driver_ = *AgentDriver::Start(
      {.name = "agent-1", .instance_id = "i"}, {}, {clock_, random_, journal_},
      [](ports::RunWatcher& watcher) -> absl::StatusOr<std::unique_ptr<ports::TaskRunner>> {
        return std::make_unique<QuickRunner>(watcher);
      });
  const std::shared_ptr<FakeLine> line = OpenSession();
  line->Next();
  Hear(Start(1, clock_.MonotonicNow()));
  EXPECT_THAT(line->NextItem<core::StartAnswered>().answer, IsOk());
  EXPECT_EQ(line->NextItem<core::RunEnded>().token, Token(1));
  EXPECT_EQ(line->messages(), 2u) << "the opening, and this";
}

TEST_F(AgentDriverTest, TaskThatTheRunnerCannotRunIsRefused) {
  const std::shared_ptr<FakeLine> line = OpenSession();
  runner_->SetCheck(absl::FailedPreconditionError("no shell"));
  Hear(Start(1, clock_.MonotonicNow()));
  EXPECT_TRUE(absl::IsFailedPrecondition(line->NextItem<core::StartAnswered>().answer));
  EXPECT_THAT(heard_.notes(), IsEmpty()) << "the task is at fault";
  runner_->SetCheck(absl::ResourceExhaustedError("no space"));
  Hear(Start(2, clock_.MonotonicNow()));
  EXPECT_TRUE(absl::IsResourceExhausted(line->NextItem<core::StartAnswered>().answer));
  EXPECT_THAT(heard_.notes(), ElementsAre("cannot run: no space"));
}

TEST_F(AgentDriverTest, ObserverHearsOfEveryStepOfARun) {
  const core::FenceToken token = StartDirect();
  const std::string task_id = core::TaskIdText(token.queue_id, token.dispatch);
  clock_.Advance(absl::Seconds(2));
  runner_->Begin(token, 4711);
  EXPECT_EQ(GetRun(token)->pid, 4711);
  EXPECT_EQ(GetRun(token)->started_at, clock_.WallNow());
  runner_->End(token);
  EXPECT_EQ(GetRun(token)->pid, 0);
  EXPECT_THAT(heard_.notes(), ElementsAre("accepted " + task_id, "started " + task_id + " 4711",
                                          "ended " + task_id));
}

TEST_F(AgentDriverTest, KilledRunsAreAcknowledgedBeforeItEnds) {
  const std::shared_ptr<FakeLine> line = OpenSession();
  Hear(Start(1, clock_.MonotonicNow()));
  line->NextItem<core::StartAnswered>();
  std::thread director([&] {
    while (!runner_->run(Token(1))->killed) std::this_thread::yield();
    runner_->End(Token(1), {.end = core::RunResult::End::kCancelled});
    EXPECT_EQ(line->NextItem<core::RunEnded>().token, Token(1));
    Hear(core::DirectorItem(core::ResultAcknowledged{Token(1)}));
  });
  EXPECT_TRUE(driver_->KillRuns(absl::Hours(1)));
  director.join();
  EXPECT_THAT(journal_.journaled().accepted, IsEmpty());
}

TEST_F(AgentDriverTest, KilledRunsAreNotWaitedForLongerThanTheirEndWithoutADirector) {
  const core::FenceToken token = StartDirect();
  std::thread process([&] {
    while (!runner_->run(token)->killed) std::this_thread::yield();
    runner_->End(token, {.end = core::RunResult::End::kCancelled});
  });
  EXPECT_TRUE(driver_->KillRuns(absl::Hours(1)));
  process.join();
}

TEST_F(AgentDriverTest, SessionHearsTheUrl) {
  driver_->SetUrl("grpc://127.0.0.1:7071");
  EXPECT_EQ(std::get<core::AgentOpened>(OpenSession()->Next()).url, "grpc://127.0.0.1:7071");
}

TEST_F(AgentDriverTest, OutputIsSaidAndTheRunnerHearsWhatWasDelivered) {
  const std::shared_ptr<FakeLine> line = OpenSession();
  Hear(Start(1, clock_.MonotonicNow()));
  line->NextItem<core::StartAnswered>();
  runner_->Write(Token(1), {.number = 1, .data = "hello"});
  runner_->Write(Token(1), {.number = 2, .data = "world!"});
  EXPECT_EQ(line->NextOutput().chunks.at(0).data, "hello");
  EXPECT_EQ(line->NextOutput().chunks.at(0).data, "world!");
  Hear(core::OutputAcknowledged{Token(1), 2});
  while (runner_->run(Token(1))->delivered_bytes < 11) std::this_thread::yield();
  EXPECT_EQ(runner_->run(Token(1))->delivered_bytes, 11u);
}

TEST_F(AgentDriverTest, OutputThatWasNotAcknowledgedIsSaidAgainInTheNextSession) {
  OpenSession();
  Hear(Start(1, clock_.MonotonicNow()));
  while (runner_->running().empty()) std::this_thread::yield();
  runner_->Write(Token(1), {.number = 1, .data = "hello"});
  driver_->OnBroken(session_);
  const std::shared_ptr<FakeLine> next = OpenSession();
  EXPECT_EQ(next->NextOutput().chunks.at(0).data, "hello");
}

TEST_F(AgentDriverTest, OutputIsWaitedForUntilItIsAcknowledgedOrNobodyIsThere) {
  for (const uint64_t task : {1, 2}) {
    const std::shared_ptr<FakeLine> line = OpenSession();
    Hear(Start(task, clock_.MonotonicNow()));
    line->NextItem<core::StartAnswered>();
    runner_->Write(Token(task), {.number = 1, .data = "hello"});
    runner_->End(Token(task));
    line->NextItem<core::RunEnded>();
    Hear(core::DirectorItem(core::ResultAcknowledged{Token(task)}));
    EXPECT_THAT(GetRun(Token(task)), IsOk()) << "all of that was heard";
    // Often, because it may settle a moment later.
    for (int i = 0; i < 10'000; ++i) {
      ASSERT_FALSE(driver_->WaitUntilIdle(absl::ZeroDuration()));
      std::this_thread::yield();
    }
    if (task == 1) {
      Hear(core::OutputAcknowledged{Token(task), 1});
    } else {
      driver_->OnBroken(session_);
    }
    EXPECT_TRUE(driver_->WaitUntilIdle(absl::Hours(1)));
  }
}

TEST_F(AgentDriverTest, NewerSessionEndsTheOneBeforeAndAnOlderDirectorIsSentAway) {
  const std::shared_ptr<FakeLine> first = OpenSession(3);
  const std::shared_ptr<FakeLine> second = OpenSession(4);
  EXPECT_THAT(first->WaitForEnd(), HasReason("SESSION_REPLACED"));
  const std::shared_ptr<FakeLine> old = OpenSession(3);
  EXPECT_THAT(old->WaitForEnd(), HasReason("SESSION_REPLACED"));
}

TEST_F(AgentDriverTest, WhatTheJournalDoesNotHaveIsNeitherDoneNorSaid) {
  const std::shared_ptr<FakeLine> line = OpenSession();
  line->Next();
  journal_.Fail(absl::UnavailableError("cannot write journal: disk full"));
  Hear(Start(1, clock_.MonotonicNow()));
  EXPECT_THAT(line->WaitForEnd(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("disk full")));
  EXPECT_TRUE(line->empty());
  EXPECT_THAT(runner_->running(), IsEmpty());
  EXPECT_THAT(OpenSession()->WaitForEnd(), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_TRUE(driver_->WaitUntilIdle(absl::Hours(1))) << "nobody needs to wait for it";
}

TEST_F(AgentDriverTest, ViewTellsWhatRuns) {
  const std::shared_ptr<FakeLine> line = OpenSession();
  Hear(Start(1, clock_.MonotonicNow()));
  line->NextItem<core::StartAnswered>();
  driver_->BeginDrain();
  std::promise<absl::StatusOr<AgentView>> answer;
  driver_->GetView([&](auto view) { answer.set_value(std::move(view)); });
  const AgentView view = *answer.get_future().get();
  EXPECT_EQ(view.name, "agent-1");
  EXPECT_TRUE(view.connected);
  EXPECT_TRUE(view.draining);
  EXPECT_EQ(view.lanes.at("default").used, 1u);
  ASSERT_EQ(view.runs.size(), 1u);
  EXPECT_EQ(view.runs[0].token, Token(1));
}

TEST_F(AgentDriverTest, ObserverSeesEveryTurnBeforeTheDirectorHearsOfIt) {
  const AgentLevels idle = {.lanes = {{"default", {.slots = 1}}}};
  EXPECT_EQ(heard_.levels(), idle);
  const std::shared_ptr<FakeLine> line = OpenSession();
  Hear(Start(1, clock_.MonotonicNow()));
  line->NextItem<core::StartAnswered>();
  const AgentLevels busy = {.lanes = {{"default", {.slots = 1, .used = 1}}}, .connected = true};
  EXPECT_EQ(heard_.levels(), busy);
  runner_->End(Token(1), {.end = core::RunResult::End::kFailed});
  line->NextItem<core::RunEnded>();
  EXPECT_THAT(heard_.ends(), ElementsAre(core::RunResult::End::kFailed));
  const AgentLevels reported = {
      .lanes = {{"default", {.slots = 1}}}, .unacknowledged_results = 1, .connected = true};
  EXPECT_EQ(heard_.levels(), reported);
}

// ---- Callers ------------------------------------------------------------------------------------

TEST_F(AgentDriverTest, DirectRunHasBegunWhenItIsAnsweredAndItsResultIsKept) {
  const core::FenceToken token = StartDirect();
  EXPECT_THAT(runner_->running(), ElementsAre(token));
  EXPECT_EQ(GetRun(token)->started_at, clock_.WallNow());
  EXPECT_EQ(GetRun(token)->result, std::nullopt);
  clock_.Advance(absl::Seconds(7));
  runner_->End(token, {.exit_code = 0, .result = "42"});
  const absl::StatusOr<RunView> run = GetRun(token);
  ASSERT_THAT(run, IsOk());
  EXPECT_EQ(run->result->result, "42");
  EXPECT_EQ(*run->finished_at, run->started_at + absl::Seconds(7));
  EXPECT_EQ(journal_.journaled().results.size(), 0u);
  EXPECT_THAT(GetRun(Token(9)), HasReason("TASK_NOT_FOUND"));
}

TEST_F(AgentDriverTest, RunOfADirectorIsKnownAsWell) {
  const std::shared_ptr<FakeLine> line = OpenSession();
  Hear(Start(1, clock_.MonotonicNow()));
  line->NextItem<core::StartAnswered>();
  EXPECT_EQ(GetRun(Token(1))->result, std::nullopt);
}

TEST_F(AgentDriverTest, OutputOfADirectRunIsDeliveredWhetherOrNotSomebodyReadsIt) {
  const core::FenceToken token = StartDirect();
  for (uint64_t number = 1; number <= 100; ++number) {
    runner_->Write(token, {.number = number, .data = std::string(32 * 1024, 'x')});
  }
  EXPECT_THAT(GetRun(token), IsOk()) << "all of that was heard";
  EXPECT_EQ(runner_->run(token)->delivered_bytes, 100u * 32 * 1024);
}

TEST_F(AgentDriverTest, ReaderIsShownOutputAsItComesAndThenTheEnd) {
  const core::FenceToken token = StartDirect();
  const ReaderId id = driver_->NextReader();
  std::promise<std::string> shown;
  std::promise<absl::Status> ended;
  driver_->ReadOutput(id,
                      {.task_id = core::TaskIdText(token.queue_id, token.dispatch), .follow = true},
                      {.show = [&](const auto& piece) { shown.set_value(piece.chunks.at(0).data); },
                       .end = [&](const absl::Status& status) { ended.set_value(status); }});
  runner_->Write(token, {.number = 1, .data = "hello"});
  EXPECT_EQ(shown.get_future().get(), "hello");
  runner_->End(token);
  driver_->GoOn(id);
  EXPECT_THAT(ended.get_future().get(), IsOk());
}

TEST_F(AgentDriverTest, ReaderWhoHasLeftIsShownNothing) {
  const core::FenceToken token = StartDirect();
  const ReaderId id = driver_->NextReader();
  driver_->ReadOutput(
      id, {.task_id = core::TaskIdText(token.queue_id, token.dispatch), .follow = true},
      {.show = [](const auto&) { ADD_FAILURE(); }, .end = [](const auto&) { ADD_FAILURE(); }});
  driver_->StopReading(id);
  runner_->Write(token, {.number = 1, .data = "hello"});
  runner_->End(token);
  EXPECT_THAT(GetRun(token), IsOk()) << "all of that was heard";
}

TEST_F(AgentDriverTest, CallsBeyondTheLimitAreRefusedAtOnce) {
  std::promise<void> held;
  std::promise<void> release;
  driver_->GetView([&](const auto&) {
    held.set_value();
    release.get_future().wait();
  });
  held.get_future().wait();
  size_t refused = 0;
  for (size_t i = 0; i <= AgentDriver::kCallsMax; ++i) {
    driver_->GetRun("task", [&](const absl::StatusOr<RunView>& run) {
      if (absl::IsUnavailable(run.status())) ++refused;
    });
  }
  driver_->GetView([&](const absl::StatusOr<AgentView>& view) {
    if (absl::IsUnavailable(view.status())) ++refused;
  });
  EXPECT_EQ(refused, 2u);
  release.set_value();
  driver_.reset();
}

}  // namespace
}  // namespace callboard::agent
