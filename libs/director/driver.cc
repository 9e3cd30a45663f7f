#include "libs/director/driver.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/error.h"

namespace callboard::director {
namespace {

// A full command queue empties within a few turns.
constexpr absl::Duration kOverloadedRetryAfter = absl::Milliseconds(100);
// Longest sleep; a turn that finds nothing to do costs nothing.
constexpr absl::Duration kIdleMax = absl::Hours(1);

absl::Status Overloaded(size_t calls_max) {
  return base::WithRetryAfter(
      base::WithReason(absl::UnavailableError(absl::StrCat("the director is overloaded (",
                                                           calls_max, " calls wait); retry")),
                       "OVERLOADED", {{"calls_max", absl::StrCat(calls_max)}}),
      kOverloadedRetryAfter);
}

}  // namespace

absl::StatusOr<std::unique_ptr<DirectorDriver>> DirectorDriver::Open(const DriverOptions& options,
                                                                     const World& world) {
  auto director = std::make_unique<Director>(options.engine, world);
  if (const absl::Status status = director->Open();
      director->service() == Director::Service::kNone) {
    return status;
  }
  return std::unique_ptr<DirectorDriver>(new DirectorDriver(options, std::move(director)));
}

DirectorDriver::DirectorDriver(const DriverOptions& options, std::unique_ptr<Director> director)
    : options_(options), director_(std::move(director)), thread_([this] { TakeTurns(); }) {}

DirectorDriver::~DirectorDriver() {
  {
    base::MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyOne();
  }
  thread_.join();
}

bool DirectorDriver::HasRoom(const Command& command) const {
  switch (command.from) {
    case Command::From::kCaller:
      return calls_waiting_ < options_.calls_max;
    case Command::From::kAgent:
      return waiting_.size() - calls_waiting_ < options_.agent_messages_max;
    case Command::From::kLink:
      return true;
  }
  return false;
}

bool DirectorDriver::Post(Command&& command) {
  {
    base::MutexLock lock(mutex_);
    if (HasRoom(command)) {
      if (command.from == Command::From::kCaller) ++calls_waiting_;
      waiting_.push_back(std::move(command));
      changed_.NotifyOne();
      return true;
    }
  }
  if (command.from == Command::From::kCaller) command.refuse(Overloaded(options_.calls_max));
  return false;
}

void DirectorDriver::GetQueueStatus(std::function<void(absl::StatusOr<core::QueueStatus>)> reply) {
  Post(CallCommand<core::QueueStatus>(
      Command::Need::kRead, [](DirectorEngine& engine, Moment now) { return engine.Status(now); },
      std::move(reply)));
}

void DirectorDriver::BeginDrain() {
  base::MutexLock lock(mutex_);
  drain_wanted_ = true;
  changed_.NotifyOne();
}

void DirectorDriver::TakeTurns() {
  while (true) {
    std::vector<Command> commands;
    bool stopping = false;
    {
      base::MutexLock lock(mutex_);
      if (waiting_.empty() && !drain_wanted_ && !stopping_) {
        changed_.WaitFor(mutex_, std::min(director_->UntilNextTurn(), kIdleMax));
      }
      commands = std::exchange(waiting_, {});
      calls_waiting_ = 0;
      if (std::exchange(drain_wanted_, false)) director_->BeginShutdown();
      stopping = stopping_;
    }
    if (stopping) director_->BeginShutdown();
    director_->TakeTurn(std::move(commands));
    if (stopping) return;
  }
}

}  // namespace callboard::director
