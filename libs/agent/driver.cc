#include "libs/agent/driver.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>

#include "libs/base/error.h"
#include "libs/base/status_macros.h"
#include "libs/core/answer.h"

namespace callboard::agent {
namespace {

absl::Status Overloaded() {
  return base::WithRetryAfter(
      base::WithReason(absl::UnavailableError("too many calls wait for the agent; retry"),
                       "OVERLOADED"),
      absl::Seconds(1));
}

}  // namespace

absl::StatusOr<std::unique_ptr<AgentDriver>> AgentDriver::Start(
    EngineOptions options, const Journaled& journaled, const World& world,
    const ports::MakeRunner& make_runner) {
  auto driver = std::unique_ptr<AgentDriver>(new AgentDriver(std::move(options), journaled, world));
  ASSIGN_OR_RETURN(driver->runner_, make_runner(*driver));
  driver->ShowLevels();
  driver->thread_ = std::thread([&driver = *driver] { driver.Run(); });
  return driver;
}

AgentDriver::AgentDriver(EngineOptions options, const Journaled& journaled, const World& world)
    : world_(world),
      engine_(
          [&] {
            // Asked by whoever has the turn, and nobody has before the runner is there.
            options.check = [this](const core::TaskSpec& spec) { return Check(spec); };
            return std::move(options);
          }(),
          journaled) {}

AgentDriver::~AgentDriver() {
  {
    base::MutexLock lock(mutex_);
    stopping_ = true;
    something_to_do_.NotifyOne();
  }
  if (thread_.joinable()) thread_.join();
  // It tells how its runs end, and nobody hears of it any more: the next life finds them lost.
  runner_.reset();
}

void AgentDriver::Push(Command command) {
  waiting_.push_back(std::move(command));
  idle_ = false;
  told_ = false;
}

void AgentDriver::Post(Command command) {
  base::MutexLock lock(mutex_);
  Push(std::move(command));
  if (!turn_is_taken_) something_to_do_.NotifyOne();
}

void AgentDriver::PostCall(Command command, const std::function<void(absl::Status)>& refuse) {
  {
    base::MutexLock lock(mutex_);
    if (waiting_.size() < kCallsMax) {
      Push(std::move(command));
      if (!turn_is_taken_) something_to_do_.NotifyOne();
      return;
    }
  }
  refuse(Overloaded());
}

core::SessionId AgentDriver::Open(std::shared_ptr<SessionLine> line,
                                  const core::SessionTerms& terms) {
  core::SessionId session;
  {
    base::MutexLock lock(mutex_);
    session = core::SessionId(++last_session_);
  }
  Post([this, session, line = std::move(line), terms](absl::Duration now) {
    DoOpen(session, line, terms, now);
  });
  return session;
}

void AgentDriver::DoOpen(core::SessionId session, std::shared_ptr<SessionLine> line,
                         const core::SessionTerms& terms, absl::Duration now) {
  // What was to be said before goes to whom it was meant for.
  Follow();
  Speak();
  absl::Status status = failure_;
  if (status.ok()) status = engine_.Open(session, terms, now);
  if (!status.ok()) return line->End(status);
  if (line_ != nullptr) {
    line_->End(
        base::WithReason(absl::AbortedError("a newer Session has begun"), "SESSION_REPLACED"));
  }
  line_ = std::move(line);
  Follow();
  for (const auto& [token, output] : outputs_) {
    for (const core::OutputChunk& chunk : output.unacknowledged) {
      unsaid_.push_back(core::OutputWritten{token, {chunk}});
    }
    if (output.ended) unsaid_.push_back(core::OutputWritten{token, {}, /*is_last=*/true});
  }
}

void AgentDriver::Hear(core::SessionId session, std::vector<core::DirectorWord> words) {
  auto hear = [this, session, words = std::move(words)](absl::Duration now) {
    for (const core::DirectorWord& word : words) {
      const auto* output = std::get_if<core::OutputAcknowledged>(&word);
      if (output != nullptr && engine_.IsOpen(session)) OnOutputAcknowledged(*output);
      engine_.Hear(session, word, now);
    }
  };
  {
    base::MutexLock lock(mutex_);
    Push(std::move(hear));
    if (std::exchange(turn_is_taken_, true)) return;
  }
  TakeTurn();
}

void AgentDriver::OnBroken(core::SessionId session) {
  Post([this, session](absl::Duration) {
    if (engine_.IsOpen(session)) line_ = nullptr;
    engine_.OnBroken(session);
  });
}

void AgentDriver::GetView(Reply<AgentView> reply) {
  PostCall(
      [this, reply](absl::Duration) {
        AgentView view = {.name = engine_.options().name,
                          .instance_id = engine_.options().instance_id,
                          .lanes = engine_.load(),
                          .labels = engine_.options().labels,
                          .connected = engine_.is_connected(),
                          .director_epoch = engine_.director_epoch(),
                          .draining = engine_.is_draining(),
                          .runs = {},
                          .unacknowledged_results = engine_.unacknowledged()};
        for (const std::string& task_id : engine_.RunningTaskIds()) {
          // All that runs is in the book.
          view.runs.push_back(*book_.Find(task_id));
        }
        reply(std::move(view));
      },
      reply);
}

void AgentDriver::StartDirect(core::SpecPtr spec, const core::SpanContext& trace,
                              Reply<DirectStart> reply) {
  PostCall(
      [this, spec = std::move(spec), trace, reply](absl::Duration) {
        const core::Ulid ulid =
            core::Ulid::At(world_.clock.WallNow(), {world_.random.Next(), world_.random.Next()});
        const absl::StatusOr<DirectStart> start = engine_.StartDirect(
            {.queue_id = core::QueueId(ulid), .dispatch = core::DispatchNumber(1)}, spec, trace);
        Follow();
        if (!failure_.ok()) return reply(failure_);
        reply(start);
      },
      reply);
}

void AgentDriver::GetRun(std::string task_id, Reply<RunView> reply) {
  PostCall(
      [this, task_id = std::move(task_id), reply](absl::Duration) { reply(book_.Find(task_id)); },
      reply);
}

void AgentDriver::ReadOutput(ReaderId id, OutputQuery query, OutputReader reader) {
  PostCall([this, id, query = std::move(query),
            reader](absl::Duration) { book_.Read(id, query, reader); },
           reader.end);
}

void AgentDriver::GoOn(ReaderId id) {
  Post([this, id](absl::Duration) { book_.GoOn(id); });
}

void AgentDriver::StopReading(ReaderId id) {
  Post([this, id](absl::Duration) { book_.StopReading(id); });
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
  return WaitFor(told_, timeout);
}

bool AgentDriver::WaitUntilIdle(absl::Duration timeout) {
  base::MutexLock lock(mutex_);
  return WaitFor(idle_, timeout);
}

bool AgentDriver::WaitFor(const bool& reached, absl::Duration timeout) {
  const absl::Duration deadline = world_.clock.MonotonicNow() + timeout;
  while (!reached) {
    const absl::Duration left = deadline - world_.clock.MonotonicNow();
    if (left <= absl::ZeroDuration()) return false;
    settled_.WaitFor(mutex_, left);
  }
  return true;
}

absl::Status AgentDriver::Check(const core::TaskSpec& spec) const {
  absl::Status status = runner_->Check(spec);
  const core::AnswerMeaning meaning = core::MeaningOf(status);
  const bool is_agents_own =
      meaning == core::AnswerMeaning::kAgentAtFault || meaning == core::AnswerMeaning::kTransient;
  if (is_agents_own && world_.observer != nullptr) world_.observer->OnCannotRun(status);
  return status;
}

void AgentDriver::OnStarted(const core::FenceToken& token, int64_t pid) {
  Post([this, token, pid](absl::Duration) {
    book_.OnStarted(token, pid, world_.clock.WallNow());
    if (world_.observer != nullptr) world_.observer->OnRunStarted(token, pid);
  });
}

void AgentDriver::OnOutput(const core::FenceToken& token, ports::OutputChunk chunk) {
  Post([this, token, chunk = std::move(chunk)](absl::Duration) mutable {
    SayOutput(token, std::move(chunk));
  });
}

void AgentDriver::OnEnded(const core::FenceToken& token, core::RunResult result) {
  Post([this, token, result = std::move(result)](absl::Duration) mutable {
    const auto output = outputs_.find(token);
    if (output != outputs_.end()) {
      output->second.ended = true;
      unsaid_.push_back(core::OutputWritten{token, {}, /*is_last=*/true});
      if (output->second.unacknowledged.empty()) outputs_.erase(output);
    }
    if (world_.observer != nullptr) world_.observer->OnRunEnded(token, result);
    book_.OnEnded(token, result, world_.clock.WallNow());
    engine_.OnEnded(token, std::move(result));
  });
}

void AgentDriver::SayOutput(const core::FenceToken& token, core::OutputChunk chunk) {
  book_.OnOutput(token, chunk);
  // Of a run that no director asked for nobody else wants to hear.
  if (token.director_epoch == 0) return runner_->Delivered(token, chunk.data.size());
  unsaid_.push_back(core::OutputWritten{token, {chunk}});
  outputs_[token].unacknowledged.push_back(std::move(chunk));
}

void AgentDriver::OnOutputAcknowledged(const core::OutputAcknowledged& acknowledged) {
  const auto output = outputs_.find(acknowledged.token);
  if (output == outputs_.end()) return;
  std::deque<core::OutputChunk>& chunks = output->second.unacknowledged;
  uint64_t bytes = 0;
  while (!chunks.empty() && chunks.front().number <= acknowledged.number) {
    bytes += chunks.front().data.size();
    chunks.pop_front();
  }
  runner_->Delivered(acknowledged.token, bytes);
  if (chunks.empty() && output->second.ended) outputs_.erase(output);
}

void AgentDriver::Run() {
  while (WaitForTurn()) TakeTurn();
}

bool AgentDriver::WaitForTurn() {
  base::MutexLock lock(mutex_);
  while (true) {
    wakes_at_ = turn_is_taken_ ? absl::InfiniteDuration() : NextTimer();
    const absl::Duration wait = wakes_at_ - world_.clock.MonotonicNow();
    if (!turn_is_taken_ && (!waiting_.empty() || wait <= absl::ZeroDuration())) break;
    if (!turn_is_taken_ && stopping_) return false;
    if (wait == absl::InfiniteDuration()) {
      something_to_do_.Wait(mutex_);
    } else {
      something_to_do_.WaitFor(mutex_, wait);
    }
  }
  turn_is_taken_ = true;
  return true;
}

void AgentDriver::TakeTurn() {
  DecideWaiting();
  // A run that has ended by now is told of in the same message as its start.
  DecideWaiting();
  engine_.EndTurn();
  Follow();
  // Before anybody hears of it.
  ShowLevels();
  Speak();
  base::MutexLock lock(mutex_);
  turn_is_taken_ = false;
  // Who is not connected takes no output, and may never come back.
  const bool delivered = outputs_.empty() || !engine_.is_connected();
  const bool settled = (engine_.is_idle() && delivered) || !failure_.ok();
  idle_ = waiting_.empty() && settled;
  told_ = waiting_.empty() && (settled || (!engine_.is_running() && !engine_.is_connected()));
  if (idle_ || told_) settled_.NotifyAll();
  if (!waiting_.empty() || stopping_ || NextTimer() < wakes_at_) something_to_do_.NotifyOne();
}

void AgentDriver::DecideWaiting() {
  std::deque<Command> commands;
  {
    base::MutexLock lock(mutex_);
    commands.swap(waiting_);
  }
  const absl::Duration now = world_.clock.MonotonicNow();
  for (const Command& command : commands) command(now);
  engine_.FireTimers(now);
  Follow();
}

absl::Duration AgentDriver::NextTimer() const {
  const absl::Duration now = world_.clock.MonotonicNow();
  return now + engine_.UntilNextTimer(now);
}

void AgentDriver::Follow() {
  Outcome outcome = engine_.TakeOutcome();
  // An agent that cannot remember what it accepted must not accept.
  if (failure_.ok() && !outcome.journal.empty()) failure_ = world_.journal.Write(outcome.journal);
  if (!failure_.ok()) {
    unsaid_.clear();
    if (line_ != nullptr) std::exchange(line_, nullptr)->End(failure_);
    return;
  }
  for (const RunnerOrder& order : outcome.orders) Do(order);
  std::move(outcome.words.begin(), outcome.words.end(), std::back_inserter(unsaid_));
}

void AgentDriver::Speak() {
  if (line_ != nullptr && !unsaid_.empty()) line_->Say(unsaid_);
  unsaid_.clear();
}

void AgentDriver::ShowLevels() const {
  if (world_.observer == nullptr) return;
  world_.observer->OnLevels({.lanes = engine_.load(),
                             .unacknowledged_results = engine_.unacknowledged(),
                             .unknown_items = engine_.unknown_items(),
                             .connected = engine_.is_connected(),
                             .draining = engine_.is_draining()});
}

void AgentDriver::Do(const RunnerOrder& order) {
  struct Step {
    void operator()(const ports::RunOrder& run) const {
      driver.book_.OnBegun(run.token, driver.world_.clock.WallNow());
      if (driver.world_.observer != nullptr) driver.world_.observer->OnRunAccepted(run);
      driver.runner_->Start(run);
    }
    void operator()(const StopRun& stop) const { driver.runner_->Stop(stop.token); }
    void operator()(const KillRun& kill) const { driver.runner_->Kill(kill.token); }
    void operator()(const MoveFence& moved) const {
      driver.runner_->SetFence(moved.token, moved.fence_at);
    }
    AgentDriver& driver;
  };
  std::visit(Step{*this}, order);
}

}  // namespace callboard::agent
