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
#include "libs/testing/fake_environment.h"
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

core::DirectorMessage Start(uint64_t task, absl::Duration agent_time) {
  return core::StartRun{.token = Token(task),
                        .run = std::make_shared<const core::RunSpec>(),
                        .agent_time = agent_time};
}

// Keeps the records in memory. Can be made to fail.
class MemoryJournal final : public Journal {
 public:
  absl::Status Write(absl::Span<const JournalRecord> records) override {
    base::MutexLock lock(mutex_);
    if (!failure_.ok()) return failure_;
    for (const JournalRecord& record : records) state_.Apply(record);
    return absl::OkStatus();
  }
  JournalState state() {
    base::MutexLock lock(mutex_);
    return state_;
  }
  void Fail(const absl::Status& failure) {
    base::MutexLock lock(mutex_);
    failure_ = failure;
  }

 private:
  base::Mutex mutex_;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  JournalState state_ ABSL_GUARDED_BY(mutex_);
};

// Collects the messages of a Session. The test waits for them.
class FakeSessionStream final : public SessionStream {
 public:
  void Send(absl::Span<const core::AgentMessage> messages) override {
    base::MutexLock lock(mutex_);
    ++sends_;
    messages_.insert(messages_.end(), messages.begin(), messages.end());
    changed_.NotifyAll();
  }
  void End(const absl::Status& status) override {
    base::MutexLock lock(mutex_);
    end_ = status;
    changed_.NotifyAll();
  }

  core::AgentMessage Next() {
    base::MutexLock lock(mutex_);
    while (messages_.empty()) changed_.Wait(mutex_);
    core::AgentMessage message = std::move(messages_.front());
    messages_.pop_front();
    return message;
  }
  // Waits for the next message of that type and skips all others.
  template <class Message>
  Message NextMessage() {
    while (true) {
      const core::AgentMessage message = Next();
      if (const auto* found = std::get_if<Message>(&message)) return *found;
    }
  }
  absl::Status WaitForEnd() {
    base::MutexLock lock(mutex_);
    while (!end_.has_value()) changed_.Wait(mutex_);
    return *end_;
  }
  bool empty() {
    base::MutexLock lock(mutex_);
    return messages_.empty();
  }
  size_t sends() {
    base::MutexLock lock(mutex_);
    return sends_;
  }

 private:
  base::Mutex mutex_;
  base::CondVar changed_;
  size_t sends_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<core::AgentMessage> messages_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
};

// A runner whose runs end before Start() returns.
class QuickRunner final : public ports::TaskRunner {
 public:
  explicit QuickRunner(ports::RunObserver& observer) : observer_(observer) {}
  absl::Status Check(const core::RunSpec&) const override { return absl::OkStatus(); }
  void Start(ports::RunRequest request) override {
    observer_.OnEnded(request.token, {.exit_code = 0});
  }
  void Stop(const core::FenceToken&) override {}
  void Kill(const core::FenceToken&) override {}
  void MoveFence(const core::FenceToken&, absl::Duration) override {}
  void AcknowledgeOutput(const core::FenceToken&, uint64_t) override {}

 private:
  ports::RunObserver& observer_;
};

class RecordingObserver final : public Observer {
 public:
  void OnRunAccepted(const ports::RunRequest& request) override {
    Record(absl::StrCat("accepted ", request.task_id));
  }
  void OnRunStarted(const core::FenceToken& token, int64_t pid) override {
    Record(absl::StrCat("started ", core::TaskIdText(token.queue_id, token.dispatch), " ", pid));
  }
  void OnRunEnded(const core::FenceToken& token, const core::RunResult& result) override {
    Record(absl::StrCat("ended ", core::TaskIdText(token.queue_id, token.dispatch)));
    base::MutexLock lock(mutex_);
    ends_.push_back(result.end);
  }
  void OnCannotRun(const absl::Status& status) override {
    Record(absl::StrCat("cannot run: ", status.message()));
  }
  void OnTurnEnd(const AgentGauges& gauges) override {
    base::MutexLock lock(mutex_);
    gauges_ = gauges;
  }
  std::vector<std::string> events() {
    base::MutexLock lock(mutex_);
    return events_;
  }
  std::vector<core::RunResult::End> ends() {
    base::MutexLock lock(mutex_);
    return ends_;
  }
  AgentGauges gauges() {
    base::MutexLock lock(mutex_);
    return gauges_;
  }

