// Parts of a director for tests: an engine whose agents the test plays, an agent link that records,
// and the driver's lanes.

#ifndef CALLBOARD_LIBS_TESTING_ENGINE_FIXTURE_H_
#define CALLBOARD_LIBS_TESTING_ENGINE_FIXTURE_H_

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "libs/base/check.h"
#include "libs/base/error.h"
#include "libs/base/mutex.h"
#include "libs/core/hash.h"
#include "libs/director/driver.h"
#include "libs/director/engine.h"
#include "libs/flow/flow.h"
#include "libs/flow/thread_pool.h"
#include "libs/ports/agent_link.h"
#include "libs/ports/environment.h"
#include "libs/testing/fake_environment.h"
#include "libs/testing/memory_event_store.h"
#include "libs/testing/submissions.h"

namespace callboard::test {

// An agent link that records what is sent and delivers nothing. Thread-safe.
class FakeAgentLink final : public ports::AgentLink {
 public:
  struct SentMessage {
    core::AgentSessionId session;
    core::DirectorMessage message;
    // Messages that were sent together have the same number.
    size_t batch = 0;
  };

  void Send(core::AgentSessionId session, std::vector<core::DirectorMessage> messages) override {
    base::MutexLock lock(mutex_);
    ++batches_;
    for (core::DirectorMessage& message : messages) {
      sent_.push_back({session, std::move(message), batches_});
    }
  }
  void Redial(uint64_t director_epoch) override {
    base::MutexLock lock(mutex_);
    epochs_.push_back(director_epoch);
  }

  std::vector<SentMessage> TakeSent() {
    base::MutexLock lock(mutex_);
    return std::exchange(sent_, {});
  }
  // The director epochs that Redial() received.
  std::vector<uint64_t> epochs() const {
    base::MutexLock lock(mutex_);
    return epochs_;
  }

 private:
  mutable base::Mutex mutex_;
  size_t batches_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<SentMessage> sent_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> epochs_ ABSL_GUARDED_BY(mutex_);
};

// The lanes of a director's driver, with two threads for reads. `clock` must outlive this object.
class DriverFlow {
 public:
  explicit DriverFlow(const ports::Clock& clock, const director::DriverOptions& options = {})
      // One token of each kind: nothing may wait for a token while it holds another one.
      : flow_({.lanes = director::DriverLanes(/*reads_at_once=*/2, options),
               .tokens = flow::Tokens{.cpu = 1, .io = 1, .memory = 1}},
              pool_, clock) {}

  flow::Flow& flow() { return flow_; }

 private:
  flow::ThreadPool pool_{3};
  flow::Flow flow_;
};

// A director's engine without a driver. The test plays the agents, so a rule takes a few lines to
// test. Keeps the records of every turn, as a store would; Restart() builds a new engine from them.
class EngineFixture {
 public:
  explicit EngineFixture(const director::EngineOptions& options = {}) : options_(options) {
    Restart();
  }

  // ---- Time ----

  director::Moment now() const { return now_; }
  // Advances both clocks and fires the timers on the way.
  void Advance(absl::Duration time) {
    const absl::Duration end = now_.monotonic + time;
    while (true) {
      const absl::Duration wait = std::min(engine_->TimeUntilNextTimer(now_), end - now_.monotonic);
      now_.monotonic += wait;
      now_.wall += wait;
      engine_->FireTimers(now_);
      ApplyOutcome();
      if (now_.monotonic >= end) return;
      // A timer may be due now that only the passing of time removes.
      if (wait == absl::ZeroDuration()) {
        now_.monotonic += absl::Milliseconds(1);
        now_.wall += absl::Milliseconds(1);
      }
    }
  }
  // As Advance(), while every connected agent sends heartbeats for its runs.
  void AdvanceWithHeartbeats(absl::Duration time) {
    const absl::Duration end = now_.monotonic + time;
    while (now_.monotonic < end) {
      Advance(std::min(absl::Duration(absl::Seconds(10)), end - now_.monotonic));
      for (const auto& [agent, session] : std::map(sessions_))
        SendHeartbeat(agent, RunningOn(agent));
    }
  }
  // Advances both clocks without running a turn.
  void AdvanceWithoutTurn(absl::Duration time) {
    now_.monotonic += time;
    now_.wall += time;
  }
  // Steps the wall clock; the monotonic clock does not change.
  void StepWall(absl::Duration step) {
    now_.wall += step;
    engine_->FireTimers(now_);
    ApplyOutcome();
  }

