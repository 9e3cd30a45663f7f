// A director's engine with agents that a test speaks for, so that a rule takes a few lines to try.
#ifndef CALLBOARD_LIBS_TESTING_ENGINE_FIXTURE_H_
#define CALLBOARD_LIBS_TESTING_ENGINE_FIXTURE_H_

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "libs/base/check.h"
#include "libs/base/error.h"
#include "libs/director/engine.h"
#include "libs/testing/fake_random.h"
#include "libs/testing/memory_event_store.h"

namespace callboard::test {

// The records of every turn are kept, as a store would; Restart() makes a new engine from them.
class EngineFixture {
 public:
  explicit EngineFixture(const director::EngineOptions& options = {}) : options_(options) {
    Restart();
  }

  // ---- Time ----

  director::Moment now() const { return now_; }
  // Lets time pass and does what is due on the way.
  void Advance(absl::Duration time) {
    const absl::Duration end = now_.monotonic + time;
    while (true) {
      const absl::Duration wait = std::min(engine_->UntilNextTimer(now_), end - now_.monotonic);
      now_.monotonic += wait;
      now_.wall += wait;
      engine_->FireTimers(now_);
      Take();
      if (now_.monotonic >= end) return;
      // Something may be due at this very moment for a reason that only time removes.
      if (wait == absl::ZeroDuration()) {
        now_.monotonic += absl::Milliseconds(1);
        now_.wall += absl::Milliseconds(1);
      }
    }
  }
  // The same, while every connected agent beats for what it runs.
  void AdvanceBeating(absl::Duration time) {
    const absl::Duration end = now_.monotonic + time;
    while (now_.monotonic < end) {
      Advance(std::min(absl::Duration(absl::Seconds(10)), end - now_.monotonic));
      for (const auto& [agent, session] : std::map(sessions_)) Beat(agent, RunningOn(agent));
    }
  }
  // Lets time pass in which the director gets to nothing.
  void AdvanceWithoutATurn(absl::Duration time) {
    now_.monotonic += time;
    now_.wall += time;
  }
  // Sets the wall clock; the other does not notice.
  void StepWall(absl::Duration step) {
    now_.wall += step;
    engine_->FireTimers(now_);
    Take();
  }

  // A new director over the same records. Sessions are gone.
  void Restart() {
    engine_ = std::make_unique<director::DirectorEngine>(options_, random_);
    for (const core::Record& record : Stored()) CHECK_OK(engine_->Recover(record));
    engine_->Begin(now_);
    sessions_.clear();
    answers_.clear();
    messages_.clear();
    Take();
  }

  // ---- Callers ----

