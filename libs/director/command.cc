#include "libs/director/command.h"

namespace callboard::director {

void WaiterTable::Add(CommandPtr command) {
  const WaiterId waiter = std::get<WaiterId>(*command->decision());
  by_call_.emplace(command->call(), waiter);
  commands_.emplace(waiter, std::move(command));
}

std::optional<WaiterId> WaiterTable::Find(CallId call) const {
  const auto found = by_call_.find(call);
  if (found == by_call_.end()) return std::nullopt;
  return found->second;
}

CommandPtr WaiterTable::Remove(WaiterId waiter) {
  const auto found = commands_.find(waiter);
  if (found == commands_.end()) return nullptr;
  CommandPtr command = std::move(found->second);
  commands_.erase(found);
  by_call_.erase(command->call());
  return command;
}

void WaiterTable::FailAll(const absl::Status& why) {
  while (!commands_.empty()) Remove(commands_.begin()->first)->Fail(why);
}

CommandPtr CancelWaitCommand(CallId call, std::shared_ptr<const void> keep) {
  return MakeCommand(
      {.origin = Command::Origin::kLink},
      [call, keep = std::move(keep)](DirectorEngine& engine, WaiterTable& waiters, Moment now) {
        if (const std::optional<WaiterId> waiter = waiters.Find(call)) {
          engine.CancelWait(*waiter, now);
          waiters.Remove(*waiter)->Fail(absl::CancelledError("the caller has gone"));
        }
      });
}

}  // namespace callboard::director