  // Starts a new director from the same records. All sessions are lost.
  void Restart() {
    engine_ = std::make_unique<director::DirectorEngine>(options_, random_);
    for (const core::Record& record : Stored()) CHECK_OK(engine_->Recover(record));
    engine_->Begin(now_);
    sessions_.clear();
    answers_.clear();
    messages_.clear();
    ApplyOutcome();
  }

  // ---- Callers ----

  // A submission with a prompt and nothing else.
  static core::Submission Prompt(const std::string& prompt = "echo") {
    return SubmissionOf(prompt);
  }
  // A submission that is requeued when its agent is lost.
  static core::Submission RequeueOnLoss() {
    core::Submission submission = Prompt();
    submission.spec.terms.on_agent_lost = core::OnAgentLost::kRequeue;
    return submission;
  }
  // Fills in the queue's default of max_attempts and the fingerprint, as the API does.
  director::Decision Submit(core::Submission submission, const std::string& identity = "me") {
    uint32_t& max_attempts = submission.spec.terms.max_attempts;
    if (max_attempts == core::QueueOptions().max_attempts) {
      max_attempts = options_.queue.max_attempts;
    }
    submission.fingerprint.high = core::StableHash().Add(*submission.spec.bytes).value();
    director::Decision decision = engine_->Submit(
        director::MakeSubmitRequest(identity, std::move(submission), now_.wall), now_);
    ApplyOutcome();
    return decision;
  }
  // Submits a task. REQUIRES: it is accepted.
  core::QueueId Add(core::Submission submission = Prompt()) {
    const director::Decision decision = Submit(std::move(submission));
    CHECK(std::holds_alternative<director::SubmitResult>(decision)) << ErrorOf(decision);
    return std::get<director::SubmitResult>(decision).queue_id;
  }
  // Submits a task that waits for admission. REQUIRES: the queue is full.
  director::WaiterId AddWaiter(core::Submission submission = Prompt(),
                               const std::string& identity = "me") {
    submission.policy = core::QueuePolicy::kBlock;
    const director::Decision decision = Submit(std::move(submission), identity);
    CHECK(std::holds_alternative<director::WaiterId>(decision)) << ErrorOf(decision);
    return std::get<director::WaiterId>(decision);
  }
  // Submits a task and returns the error; OK when it is accepted or waits.
  absl::Status TrySubmit(core::Submission submission, const std::string& identity = "me") {
    return ErrorOf(Submit(std::move(submission), identity));
  }
  director::Decision Reserve(const std::string& identity = "me",
                             absl::Duration time = absl::Seconds(30)) {
    director::Decision decision = engine_->ReserveSlot(identity, time, now_);
    ApplyOutcome();
    return decision;
  }
  // Reserves a slot and returns the ticket. REQUIRES: a slot is free.
  std::string GrantTicket(const std::string& identity = "me",
                          absl::Duration time = absl::Seconds(30)) {
    const director::Decision decision = Reserve(identity, time);
    CHECK(std::holds_alternative<director::GrantedTicket>(decision)) << ErrorOf(decision);
    return std::get<director::GrantedTicket>(decision).ticket;
  }
  void CancelWait(director::WaiterId waiter) {
    engine_->CancelWait(waiter, now_);
    ApplyOutcome();
  }
  // REQUIRES: the task is known.
  director::CancelResult Cancel(core::QueueId task, const std::string& who = "me",
                                const std::string& why = "") {
    const absl::StatusOr<director::CancelResult> answer = engine_->Cancel(task, who, why, now_);
    CHECK(answer.ok()) << answer.status();
    ApplyOutcome();
    return *answer;
  }
  director::Decision Redrive(core::QueueId task) {
    const bool is_known = disk_.Find(task) != nullptr;
    absl::StatusOr<core::Submission> submission =
        wire::MakeRedrive(is_known ? *Task(task).spec : *SpecBytesOf("unknown"), task);
    CHECK_OK(submission.status());
    director::Decision decision = engine_->Redrive(task, *std::move(submission), "me", now_);
    ApplyOutcome();
    return decision;
  }
  // Runs an operator command.
  void Call(void (director::DirectorEngine::*command)(director::Moment)) {
    (engine_.get()->*command)(now_);
    ApplyOutcome();
  }
  void Call(void (director::DirectorEngine::*command)(const std::string&, const std::string&,
                                                      director::Moment),
            const std::string& why = "") {
    (engine_.get()->*command)("me", why, now_);
    ApplyOutcome();
  }
  void DrainAgent(const std::string& agent, const std::string& why = "") {
    CHECK_OK(engine_->DrainAgent(agent, why, now_));
    ApplyOutcome();
  }
  void UndrainAgent(const std::string& agent) {
    CHECK_OK(engine_->UndrainAgent(agent, now_));
    ApplyOutcome();
  }
  director::KickResult Kick() {
    const director::KickResult kicked = engine_->Kick(now_);
    ApplyOutcome();
    return kicked;
  }
  // Returns the decision for a waiter, or null while it waits.
  const director::Decision* DecisionFor(director::WaiterId waiter) const {
    const auto found = answers_.find(waiter);
    return found == answers_.end() ? nullptr : &found->second;
  }
  static absl::Status ErrorOf(const director::Decision& decision) {
    const auto* status = std::get_if<absl::Status>(&decision);
    return status == nullptr ? absl::OkStatus() : *status;
  }