 private:
  void Record(std::string event) {
    base::MutexLock lock(mutex_);
    events_.push_back(std::move(event));
  }

  base::Mutex mutex_;
  std::vector<std::string> events_ ABSL_GUARDED_BY(mutex_);
  std::vector<core::RunResult::End> ends_ ABSL_GUARDED_BY(mutex_);
  AgentGauges gauges_ ABSL_GUARDED_BY(mutex_);
};

class AgentDriverTest : public testing::Test {
 protected:
  std::shared_ptr<FakeSessionStream> OpenSession(uint64_t epoch = 3) {
    auto stream = std::make_shared<FakeSessionStream>();
    session_ = driver_->OpenSession(stream, {.director_epoch = epoch});
    return stream;
  }
  void Handle(core::DirectorMessage message) { driver_->Handle(session_, {std::move(message)}); }

  // Returns once the runner has received the run.
  core::FenceToken StartDirect() {
    std::promise<absl::StatusOr<DirectStartResult>> answer;
    driver_->StartDirect({.run = std::make_shared<const core::RunSpec>(),
                          .request_id = "r",
                          .fingerprint = {},
                          .required_labels = {}},
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
  RecordingObserver observer_;
  test::FakeTaskRunner* runner_ = nullptr;
  std::unique_ptr<AgentDriver> driver_ = *AgentDriver::Start(
      {.name = "agent-1", .instance_id = "i", .allow_direct = true}, {},
      {clock_, random_, journal_, &observer_},
      [this](ports::RunObserver& observer) -> absl::StatusOr<std::unique_ptr<ports::TaskRunner>> {
        auto runner = std::make_unique<test::FakeTaskRunner>(observer);
        runner_ = runner.get();
        return runner;
      });
  core::AgentSessionId session_;
};

TEST_F(AgentDriverTest, StartIsJournaledAndRunningWhenItIsAnswered) {
  const std::shared_ptr<FakeSessionStream> stream = OpenSession();
  EXPECT_EQ(std::get<core::SessionOpened>(stream->Next()).name, "agent-1");
  Handle(Start(1, clock_.MonotonicNow()));
  EXPECT_THAT(stream->NextMessage<core::StartAnswer>().answer, IsOk());
  EXPECT_THAT(journal_.state().accepted, ElementsAre(Token(1)));
  EXPECT_THAT(runner_->running(), ElementsAre(Token(1)));
  runner_->End(Token(1), {.exit_code = 0, .result = "42"});
  EXPECT_EQ(stream->NextMessage<core::RunEnded>().result.result, "42");
  EXPECT_EQ(journal_.state().results.size(), 1u);
  EXPECT_FALSE(driver_->WaitUntilIdle(absl::ZeroDuration())) << "it is not acknowledged yet";
  Handle(core::ResultAck{Token(1)});
  EXPECT_TRUE(driver_->WaitUntilIdle(absl::Hours(1)));
  EXPECT_THAT(journal_.state().results, IsEmpty());
}

TEST_F(AgentDriverTest, RunThatEndsImmediatelyIsReportedWithItsStartAnswer) {
  driver_ = *AgentDriver::Start(
      {.name = "agent-1", .instance_id = "i"}, {}, {clock_, random_, journal_},
      [](ports::RunObserver& observer) -> absl::StatusOr<std::unique_ptr<ports::TaskRunner>> {
        return std::make_unique<QuickRunner>(observer);
      });
  const std::shared_ptr<FakeSessionStream> stream = OpenSession();
  stream->Next();
  Handle(Start(1, clock_.MonotonicNow()));
  EXPECT_THAT(stream->NextMessage<core::StartAnswer>().answer, IsOk());
  EXPECT_EQ(stream->NextMessage<core::RunEnded>().token, Token(1));
  EXPECT_EQ(stream->sends(), 2u) << "the opening message and this one";
}

TEST_F(AgentDriverTest, TaskThatTheRunnerCannotRunIsRejected) {
  const std::shared_ptr<FakeSessionStream> stream = OpenSession();
  runner_->SetCheck(absl::FailedPreconditionError("no shell"));
  Handle(Start(1, clock_.MonotonicNow()));
  EXPECT_TRUE(absl::IsFailedPrecondition(stream->NextMessage<core::StartAnswer>().answer));
  EXPECT_THAT(observer_.events(), IsEmpty()) << "the task is at fault";
  runner_->SetCheck(absl::ResourceExhaustedError("no space"));
  Handle(Start(2, clock_.MonotonicNow()));
  EXPECT_TRUE(absl::IsResourceExhausted(stream->NextMessage<core::StartAnswer>().answer));
  EXPECT_THAT(observer_.events(), ElementsAre("cannot run: no space"));
}

TEST_F(AgentDriverTest, ObserverIsNotifiedOfEveryStepOfARun) {
  const core::FenceToken token = StartDirect();
  const std::string task_id = core::TaskIdText(token.queue_id, token.dispatch);
  clock_.Advance(absl::Seconds(2));
  runner_->Begin(token, 4711);
  EXPECT_EQ(GetRun(token)->pid, 4711);
  EXPECT_EQ(GetRun(token)->started_at, clock_.WallNow());
  runner_->End(token);
  EXPECT_EQ(GetRun(token)->pid, 0);
  EXPECT_THAT(observer_.events(), ElementsAre("accepted " + task_id, "started " + task_id + " 4711",
                                              "ended " + task_id));
}

TEST_F(AgentDriverTest, KillRunsWaitsUntilTheRunsAreAcknowledged) {
  const std::shared_ptr<FakeSessionStream> stream = OpenSession();
  Handle(Start(1, clock_.MonotonicNow()));
  stream->NextMessage<core::StartAnswer>();
  std::thread director([&] {
    while (!runner_->run(Token(1))->killed) std::this_thread::yield();
    runner_->End(Token(1), {.end = core::RunResult::End::kCancelled});
    EXPECT_EQ(stream->NextMessage<core::RunEnded>().token, Token(1));
    Handle(core::ResultAck{Token(1)});
  });
  EXPECT_TRUE(driver_->KillRuns(absl::Hours(1)));
  director.join();
  EXPECT_THAT(journal_.state().accepted, IsEmpty());
}

TEST_F(AgentDriverTest, WithoutADirectorKillRunsWaitsOnlyForTheRunsToEnd) {
  const core::FenceToken token = StartDirect();
  std::thread process([&] {
    while (!runner_->run(token)->killed) std::this_thread::yield();
    runner_->End(token, {.end = core::RunResult::End::kCancelled});
  });
  EXPECT_TRUE(driver_->KillRuns(absl::Hours(1)));
  process.join();
}

TEST_F(AgentDriverTest, SessionOpensWithTheUrl) {
  driver_->SetUrl("grpc://127.0.0.1:7071");
  EXPECT_EQ(std::get<core::SessionOpened>(OpenSession()->Next()).url, "grpc://127.0.0.1:7071");
}

TEST_F(AgentDriverTest, OutputIsSentAndAcknowledgementsReachTheRunner) {
  const std::shared_ptr<FakeSessionStream> stream = OpenSession();
  Handle(Start(1, clock_.MonotonicNow()));
  stream->NextMessage<core::StartAnswer>();
  runner_->Write(Token(1), {.number = 1, .data = "hello"});
  runner_->Write(Token(1), {.number = 2, .data = "world!"});
  EXPECT_EQ(stream->NextMessage<core::RunOutput>().chunks.at(0).data, "hello");
  EXPECT_EQ(stream->NextMessage<core::RunOutput>().chunks.at(0).data, "world!");
  Handle(core::OutputAck{Token(1), 2});
  while (runner_->run(Token(1))->delivered_bytes < 11) std::this_thread::yield();
  EXPECT_EQ(runner_->run(Token(1))->delivered_bytes, 11u);
}

TEST_F(AgentDriverTest, UnacknowledgedOutputIsSentAgainInTheNextSession) {
  OpenSession();
  Handle(Start(1, clock_.MonotonicNow()));
  while (runner_->running().empty()) std::this_thread::yield();
  runner_->Write(Token(1), {.number = 1, .data = "hello"});
  driver_->OnSessionClosed(session_);
  const std::shared_ptr<FakeSessionStream> next = OpenSession();
  EXPECT_EQ(next->NextMessage<core::RunOutput>().chunks.at(0).data, "hello");
}

TEST_F(AgentDriverTest, WaitsForOutputOnlyWhileADirectorIsConnected) {
  for (const uint64_t task : {1, 2}) {
    const std::shared_ptr<FakeSessionStream> stream = OpenSession();
    Handle(Start(task, clock_.MonotonicNow()));
    stream->NextMessage<core::StartAnswer>();
    runner_->Write(Token(task), {.number = 1, .data = "hello"});
    runner_->End(Token(task));
    stream->NextMessage<core::RunEnded>();
    Handle(core::ResultAck{Token(task)});
    EXPECT_THAT(GetRun(Token(task)), IsOk()) << "all commands before this call were processed";
    // Checks often: it must not become idle a moment later either.
    for (int i = 0; i < 10'000; ++i) {
      ASSERT_FALSE(driver_->WaitUntilIdle(absl::ZeroDuration()));
      std::this_thread::yield();
    }
    if (task == 1) {
      Handle(core::OutputAck{Token(task), 1});
    } else {
      driver_->OnSessionClosed(session_);
    }
    EXPECT_TRUE(driver_->WaitUntilIdle(absl::Hours(1)));
  }
}

TEST_F(AgentDriverTest, NewerSessionReplacesTheOldAndAnOlderDirectorIsRejected) {
  const std::shared_ptr<FakeSessionStream> first = OpenSession(3);
  const std::shared_ptr<FakeSessionStream> second = OpenSession(4);
  EXPECT_THAT(first->WaitForEnd(), HasReason("SESSION_REPLACED"));
  const std::shared_ptr<FakeSessionStream> old = OpenSession(3);
  EXPECT_THAT(old->WaitForEnd(), HasReason("SESSION_REPLACED"));
}

TEST_F(AgentDriverTest, NothingIsExecutedOrSentThatIsNotInTheJournal) {
  const std::shared_ptr<FakeSessionStream> stream = OpenSession();
  stream->Next();
  journal_.Fail(absl::UnavailableError("cannot write journal: disk full"));
  Handle(Start(1, clock_.MonotonicNow()));
  EXPECT_THAT(stream->WaitForEnd(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("disk full")));
  EXPECT_TRUE(stream->empty());
  EXPECT_THAT(runner_->running(), IsEmpty());
  EXPECT_THAT(OpenSession()->WaitForEnd(), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_TRUE(driver_->WaitUntilIdle(absl::Hours(1)))
      << "a failed driver does not keep its owner waiting";
}

TEST_F(AgentDriverTest, ViewListsCurrentRuns) {
  const std::shared_ptr<FakeSessionStream> stream = OpenSession();
  Handle(Start(1, clock_.MonotonicNow()));
  stream->NextMessage<core::StartAnswer>();
  driver_->BeginDrain();
  std::promise<absl::StatusOr<AgentSnapshot>> answer;
  driver_->GetSnapshot([&](auto snapshot) { answer.set_value(std::move(snapshot)); });
  const AgentSnapshot snapshot = *answer.get_future().get();
  EXPECT_EQ(snapshot.name, "agent-1");
  EXPECT_TRUE(snapshot.connected);
  EXPECT_TRUE(snapshot.draining);
  EXPECT_EQ(snapshot.lanes.at("default").used, 1u);
  ASSERT_EQ(snapshot.runs.size(), 1u);
  EXPECT_EQ(snapshot.runs[0].token, Token(1));
}

TEST_F(AgentDriverTest, ObserverSeesATurnBeforeTheDirectorDoes) {
  const AgentGauges idle = {.lanes = {{"default", {.slots = 1}}}};
  EXPECT_EQ(observer_.gauges(), idle);
  const std::shared_ptr<FakeSessionStream> stream = OpenSession();
  Handle(Start(1, clock_.MonotonicNow()));
  stream->NextMessage<core::StartAnswer>();
  const AgentGauges busy = {.lanes = {{"default", {.slots = 1, .used = 1}}}, .connected = true};
  EXPECT_EQ(observer_.gauges(), busy);
  runner_->End(Token(1), {.end = core::RunResult::End::kFailed});
  stream->NextMessage<core::RunEnded>();
  EXPECT_THAT(observer_.ends(), ElementsAre(core::RunResult::End::kFailed));
  const AgentGauges reported = {
      .lanes = {{"default", {.slots = 1}}}, .unacknowledged_results = 1, .connected = true};
  EXPECT_EQ(observer_.gauges(), reported);
}

// ---- Callers ------------------------------------------------------------------------------------

TEST_F(AgentDriverTest, DirectRunIsRunningWhenAnsweredAndItsResultIsKept) {
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
  EXPECT_EQ(journal_.state().results.size(), 0u);
  EXPECT_THAT(GetRun(Token(9)), HasReason("TASK_NOT_FOUND"));
}

TEST_F(AgentDriverTest, DispatchedRunCanBeRead) {
  const std::shared_ptr<FakeSessionStream> stream = OpenSession();
  Handle(Start(1, clock_.MonotonicNow()));
  stream->NextMessage<core::StartAnswer>();
  EXPECT_EQ(GetRun(Token(1))->result, std::nullopt);
}

TEST_F(AgentDriverTest, OutputOfADirectRunIsAcknowledgedWithoutReaders) {
  const core::FenceToken token = StartDirect();
  for (uint64_t number = 1; number <= 100; ++number) {
    runner_->Write(token, {.number = number, .data = std::string(32 * 1024, 'x')});
  }
  EXPECT_THAT(GetRun(token), IsOk()) << "all commands before this call were processed";
  EXPECT_EQ(runner_->run(token)->delivered_bytes, 100u * 32 * 1024);
}

TEST_F(AgentDriverTest, ReaderGetsOutputAsItIsWrittenAndThenTheEnd) {
  const core::FenceToken token = StartDirect();
  const ReaderId id = driver_->NextReader();
  std::promise<std::string> output;
  std::promise<absl::Status> ended;
  driver_->ReadOutput(
      id, {.task_id = core::TaskIdText(token.queue_id, token.dispatch), .follow = true},
      {.on_output = [&](const auto& piece) { output.set_value(piece.chunks.at(0).data); },
       .on_end = [&](const absl::Status& status) { ended.set_value(status); }});
  runner_->Write(token, {.number = 1, .data = "hello"});
  EXPECT_EQ(output.get_future().get(), "hello");
  runner_->End(token);
  driver_->ReadNext(id);
  EXPECT_THAT(ended.get_future().get(), IsOk());
}

TEST_F(AgentDriverTest, StoppedReaderGetsNothing) {
  const core::FenceToken token = StartDirect();
  const ReaderId id = driver_->NextReader();
  driver_->ReadOutput(id,
                      {.task_id = core::TaskIdText(token.queue_id, token.dispatch), .follow = true},
                      {.on_output = [](const auto&) { ADD_FAILURE(); },
                       .on_end = [](const auto&) { ADD_FAILURE(); }});
  driver_->StopReading(id);
  runner_->Write(token, {.number = 1, .data = "hello"});
  runner_->End(token);
  EXPECT_THAT(GetRun(token), IsOk()) << "all commands before this call were processed";
}

TEST_F(AgentDriverTest, CallsBeyondTheLimitFailImmediately) {
  std::promise<void> held;
  std::promise<void> release;
  driver_->GetSnapshot([&](const auto&) {
    held.set_value();
    release.get_future().wait();
  });
  held.get_future().wait();
  size_t rejected = 0;
  for (size_t i = 0; i <= AgentDriver::kCallsMax; ++i) {
    driver_->GetRun("task", [&](const absl::StatusOr<RunView>& run) {
      if (absl::IsUnavailable(run.status())) ++rejected;
    });
  }
  driver_->GetSnapshot([&](const absl::StatusOr<AgentSnapshot>& snapshot) {
    if (absl::IsUnavailable(snapshot.status())) ++rejected;
  });
  EXPECT_EQ(rejected, 2u);
  release.set_value();
  driver_.reset();
}

}  // namespace
}  // namespace callboard::agent
