#include "libs/director/command.h"

namespace callboard::director {
namespace {

class Submit final : public DoorCommand {
 public:
  Submit(CallId call, std::string identity, core::Submission&& submission, absl::Time arrived,
         Reply reply)
      : DoorCommand(call, std::move(reply)),
        caller_(Submitter(std::move(identity), std::move(submission), arrived)) {}

 private:
  Decision Knock(DirectorEngine& engine, Moment now) override {
    return engine.Submit(std::move(caller_), now);
  }

  Caller caller_;
};

class Reserve final : public DoorCommand {
 public:
  Reserve(CallId call, std::string identity, absl::Duration lifetime, Reply reply)
      : DoorCommand(call, std::move(reply)), identity_(std::move(identity)), lifetime_(lifetime) {}

 private:
  Decision Knock(DirectorEngine& engine, Moment now) override {
    return engine.ReserveSlot(identity_, lifetime_, now);
  }

  const std::string identity_;
  const absl::Duration lifetime_;
};

class Leave final : public Command {
 public:
  Leave(CallId call, std::shared_ptr<const void> keep)
      : Command(Need::kWrite, From::kLink), call_(call), keep_(std::move(keep)) {}

  Then Decide(DirectorEngine& engine, WaiterDesk& desk, Moment now) override {
    if (const std::optional<WaiterId> waiter = desk.Find(call_)) {
      engine.Leave(*waiter, now);
      desk.Take(*waiter)->Refuse(absl::CancelledError("the caller has gone"));
    }
    return Then::kNothing;
  }

 private:
  const CallId call_;
  const std::shared_ptr<const void> keep_;
};

class Tell final : public Command {
 public:
  Tell(From from, std::function<void(DirectorEngine&, Moment)> tell)
      : Command(Need::kWrite, from), tell_(std::move(tell)) {}

  Then Decide(DirectorEngine& engine, WaiterDesk&, Moment now) override {
    tell_(engine, now);
    return Then::kNothing;
  }

 private:
  const std::function<void(DirectorEngine&, Moment)> tell_;
};

}  // namespace

Command::Then DoorCommand::Decide(DirectorEngine& engine, WaiterDesk&, Moment now) {
  decision_ = Knock(engine, now);
  return std::holds_alternative<WaiterId>(decision_) ? Then::kWait : Then::kSay;
}

void WaiterDesk::Seat(std::unique_ptr<DoorCommand> caller) {
  const WaiterId waiter = std::get<WaiterId>(caller->decision());
  by_call_.emplace(caller->call(), waiter);
  seated_.emplace(waiter, std::move(caller));
}

std::optional<WaiterId> WaiterDesk::Find(CallId call) const {
  const auto found = by_call_.find(call);
  if (found == by_call_.end()) return std::nullopt;
  return found->second;
}

std::unique_ptr<DoorCommand> WaiterDesk::Take(WaiterId waiter) {
  const auto found = seated_.find(waiter);
  if (found == seated_.end()) return nullptr;
  std::unique_ptr<DoorCommand> caller = std::move(found->second);
  seated_.erase(found);
  by_call_.erase(caller->call());
  return caller;
}

void WaiterDesk::RefuseAll(const absl::Status& why) {
  while (!seated_.empty()) Take(seated_.begin()->first)->Refuse(why);
}

CommandPtr SubmitCommand(CallId call, std::string identity, core::Submission&& submission,
                         absl::Time arrived, DoorCommand::Reply reply) {
  return std::make_unique<Submit>(call, std::move(identity), std::move(submission), arrived,
                                  std::move(reply));
}

CommandPtr ReserveCommand(CallId call, std::string identity, absl::Duration lifetime,
                          DoorCommand::Reply reply) {
  return std::make_unique<Reserve>(call, std::move(identity), lifetime, std::move(reply));
}

CommandPtr LeaveCommand(CallId call, std::shared_ptr<const void> keep) {
  return std::make_unique<Leave>(call, std::move(keep));
}

CommandPtr AgentCommand(std::function<void(DirectorEngine&, Moment)> tell, Command::From from) {
  return std::make_unique<Tell>(from, std::move(tell));
}

}  // namespace callboard::director
