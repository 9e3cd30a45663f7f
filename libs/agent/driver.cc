#include "libs/agent/driver.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>

#include "libs/base/error.h"
#include "libs/core/dispatch_rules.h"

namespace callboard::agent {
namespace {

absl::Status Overloaded() {
  return base::WithRetryAfter(
      base::WithReason(
          absl::UnavailableError("too many calls are waiting for the agent; retry later"),
          "OVERLOADED"),
      absl::Seconds(1));
}

}  // namespace

absl::StatusOr<std::unique_ptr<AgentDriver>> AgentDriver::Start(
    EngineOptions options, const JournalState& journal, const Deps& deps,
    const ports::TaskRunnerFactory& make_runner) {
  auto driver = std::unique_ptr<AgentDriver>(new AgentDriver(std::move(options), journal, deps));
  ASSIGN_OR_RETURN(driver->runner_, make_runner(*driver));
  driver->NotifyObserver();
  driver->thread_ = std::thread([&driver = *driver] { driver.Run(); });
  return driver;
}

AgentDriver::AgentDriver(EngineOptions options, const JournalState& journal, const Deps& deps)
    : deps_(deps),
      engine_(
          [&] {
            // Called only during a turn, and no turn runs before `runner_` is set.
            options.check = [this](const core::RunSpec& spec) { return CheckTask(spec); };
            return std::move(options);
          }(),
          journal) {}

AgentDriver::~AgentDriver() {
  {
    base::MutexLock lock(mutex_);
    stopping_ = true;
    work_available_.NotifyOne();
  }
  if (thread_.joinable()) thread_.join();
  // The ends of the remaining runs are queued but never processed: after a restart they are lost.
  runner_.reset();
}

void AgentDriver::Enqueue(Command command) {
  commands_.push_back(std::move(command));
  idle_ = false;
  runs_reported_ = false;
}

void AgentDriver::Post(Command command) {
  base::MutexLock lock(mutex_);
  Enqueue(std::move(command));
  if (!turn_in_progress_) work_available_.NotifyOne();
}

void AgentDriver::PostCall(Command command, const std::function<void(absl::Status)>& reject) {
  {
    base::MutexLock lock(mutex_);
    if (commands_.size() < kCallsMax) {
      Enqueue(std::move(command));
      if (!turn_in_progress_) work_available_.NotifyOne();
      return;
    }
  }
  reject(Overloaded());
}

core::AgentSessionId AgentDriver::OpenSession(std::shared_ptr<SessionStream> stream,
                                              const core::SessionTerms& terms) {
  core::AgentSessionId session;
  {
    base::MutexLock lock(mutex_);
    session = core::AgentSessionId(++last_session_);
  }
  Post([this, session, stream = std::move(stream), terms](absl::Duration now) {
    DoOpenSession(session, stream, terms, now);
  });
  return session;
}

void AgentDriver::DoOpenSession(core::AgentSessionId session, std::shared_ptr<SessionStream> stream,
                                const core::SessionTerms& terms, absl::Duration now) {
  // Messages of the previous Session go to its own stream.
  ApplyOutcome();
  Flush();
  absl::Status status = failure_;
  if (status.ok()) status = engine_.OpenSession(session, terms, now);
  if (!status.ok()) return stream->End(status);
  if (stream_ != nullptr) {
    stream_->End(base::WithReason(absl::AbortedError("a newer Session has replaced this one"),
                                  "SESSION_REPLACED"));
  }
  stream_ = std::move(stream);
  ApplyOutcome();
  for (const auto& [token, output] : outputs_) {
    for (const core::OutputChunk& chunk : output.chunks) {
      outbox_.push_back(core::RunOutput{token, {chunk}});
    }
    if (output.ended) outbox_.push_back(core::RunOutput{token, {}, /*is_last=*/true});
  }
}

void AgentDriver::Handle(core::AgentSessionId session,
                         std::vector<core::DirectorMessage> messages) {
  auto handle = [this, session, messages = std::move(messages)](absl::Duration now) {
    for (const core::DirectorMessage& message : messages) {
      const auto* output = std::get_if<core::OutputAck>(&message);
      if (output != nullptr && engine_.IsOpen(session)) OnOutputAcknowledged(*output);
      engine_.Handle(session, message, now);
    }
  };
  {
    base::MutexLock lock(mutex_);
    Enqueue(std::move(handle));
    if (std::exchange(turn_in_progress_, true)) return;
  }
  RunTurn();
}

void AgentDriver::OnSessionClosed(core::AgentSessionId session) {
  Post([this, session](absl::Duration) {
    if (engine_.IsOpen(session)) stream_ = nullptr;
    engine_.OnSessionClosed(session);
  });
}

void AgentDriver::GetSnapshot(Reply<AgentSnapshot> reply) {
  PostCall(
      [this, reply](absl::Duration) {
        AgentSnapshot snapshot = {.name = engine_.options().name,
                                  .instance_id = engine_.options().instance_id,
                                  .lanes = engine_.load(),
                                  .labels = engine_.options().labels,
                                  .connected = engine_.is_connected(),
                                  .director_epoch = engine_.director_epoch(),
                                  .draining = engine_.is_draining(),
                                  .runs = {},
                                  .unacknowledged_results = engine_.unacknowledged_results()};
        for (const std::string& task_id : engine_.RunningTaskIds()) {
          // The table has every running task.
          snapshot.runs.push_back(*run_table_.Find(task_id));
        }
        reply(std::move(snapshot));
      },
      reply);
}

void AgentDriver::StartDirect(DirectStart start, Reply<DirectStartResult> reply) {
  PostCall(
      [this, start = std::move(start), reply](absl::Duration) {
        const core::Ulid ulid =
            core::Ulid::At(deps_.clock.WallNow(), {deps_.random.Next(), deps_.random.Next()});
        const absl::StatusOr<DirectStartResult> result = engine_.StartDirect(
            {.queue_id = core::QueueId(ulid), .dispatch = core::DispatchNumber(1)}, start);
        ApplyOutcome();
        if (!failure_.ok()) return reply(failure_);
        reply(result);
      },
      reply);
}

void AgentDriver::GetRun(std::string task_id, Reply<RunView> reply) {
  PostCall([this, task_id = std::move(task_id),
            reply](absl::Duration) { reply(run_table_.Find(task_id)); },
           reply);
}

void AgentDriver::ReadOutput(ReaderId id, OutputQuery query, OutputCallbacks callbacks) {
  PostCall([this, id, query = std::move(query),
            callbacks](absl::Duration) { run_table_.StartReading(id, query, callbacks); },
           callbacks.on_end);
}

void AgentDriver::ReadNext(ReaderId id) {
  Post([this, id](absl::Duration) { run_table_.ReadNext(id); });
}

void AgentDriver::StopReading(ReaderId id) {
  Post([this, id](absl::Duration) { run_table_.StopReading(id); });
}

void AgentDriver::BeginDrain() {
  Post([this](absl::Duration) { engine_.BeginDrain(); });
}

void AgentDriver::SetUrl(std::string url) {
  Post([this, url = std::move(url)](absl::Duration) { engine_.SetUrl(url); });
}

bool AgentDriver::KillRuns(absl::Duration timeout) {
  Post([this](absl::Duration) { engine_.KillRuns(); });
  base::MutexLock lock(mutex_);
  return WaitUntil(runs_reported_, timeout);
}

bool AgentDriver::WaitUntilIdle(absl::Duration timeout) {
  base::MutexLock lock(mutex_);
  return WaitUntil(idle_, timeout);
}

bool AgentDriver::WaitUntil(const bool& reached, absl::Duration timeout) {
  const absl::Duration deadline = deps_.clock.MonotonicNow() + timeout;
  while (!reached) {
    const absl::Duration left = deadline - deps_.clock.MonotonicNow();
    if (left <= absl::ZeroDuration()) return false;
    idle_changed_.WaitFor(mutex_, left);
  }
  return true;
}

absl::Status AgentDriver::CheckTask(const core::RunSpec& spec) const {
  absl::Status status = runner_->Check(spec);
  const core::AnswerMeaning meaning = core::ClassifyStartAnswer(status);
  const bool is_agents_fault =
      meaning == core::AnswerMeaning::kAgentAtFault || meaning == core::AnswerMeaning::kTransient;
  if (is_agents_fault && deps_.observer != nullptr) deps_.observer->OnCannotRun(status);
  return status;
}

void AgentDriver::OnStarted(const core::FenceToken& token, int64_t pid) {
  Post([this, token, pid](absl::Duration) {
    run_table_.OnStarted(token, pid, deps_.clock.WallNow());
    if (deps_.observer != nullptr) deps_.observer->OnRunStarted(token, pid);
  });
}

void AgentDriver::OnOutput(const core::FenceToken& token, ports::OutputChunk chunk) {
  Post([this, token, chunk = std::move(chunk)](absl::Duration) mutable {
    SendOutput(token, std::move(chunk));
  });
}

void AgentDriver::OnEnded(const core::FenceToken& token, core::RunResult result) {
  Post([this, token, result = std::move(result)](absl::Duration) mutable {
    const auto output = outputs_.find(token);
    if (output != outputs_.end()) {
      output->second.ended = true;
      outbox_.push_back(core::RunOutput{token, {}, /*is_last=*/true});
      if (output->second.chunks.empty()) outputs_.erase(output);
    }
    if (deps_.observer != nullptr) deps_.observer->OnRunEnded(token, result);
    run_table_.OnEnded(token, result, deps_.clock.WallNow());
    engine_.OnEnded(token, std::move(result));
  });
}

void AgentDriver::SendOutput(const core::FenceToken& token, core::OutputChunk chunk) {
  run_table_.OnOutput(token, chunk);
  // The director receives no output of direct runs.
  if (token.director_epoch == 0) return runner_->AcknowledgeOutput(token, chunk.data.size());
  outbox_.push_back(core::RunOutput{token, {chunk}});
  outputs_[token].chunks.push_back(std::move(chunk));
}

void AgentDriver::OnOutputAcknowledged(const core::OutputAck& acknowledged) {
  const auto output = outputs_.find(acknowledged.token);
  if (output == outputs_.end()) return;
  std::deque<core::OutputChunk>& chunks = output->second.chunks;
  uint64_t bytes = 0;
  while (!chunks.empty() && chunks.front().number <= acknowledged.number) {
    bytes += chunks.front().data.size();
    chunks.pop_front();
  }
  runner_->AcknowledgeOutput(acknowledged.token, bytes);
  if (chunks.empty() && output->second.ended) outputs_.erase(output);
}

void AgentDriver::Run() {
  while (WaitForTurn()) RunTurn();
}

bool AgentDriver::WaitForTurn() {
  base::MutexLock lock(mutex_);
  while (true) {
    wake_at_ = turn_in_progress_ ? absl::InfiniteDuration() : NextTimer();
    const absl::Duration wait = wake_at_ - deps_.clock.MonotonicNow();
    if (!turn_in_progress_ && (!commands_.empty() || wait <= absl::ZeroDuration())) break;
    if (!turn_in_progress_ && stopping_) return false;
    if (wait == absl::InfiniteDuration()) {
      work_available_.Wait(mutex_);
    } else {
      work_available_.WaitFor(mutex_, wait);
    }
  }
  turn_in_progress_ = true;
  return true;
}

void AgentDriver::RunTurn() {
  RunCommands();
  // Runs again, so that a run that has ended meanwhile is reported in the same message as its
  // start.
  RunCommands();
  engine_.EndTurn();
  ApplyOutcome();
  // The observer sees a turn before the director does.
  NotifyObserver();
  Flush();
  base::MutexLock lock(mutex_);
  turn_in_progress_ = false;
  // A director that is not connected takes no output, and may never come back.
  const bool delivered = outputs_.empty() || !engine_.is_connected();
  const bool settled = (engine_.is_idle() && delivered) || !failure_.ok();
  idle_ = commands_.empty() && settled;
  runs_reported_ =
      commands_.empty() && (settled || (!engine_.is_running() && !engine_.is_connected()));
  if (idle_ || runs_reported_) idle_changed_.NotifyAll();
  if (!commands_.empty() || stopping_ || NextTimer() < wake_at_) work_available_.NotifyOne();
}

void AgentDriver::RunCommands() {
  std::deque<Command> commands;
  {
    base::MutexLock lock(mutex_);
    commands.swap(commands_);
  }
  const absl::Duration now = deps_.clock.MonotonicNow();
  for (const Command& command : commands) command(now);
  engine_.FireTimers(now);
  ApplyOutcome();
}

absl::Duration AgentDriver::NextTimer() const {
  const absl::Duration now = deps_.clock.MonotonicNow();
  return now + engine_.TimeUntilNextTimer(now);
}

void AgentDriver::ApplyOutcome() {
  Outcome outcome = engine_.TakeOutcome();
  // An agent that cannot store which tasks it accepted must not accept any.
  if (failure_.ok() && !outcome.journal.empty()) failure_ = deps_.journal.Write(outcome.journal);
  if (!failure_.ok()) {
    outbox_.clear();
    if (stream_ != nullptr) std::exchange(stream_, nullptr)->End(failure_);
    return;
  }
  for (const RunnerCommand& command : outcome.runner_commands) Execute(command);
  std::move(outcome.messages.begin(), outcome.messages.end(), std::back_inserter(outbox_));
}

void AgentDriver::Flush() {
  if (stream_ != nullptr && !outbox_.empty()) stream_->Send(outbox_);
  outbox_.clear();
}

void AgentDriver::NotifyObserver() const {
  if (deps_.observer == nullptr) return;
  deps_.observer->OnTurnEnd({.lanes = engine_.load(),
                             .unacknowledged_results = engine_.unacknowledged_results(),
                             .unknown_items = engine_.unknown_items(),
                             .connected = engine_.is_connected(),
                             .draining = engine_.is_draining()});
}

void AgentDriver::Execute(const RunnerCommand& command) {
  struct Step {
    void operator()(const ports::RunRequest& run) const {
      driver.run_table_.OnAccepted(run.token, driver.deps_.clock.WallNow());
      if (driver.deps_.observer != nullptr) driver.deps_.observer->OnRunAccepted(run);
      driver.runner_->Start(run);
    }
    void operator()(const StopRun& stop) const { driver.runner_->Stop(stop.token); }
    void operator()(const KillRun& kill) const { driver.runner_->Kill(kill.token); }
    void operator()(const MoveFence& moved) const {
      driver.runner_->MoveFence(moved.token, moved.fence_at);
    }
    AgentDriver& driver;
  };
  std::visit(Step{*this}, command);
}

}  // namespace callboard::agent
