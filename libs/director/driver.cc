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
      calls_(options.calls_max),
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
  Enqueue({.commands = {}, .reply = std::move(reply)});
}

void DirectorDriver::BeginDrain(StatusReply reply) {
  Enqueue({.commands = {director::BeginDrain{}}, .reply = std::move(reply)});
}

void DirectorDriver::Enqueue(Call call) {
  {
    base::MutexLock lock(mutex_);
    if (!calls_.full()) {
      CHECK(calls_.TryPush(std::move(call)));
      changed_.NotifyOne();
      return;
    }
  }
  call.reply(Overloaded(calls_max_));
}

void DirectorDriver::RunTurns() {
  while (true) {
    std::deque<Call> calls;
    {
      base::MutexLock lock(mutex_);
      while (calls_.empty() && !stopping_) changed_.Wait(mutex_);
      if (calls_.empty()) return;
      calls = calls_.TakeAll();
    }
    Turn(std::move(calls));
  }
}

void DirectorDriver::Turn(std::deque<Call> calls) {
  std::vector<core::QueueStatus> answers;
  answers.reserve(calls.size());
  for (const Call& call : calls) {
    for (const Command& command : call.commands) {
      for (const Event& event : engine_.Decide(command)) engine_.Apply(event);
    }
    answers.push_back(engine_.Status());
  }
  // Nobody hears of a turn before all of it is decided: this is where its events are committed once
  // there are events that last.
  for (size_t i = 0; i < calls.size(); ++i) calls[i].reply(std::move(answers[i]));
}

}  // namespace callboard::director
