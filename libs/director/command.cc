#include "libs/director/command.h"

#include "libs/director/engine.h"

namespace callboard::director {
namespace {

class Submit final : public AdmissionCommand {
 public:
  Submit(CallId call, std::string identity, core::Submission&& submission, absl::Time arrived,
         Reply reply)
      : AdmissionCommand(call, std::move(reply)),
        request_(MakeSubmitRequest(std::move(identity), std::move(submission), arrived)) {}

 private:
  Decision Evaluate(DirectorEngine& engine, Moment now) override {
    return engine.Submit(std::move(request_), now);
  }

  AdmissionRequest request_;
};

class Reserve final : public AdmissionCommand {
 public:
  Reserve(CallId call, std::string identity, absl::Duration lifetime, Reply reply)
      : AdmissionCommand(call, std::move(reply)),
        identity_(std::move(identity)),
        lifetime_(lifetime) {}

 private:
  Decision Evaluate(DirectorEngine& engine, Moment now) override {
    return engine.ReserveSlot(identity_, lifetime_, now);
  }

  const std::string identity_;
  const absl::Duration lifetime_;
};

class CancelWait final : public Command {
 public:
  CancelWait(CallId call, std::shared_ptr<const void> keep)
      : Command(Access::kWrite, Origin::kLink), call_(call), keep_(std::move(keep)) {}

  DecideResult Decide(DirectorEngine& engine, WaiterTable& waiters, Moment now) override {
    if (const std::optional<WaiterId> waiter = waiters.Find(call_)) {
      engine.CancelWait(*waiter, now);
      waiters.Remove(*waiter)->Fail(absl::CancelledError("the caller has gone"));
    }
    return DecideResult::kNoReply;
  }

 private:
  const CallId call_;
  const std::shared_ptr<const void> keep_;
};

class AgentUpdate final : public Command {
 public:
  AgentUpdate(Origin origin, std::function<void(DirectorEngine&, Moment)> update)
      : Command(Access::kWrite, origin), update_(std::move(update)) {}

  DecideResult Decide(DirectorEngine& engine, WaiterTable&, Moment now) override {
    update_(engine, now);
    return DecideResult::kNoReply;
  }

 private:
  const std::function<void(DirectorEngine&, Moment)> update_;
};

}  // namespace

Command::DecideResult AdmissionCommand::Decide(DirectorEngine& engine, WaiterTable&, Moment now) {
  decision_ = Evaluate(engine, now);
  return std::holds_alternative<WaiterId>(decision_) ? DecideResult::kWait : DecideResult::kReply;
}

void WaiterTable::Add(std::unique_ptr<AdmissionCommand> command) {
  const WaiterId waiter = std::get<WaiterId>(command->decision());
  by_call_.emplace(command->call(), waiter);
  commands_.emplace(waiter, std::move(command));
}

std::optional<WaiterId> WaiterTable::Find(CallId call) const {
  const auto found = by_call_.find(call);
  if (found == by_call_.end()) return std::nullopt;
  return found->second;
}

std::unique_ptr<AdmissionCommand> WaiterTable::Remove(WaiterId waiter) {
  const auto found = commands_.find(waiter);
  if (found == commands_.end()) return nullptr;
  std::unique_ptr<AdmissionCommand> command = std::move(found->second);
  commands_.erase(found);
  by_call_.erase(command->call());
  return command;
}

void WaiterTable::FailAll(const absl::Status& why) {
  while (!commands_.empty()) Remove(commands_.begin()->first)->Fail(why);
}

CommandPtr SubmitCommand(CallId call, std::string identity, core::Submission&& submission,
                         absl::Time arrived, AdmissionCommand::Reply reply) {
  return std::make_unique<Submit>(call, std::move(identity), std::move(submission), arrived,
                                  std::move(reply));
}

CommandPtr ReserveCommand(CallId call, std::string identity, absl::Duration lifetime,
                          AdmissionCommand::Reply reply) {
  return std::make_unique<Reserve>(call, std::move(identity), lifetime, std::move(reply));
}

CommandPtr CancelWaitCommand(CallId call, std::shared_ptr<const void> keep) {
  return std::make_unique<CancelWait>(call, std::move(keep));
}

CommandPtr AgentCommand(std::function<void(DirectorEngine&, Moment)> update,
                        Command::Origin origin) {
  return std::make_unique<AgentUpdate>(origin, std::move(update));
}

}  // namespace callboard::director
