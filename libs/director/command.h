#ifndef CALLBOARD_LIBS_DIRECTOR_COMMAND_H_
#define CALLBOARD_LIBS_DIRECTOR_COMMAND_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/base/value_types.h"
#include "libs/director/engine_types.h"
#include "libs/director/fleet.h"

namespace callboard::director {

class DirectorEngine;
class WaiterTable;

// One unit of work for a turn: Decide() changes the engine; later, once the turn is on disk,
// SendReply() sends the reply.
//
// A command belongs to one thread at a time. Exactly one of SendReply() and Fail() is called on a
// command that has a reply to send.
class Command {
 public:
  // Store access that the command needs. For kRead it is enough that a store is loaded.
  enum class Access { kRead, kWrite };
  // Sender of the command; it decides what happens when the inbox is full. A caller has to
  // retry; agents' messages have a limit of their own. The link's own reports (a Session closed, a
  // start was not sent, a caller has gone) are always accepted, because they are not repeated.
  enum class Origin { kCaller, kAgent, kLink };

  Command(Access access, Origin origin) : access_(access), origin_(origin) {}
  virtual ~Command() = default;
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  Access access() const { return access_; }
  Origin origin() const { return origin_; }
  // Number of calls that the command stands for.
  virtual size_t weight() const { return 1; }

  // kWait: the command moves to the WaiterTable and gets its reply in a later turn.
  enum class DecideResult { kReply, kWait, kNoReply };
  virtual DecideResult Decide(DirectorEngine& engine, WaiterTable& waiters, Moment now) = 0;
  // Sends the decision to the caller. REQUIRES: the turn is on disk.
  virtual void SendReply() {}
  // Replies with an error: the command was not executed, or its outcome is unknown. REQUIRES:
  // SendReply() was not called.
  virtual void Fail(const absl::Status&) {}

 private:
  const Access access_;
  const Origin origin_;
};
using CommandPtr = std::unique_ptr<Command>;

// Identifies a call that may have to wait, so that its caller can cancel the wait. Never reused.
using CallId = base::StrongId<struct CallIdTag, uint64_t>;

// A request for a place in the queue. It is answered in its own turn, or later if it has to wait.
class AdmissionCommand : public Command {
 public:
  using Reply = std::function<void(const Decision&)>;

  AdmissionCommand(CallId call, Reply reply)
      : Command(Access::kWrite, Origin::kCaller), call_(call), reply_(std::move(reply)) {}

  CallId call() const { return call_; }
  const Decision& decision() const { return decision_; }
  void SetDecision(Decision decision) { decision_ = std::move(decision); }

  DecideResult Decide(DirectorEngine& engine, WaiterTable& waiters, Moment now) final;
  void SendReply() final { reply_(decision_); }
  void Fail(const absl::Status& why) final { reply_(why); }

 private:
  virtual Decision Evaluate(DirectorEngine& engine, Moment now) = 0;

  const CallId call_;
  const Reply reply_;
  Decision decision_;
};

// The commands of callers that wait for a place. Not thread-safe.
class WaiterTable {
 public:
  // REQUIRES: the command's decision is a WaiterId.
  void Add(std::unique_ptr<AdmissionCommand> command);
  // Returns the waiter of a call; nothing when the call does not wait.
  std::optional<WaiterId> Find(CallId call) const;
  // Removes and returns the command of a waiter; null when there is none.
  std::unique_ptr<AdmissionCommand> Remove(WaiterId waiter);
  void FailAll(const absl::Status& why);

 private:
  std::map<WaiterId, std::unique_ptr<AdmissionCommand>> commands_;
  absl::flat_hash_map<CallId, WaiterId> by_call_;
};

// A command that replies with the result of `decide`.
template <class T>
CommandPtr CallCommand(Command::Access access,
                       std::function<absl::StatusOr<T>(DirectorEngine&, Moment)> decide,
                       std::function<void(absl::StatusOr<T>)> reply) {
  class Call final : public Command {
   public:
    Call(Access access, std::function<absl::StatusOr<T>(DirectorEngine&, Moment)> decide,
         std::function<void(absl::StatusOr<T>)> reply)
        : Command(access, Origin::kCaller), decide_(std::move(decide)), reply_(std::move(reply)) {}

    DecideResult Decide(DirectorEngine& engine, WaiterTable&, Moment now) override {
      answer_.emplace(decide_(engine, now));
      return DecideResult::kReply;
    }
    void SendReply() override { reply_(*std::move(answer_)); }
    void Fail(const absl::Status& why) override { reply_(why); }

   private:
    const std::function<absl::StatusOr<T>(DirectorEngine&, Moment)> decide_;
    const std::function<void(absl::StatusOr<T>)> reply_;
    std::optional<absl::StatusOr<T>> answer_;
  };
  return std::make_unique<Call>(access, std::move(decide), std::move(reply));
}

CommandPtr SubmitCommand(CallId call, std::string identity, core::Submission&& submission,
                         absl::Time arrived, AdmissionCommand::Reply reply);
CommandPtr ReserveCommand(CallId call, std::string identity, absl::Duration lifetime,
                          AdmissionCommand::Reply reply);
// Ends the wait of a call whose caller has gone: its reply is CANCELLED. Does nothing if the call
// does not wait. `keep` is released after that.
CommandPtr CancelWaitCommand(CallId call, std::shared_ptr<const void> keep = nullptr);
// A message of an agent's Session, or an event that the link reports. Has no reply.
CommandPtr AgentCommand(std::function<void(DirectorEngine&, Moment)> update,
                        Command::Origin origin = Command::Origin::kAgent);

}  // namespace callboard::director

#endif  // CALLBOARD_LIBS_DIRECTOR_COMMAND_H_