  // A submission with a prompt and nothing else.
  static core::Submission Prompt(const std::string& prompt = "echo") {
    core::Submission submission;
    submission.spec.prompt = prompt;
    return submission;
  }
  // One that goes back in line when its agent is lost.
  static core::Submission Requeued() {
    core::Submission submission = Prompt();
    submission.spec.on_agent_lost = core::OnAgentLost::kRequeue;
    return submission;
  }
  director::Decision Submit(core::Submission submission, const std::string& identity = "me") {
    director::Decision decision =
        engine_->Submit(director::Submitter(identity, std::move(submission), now_.wall), now_);
    Take();
    return decision;
  }
  // REQUIRES: it is accepted.
  core::QueueId Add(core::Submission submission = Prompt()) {
    const director::Decision decision = Submit(std::move(submission));
    CHECK(std::holds_alternative<director::Submitted>(decision)) << ErrorOf(decision);
    return std::get<director::Submitted>(decision).queue_id;
  }
  // REQUIRES: it has to wait.
  director::WaiterId AddWaiter(core::Submission submission = Prompt(),
                               const std::string& identity = "me") {
    submission.policy = core::QueuePolicy::kBlock;
    const director::Decision decision = Submit(std::move(submission), identity);
    CHECK(std::holds_alternative<director::WaiterId>(decision)) << ErrorOf(decision);
    return std::get<director::WaiterId>(decision);
  }
  // The error that a submit gets; OK when it is accepted or waits.
  absl::Status Try(core::Submission submission, const std::string& identity = "me") {
    return ErrorOf(Submit(std::move(submission), identity));
  }
  director::Decision Reserve(const std::string& identity = "me",
                             absl::Duration time = absl::Seconds(30)) {
    director::Decision decision = engine_->ReserveSlot(identity, time, now_);
    Take();
    return decision;
  }
  // REQUIRES: it is granted at once.
  std::string Ticket(const std::string& identity = "me", absl::Duration time = absl::Seconds(30)) {
    const director::Decision decision = Reserve(identity, time);
    CHECK(std::holds_alternative<director::TicketGranted>(decision)) << ErrorOf(decision);
    return std::get<director::TicketGranted>(decision).ticket;
  }
  void Leave(director::WaiterId waiter) {
    engine_->Leave(waiter, now_);
    Take();
  }
  // REQUIRES: the task is known.
  director::CancelAnswer Cancel(core::QueueId task, const std::string& who = "me",
                                const std::string& why = "") {
    const absl::StatusOr<director::CancelAnswer> answer = engine_->Cancel(task, who, why, now_);
    CHECK(answer.ok()) << answer.status();
    Take();
    return *answer;
  }
  director::Decision Redrive(core::QueueId task) {
    const auto* records = disk_.Find(task);
    director::Decision decision =
        engine_->Redrive(task, records == nullptr ? core::TaskSpec() : Task(task).spec, "me", now_);
    Take();
    return decision;
  }
  // One of the operators' commands.
  void Tell(void (director::DirectorEngine::*command)(director::Moment)) {
    (engine_.get()->*command)(now_);
    Take();
  }
  void Tell(void (director::DirectorEngine::*command)(const std::string&, const std::string&,
                                                      director::Moment),
            const std::string& why = "") {
    (engine_.get()->*command)("me", why, now_);
    Take();
  }
  void DrainAgent(const std::string& agent, const std::string& why = "") {
    CHECK_OK(engine_->DrainAgent(agent, why, now_));
    Take();
  }
  void UndrainAgent(const std::string& agent) {
    CHECK_OK(engine_->UndrainAgent(agent, now_));
    Take();
  }
  director::Kicked Kick() {
    const director::Kicked kicked = engine_->Kick(now_);
    Take();
    return kicked;
  }
  // What became of a waiter; nothing while it waits.
  const director::Decision* AnswerTo(director::WaiterId waiter) const {
    const auto found = answers_.find(waiter);
    return found == answers_.end() ? nullptr : &found->second;
  }
  static absl::Status ErrorOf(const director::Decision& decision) {
    const auto* status = std::get_if<absl::Status>(&decision);
    return status == nullptr ? absl::OkStatus() : *status;
  }

  // ---- Agents ----

  // An agent with one slot in the default lane, unless said otherwise, that knows nothing.
  static core::AgentOpened Knowing(const std::string& name) {
    core::AgentOpened opened;
    opened.name = name;
    opened.instance_id = name + "/1";
    opened.url = "grpc://" + name;
    opened.lanes = {{"default", {.slots = 1, .used = 0}}};
    return opened;
  }
  // One that has these under way.
  static core::AgentOpened Running(const std::string& name, std::vector<core::FenceToken> tokens) {
    core::AgentOpened opened = Knowing(name);
    opened.running = std::move(tokens);
    opened.lanes["default"].used = static_cast<uint32_t>(opened.running.size());
    return opened;
  }
  void Connect(const std::string& name) { Connect(Knowing(name)); }
  void Connect(core::AgentOpened opened) {
    // An agent that comes back as a new process has left its old Session.
    const auto before = engine_->fleet().agents().find(opened.name);
    if (before != engine_->fleet().agents().end() && before->second.is_connected() &&
        before->second.instance_id != opened.instance_id) {
      Break(opened.name);
    }
    opened.agent_time = now_.monotonic;
    const core::SessionId session(++last_session_);
    sessions_[opened.name] = session;
    CHECK_OK(engine_->OnOpened(session, opened, now_));
    Take();
  }
  void Break(const std::string& agent, const absl::Status& why = absl::UnavailableError("cut")) {
    engine_->OnBroken(sessions_.at(agent), why, now_);
    sessions_.erase(agent);
    Take();
  }
  void Say(const std::string& agent, core::AgentItem item) {
    SayTogether(agent, absl::MakeConstSpan(&item, 1));
  }
  void SayTogether(const std::string& agent, absl::Span<const core::AgentItem> items) {
    engine_->OnItems(sessions_.at(agent), items, now_);
    Take();
  }
  void Answer(core::QueueId task, const absl::Status& answer) {
    const core::Life& life = engine_->book().Find(task)->life;
    Say(life.tries->agent, core::StartAnswered{life.token(), answer});
  }
  void Accept(core::QueueId task) { Answer(task, absl::OkStatus()); }
  // 409. The lane stays full until Report().
  void RefuseAsBusy(core::QueueId task) {
    Answer(task, base::WithReason(absl::AbortedError("busy"), "AGENT_BUSY"));
  }
  // The start could not be handed to its Session.
  void LoseStart(core::QueueId task) {
    engine_->OnNotWritten(Token(task), now_);
    Take();
  }
  void Finish(core::QueueId task, core::RunResult result = {}) {
    const core::Life& life = engine_->book().Find(task)->life;
    Say(life.tries->agent, core::RunEnded{life.token(), std::move(result)});
  }
  void Report(const std::string& agent, uint32_t used, uint32_t slots = 1) {
    Say(agent, core::LoadReported{{{"default", {.slots = slots, .used = used}}}});
  }
  // With the agent's time, which is the director's here.
  void Beat(const std::string& agent, std::vector<core::FenceToken> running) {
    Say(agent, core::Heartbeat{now_.monotonic, std::move(running)});
  }

