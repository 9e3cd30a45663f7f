#include "libs/director/command.h"

namespace callboard::director {
namespace {

// Seats a caller who has to wait; the others are answered after the turn.
Command DoorCommand(CallId call, std::function<Decision(DirectorEngine&, Moment)> knock,
                    WaiterDesk::Reply reply) {
  return {.decide = [call, knock = std::move(knock), reply](
                        DirectorEngine& engine, WaiterDesk& desk, Moment now) -> Command::Reply {
            Decision decision = knock(engine, now);
            if (const auto* waiter = std::get_if<WaiterId>(&decision)) {
              desk.Seat(call, *waiter, reply);
              return nullptr;
            }
            return [reply, decision = std::move(decision)] { reply(decision); };
          },
          .refuse = [reply](const absl::Status& why) { reply(why); }};
}

}  // namespace

void WaiterDesk::Seat(CallId call, WaiterId waiter, Reply reply) {
  seated_.emplace(waiter, Seated{call, std::move(reply)});
  by_call_.emplace(call, waiter);
}

std::optional<WaiterId> WaiterDesk::Find(CallId call) const {
  const auto found = by_call_.find(call);
  if (found == by_call_.end()) return std::nullopt;
  return found->second;
}

WaiterDesk::Reply WaiterDesk::Take(WaiterId waiter) {
  const auto found = seated_.find(waiter);
  if (found == seated_.end()) return nullptr;
  const Seated seated = std::move(found->second);
  seated_.erase(found);
  by_call_.erase(seated.call);
  return seated.reply;
}

void WaiterDesk::TellAll(const absl::Status& why) {
  while (!seated_.empty()) Take(seated_.begin()->first)(why);
}

Command SubmitCommand(CallId call, std::string identity, core::Submission submission,
                      absl::Time arrived, WaiterDesk::Reply reply) {
  return DoorCommand(
      call,
      [identity = std::move(identity), submission = std::move(submission), arrived](
          DirectorEngine& engine, Moment now) mutable {
        return engine.Submit(identity, std::move(submission), arrived, now);
      },
      std::move(reply));
}

Command ReserveCommand(CallId call, std::string identity, absl::Duration lifetime,
                       WaiterDesk::Reply reply) {
  return DoorCommand(
      call,
      [identity = std::move(identity), lifetime](DirectorEngine& engine, Moment now) {
        return engine.ReserveSlot(identity, lifetime, now);
      },
      std::move(reply));
}

Command LeaveCommand(CallId call) {
  return {.from = Command::From::kLink,
          .decide = [call](DirectorEngine& engine, WaiterDesk& desk, Moment now) -> Command::Reply {
            if (const std::optional<WaiterId> waiter = desk.Find(call)) {
              engine.Leave(*waiter, now);
              desk.Take (*waiter)(absl::CancelledError("the caller has gone"));
            }
            return nullptr;
          },
          .refuse = [](const absl::Status&) {}};
}

Command AgentCommand(std::function<void(DirectorEngine&, Moment)> tell, Command::From from) {
  return {.from = from,
          .decide = [tell = std::move(tell)](DirectorEngine& engine, WaiterDesk&,
                                             Moment now) -> Command::Reply {
            tell(engine, now);
            return nullptr;
          },
          .refuse = [](const absl::Status&) {}};
}

}  // namespace callboard::director
