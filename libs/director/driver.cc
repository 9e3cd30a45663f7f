#include "libs/director/driver.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/base/error.h"

namespace callboard::director {
namespace {

// A full command queue empties within a few turns.
constexpr absl::Duration kOverloadedRetryAfter = absl::Milliseconds(100);

absl::Status Overloaded(size_t calls_max) {
  return base::WithRetryAfter(
      base::WithReason(absl::UnavailableError(absl::StrCat("the director is overloaded (",
                                                           calls_max, " calls wait); retry")),
                       "OVERLOADED", {{"calls_max", absl::StrCat(calls_max)}}),
      kOverloadedRetryAfter);
}

}  // namespace

DirectorDriver::DirectorDriver(const DriverOptions& options)
    : calls_max_(options.calls_max),
      engine_(options.queue),
      queries_(options.calls_max),
      thread_([this] { RunTurns(); }) {}

DirectorDriver::~DirectorDriver() {
  {
    base::MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyOne();
  }
  thread_.join();
}

void DirectorDriver::GetQueueStatus(StatusReply reply) {
  {
    base::MutexLock lock(mutex_);
    if (!queries_.full()) {
      CHECK(queries_.TryPush(std::move(reply)));
      changed_.NotifyOne();
      return;
    }
  }
  reply(Overloaded(calls_max_));
}

void DirectorDriver::BeginDrain() {
  base::MutexLock lock(mutex_);
  drain_wanted_ = true;
  changed_.NotifyOne();
}

void DirectorDriver::RunTurns() {
  while (true) {
    Inbox inbox;
    {
      base::MutexLock lock(mutex_);
      while (queries_.empty() && !drain_wanted_ && !stopping_) changed_.Wait(mutex_);
      if (queries_.empty() && !drain_wanted_) return;
      if (std::exchange(drain_wanted_, false)) inbox.commands.push_back(director::BeginDrain{});
      inbox.queries = queries_.TakeAll();
    }
    Turn(inbox);
  }
}

void DirectorDriver::Turn(const Inbox& inbox) {
  for (const Command& command : inbox.commands) {
    for (const Event& event : engine_.Decide(command)) engine_.Apply(event);
  }
  // Nobody hears of a turn before all of it is decided: this is where its events are committed once
  // there are events that last.
  for (const StatusReply& reply : inbox.queries) reply(engine_.Status());
}

}  // namespace callboard::director