  // ---- Agents ----

  // Returns an agent with one slot in the default lane and no runs or results.
  static core::SessionOpened IdleAgent(const std::string& name) {
    core::SessionOpened opened;
    opened.name = name;
    opened.instance_id = name + "/1";
    opened.url = "grpc://" + name;
    opened.lanes = {{"default", {.slots = 1, .used = 0}}};
    return opened;
  }
  // Returns an agent that runs these dispatches.
  static core::SessionOpened RunningAgent(const std::string& name,
                                          std::vector<core::FenceToken> tokens) {
    core::SessionOpened opened = IdleAgent(name);
    opened.running = std::move(tokens);
    opened.lanes["default"].used = static_cast<uint32_t>(opened.running.size());
    return opened;
  }
  void Connect(const std::string& name) { Connect(IdleAgent(name)); }
  void Connect(core::SessionOpened opened) {
    // A new process of the same agent has dropped the old Session.
    const auto before = engine_->fleet().agents().find(opened.name);
    if (before != engine_->fleet().agents().end() && before->second.is_connected() &&
        before->second.instance_id != opened.instance_id) {
      BreakSession(opened.name);
    }
    opened.agent_time = now_.monotonic;
    const core::AgentSessionId session(++last_session_);
    sessions_[opened.name] = session;
    CHECK_OK(engine_->OnSessionOpened(session, opened, now_));
    ApplyOutcome();
  }
  void BreakSession(const std::string& agent,
                    const absl::Status& why = absl::UnavailableError("cut")) {
    engine_->OnSessionClosed(sessions_.at(agent), why, now_);
    sessions_.erase(agent);
    ApplyOutcome();
  }
  void Send(const std::string& agent, core::AgentMessage message) {
    SendTogether(agent, absl::MakeConstSpan(&message, 1));
  }
  void SendTogether(const std::string& agent, absl::Span<const core::AgentMessage> messages) {
    engine_->OnMessages(sessions_.at(agent), messages, now_);
    ApplyOutcome();
  }
  void AnswerStart(core::QueueId task, const absl::Status& answer) {
    const core::TaskState& state = engine_->tasks().Find(task)->task;
    Send(state.history->agent, core::StartAnswer{state.token(), answer});
  }
  void AcceptStart(core::QueueId task) { AnswerStart(task, absl::OkStatus()); }
  // Answers 409 (busy). The lane stays full until ReportLoad().
  void AnswerBusy(core::QueueId task) {
    AnswerStart(task, base::WithReason(absl::AbortedError("busy"), "AGENT_BUSY"));
  }
  // Reports that the start could not be written to the Session.
  void FailStartWrite(core::QueueId task) {
    engine_->OnStartNotSent(Token(task), now_);
    ApplyOutcome();
  }
  void FinishRun(core::QueueId task, core::RunResult result = {}) {
    const core::TaskState& state = engine_->tasks().Find(task)->task;
    Send(state.history->agent, core::RunEnded{state.token(), std::move(result)});
  }
  void ReportLoad(const std::string& agent, uint32_t used, uint32_t slots = 1) {
    Send(agent, core::LoadReport{{{"default", {.slots = slots, .used = used}}}});
  }
  // Sends a heartbeat. The agent's time is the director's time here.
  void SendHeartbeat(const std::string& agent, std::vector<core::FenceToken> running) {
    Send(agent, core::Heartbeat{now_.monotonic, std::move(running)});
  }

  // ---- Observable state ----