  // ---- What can be seen ----

  director::DirectorEngine& engine() { return *engine_; }
  // As its users see it. REQUIRES: the task is known.
  core::Task Task(core::QueueId id) const {
    const absl::StatusOr<director::Glance> glance = engine_->Look(id);
    CHECK(glance.ok()) << glance.status();
    std::vector<core::TaskRecord> records;
    for (const auto& [number, record] : *disk_.Find(id)) records.push_back(record);
    core::Task task = core::TaskFrom(records);
    CHECK(task.state == glance->state);
    task.position = glance->position;
    task.redriven_as = glance->redriven_as;
    return task;
  }
  core::TaskState State(core::QueueId id) const { return Task(id).state; }
  core::FenceToken Token(core::QueueId id) const { return engine_->book().Find(id)->life.token(); }
  // Empty unless it failed.
  std::optional<core::FailureReason> Reason(core::QueueId id) const { return Task(id).reason; }
  // What the agent runs, as it would say.
  std::vector<core::FenceToken> RunningOn(const std::string& agent) const {
    std::vector<core::FenceToken> running;
    for (const auto& [sequence, entry] : engine_->book().line()) {
      const core::Life& life = entry->life;
      if (life.state == core::TaskState::kWorking && life.tries->agent == agent) {
        running.push_back(life.token());
      }
    }
    return running;
  }
  // Everything that the engine knows of tasks, and what one that began now would know.
  std::map<core::QueueId, core::Life> Lives() const { return LivesIn(engine_->book()); }
  std::map<core::QueueId, core::Life> ReloadedLives() {
    director::DirectorEngine reloaded(options_, random_);
    for (const core::Record& record : Stored()) CHECK_OK(reloaded.Recover(record));
    return LivesIn(reloaded.book());
  }
  // The agent of its current or last dispatch.
  std::string AgentOf(core::QueueId id) const {
    return engine_->book().Find(id)->life.tries->agent;
  }
  // Pending tasks, first to last.
  std::vector<core::QueueId> Line() const {
    std::vector<core::QueueId> line;
    for (const auto& [sequence, entry] : engine_->book().line()) {
      if (entry->life.is_pending()) line.push_back(entry->life.queue_id);
    }
    return line;
  }
  // The task's events that the store has.
  std::vector<core::TaskEvent> Events(core::QueueId id) const {
    std::vector<core::TaskEvent> events;
    const auto* records = disk_.Find(id);
    if (records == nullptr) return events;
    for (const auto& [number, record] : *records) events.push_back(record.event);
    return events;
  }
  // What the director said to agents since the last call, of one kind.
  template <class Item>
  std::vector<Item> TakeSaid() {
    std::vector<Item> said;
    for (director::Outcome::Message& message : std::exchange(messages_, {})) {
      if (auto* item = std::get_if<Item>(&message.item)) said.push_back(*item);
    }
    return said;
  }
  size_t records_written() const { return records_written_; }
  // Results that were thrown away without a record.
  const std::vector<director::OrphanResult>& orphans() const { return orphans_; }

  // What the store would hand over.
  std::vector<core::Record> Stored() const {
    std::vector<core::Record> records;
    disk_.Read([&records](const core::Record& record) { records.push_back(record); });
    return records;
  }

 private:
  static std::map<core::QueueId, core::Life> LivesIn(const director::Book& book) {
    book.CheckIndexes();
    std::map<core::QueueId, core::Life> lives;
    for (const auto& [sequence, entry] : book.line()) {
      lives.emplace(entry->life.queue_id, entry->life);
    }
    for (const auto& [when, entry] : book.ended()) {
      lives.emplace(entry->life.queue_id, entry->life);
    }
    return lives;
  }

  void Take() {
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
  std::map<std::string, core::SessionId> sessions_;
  std::map<director::WaiterId, director::Decision> answers_;
  std::vector<director::Outcome::Message> messages_;
  MemoryDisk disk_;
  size_t records_written_ = 0;
  std::vector<director::OrphanResult> orphans_;
};

}  // namespace callboard::test

#endif  // CALLBOARD_LIBS_TESTING_ENGINE_FIXTURE_H_