  director::DirectorEngine& engine() { return *engine_; }
  // Returns the task as users see it. REQUIRES: the task is known.
  core::Task Task(core::QueueId id) const {
    const absl::StatusOr<director::TaskSummary> summary = engine_->views().Summarize(id);
    CHECK(summary.ok()) << summary.status();
    std::vector<core::TaskRecord> records;
    for (const auto& [number, record] : *disk_.Find(id)) records.push_back(record);
    core::Task task = core::BuildTask(records);
    CHECK(task.state == summary->state);
    task.position = summary->position;
    task.redriven_as = summary->redriven_as;
    return task;
  }
  core::LifecycleState State(core::QueueId id) const { return Task(id).state; }
  core::FenceToken Token(core::QueueId id) const { return engine_->tasks().Find(id)->task.token(); }
  // Returns the failure reason; empty unless the task failed.
  std::optional<core::FailureReason> Reason(core::QueueId id) const { return Task(id).reason; }
  // Returns the tokens of the runs that the agent would list.
  std::vector<core::FenceToken> RunningOn(const std::string& agent) const {
    std::vector<core::FenceToken> running;
    for (const auto& [sequence, entry] : engine_->tasks().live_tasks()) {
      const core::TaskState& state = entry->task;
      if (state.state == core::LifecycleState::kWorking && state.history->agent == agent) {
        running.push_back(state.token());
      }
    }
    return running;
  }
  // Returns the state of all tasks, in the engine and in a new engine that loads the same records.
  std::map<core::QueueId, core::TaskState> TaskStates() const {
    return TaskStatesIn(engine_->tasks());
  }
  std::map<core::QueueId, core::TaskState> ReloadedTaskStates() {
    director::DirectorEngine reloaded(options_, random_);
    for (const core::Record& record : Stored()) CHECK_OK(reloaded.Recover(record));
    return TaskStatesIn(reloaded.tasks());
  }
  // Returns the agent of the current or last dispatch.
  std::string AgentOf(core::QueueId id) const {
    return engine_->tasks().Find(id)->task.history->agent;
  }
  // Returns the pending tasks in dispatch order.
  std::vector<core::QueueId> PendingTasks() const {
    std::vector<core::QueueId> queue;
    for (const auto& [sequence, entry] : engine_->tasks().live_tasks()) {
      if (entry->task.is_pending()) queue.push_back(entry->task.queue_id);
    }
    return queue;
  }
  // Returns the stored events of the task.
  std::vector<core::TaskEvent> Events(core::QueueId id) const {
    std::vector<core::TaskEvent> events;
    const auto* records = disk_.Find(id);
    if (records == nullptr) return events;
    for (const auto& [number, record] : *records) events.push_back(record.event);
    return events;
  }
  // Returns the messages of one kind that the director has sent to agents since the last call.
  template <class Message>
  std::vector<Message> TakeSent() {
    std::vector<Message> sent;
    for (director::Outcome::Message& message : std::exchange(messages_, {})) {
      if (auto* found = std::get_if<Message>(&message.message)) sent.push_back(*found);
    }
    return sent;
  }
  size_t records_written() const { return records_written_; }
  // Results that were dropped without a record.
  const std::vector<director::OrphanResult>& orphans() const { return orphans_; }

  // Returns all stored records, in the order in which a store loads them.
  std::vector<core::Record> Stored() const {
    std::vector<core::Record> records;
    disk_.Read([&records](const core::Record& record) { records.push_back(record); });
    return records;
  }

 private:
  static std::map<core::QueueId, core::TaskState> TaskStatesIn(const director::TaskTable& tasks) {
    tasks.CheckIndexes();
    std::map<core::QueueId, core::TaskState> states;
    for (const auto& [sequence, entry] : tasks.live_tasks()) {
      states.emplace(entry->task.queue_id, entry->task);
    }
    for (const auto& [when, entry] : tasks.ended()) {
      states.emplace(entry->task.queue_id, entry->task);
    }
    return states;
  }

  void ApplyOutcome() {
    director::Outcome outcome = engine_->TakeOutcome();
    for (const core::Record& record : outcome.records) {
      ++records_written_;
      disk_.Write(record);
    }
    for (director::Outcome::Answer& answer : outcome.answers) {
      CHECK(answers_.emplace(answer.waiter, std::move(answer.decision)).second);
    }
    orphans_.insert(orphans_.end(), outcome.orphans.begin(), outcome.orphans.end());
    for (director::Outcome::Message& message : outcome.messages)
      messages_.push_back(std::move(message));
  }

  const director::EngineOptions options_;
  FakeRandom random_;
  director::Moment now_ = {absl::FromUnixSeconds(1'700'000'000), absl::Hours(1)};
  std::unique_ptr<director::DirectorEngine> engine_;
  uint64_t last_session_ = 0;
  std::map<std::string, core::AgentSessionId> sessions_;
  std::map<director::WaiterId, director::Decision> answers_;
  std::vector<director::Outcome::Message> messages_;
  MemoryDisk disk_;
  size_t records_written_ = 0;
  std::vector<director::OrphanResult> orphans_;
};

}  // namespace callboard::test

#endif  // CALLBOARD_LIBS_TESTING_ENGINE_FIXTURE_H_
