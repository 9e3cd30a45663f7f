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
#include "libs/base/strong_id.h"
#include "libs/director/engine.h"
#include "libs/director/moment.h"

namespace callboard::director {

class WaiterDesk;

// Something to be done in a turn, and what is said of it afterwards.
class Command {
 public:
  // What it needs of the store: to read, it is enough that one was loaded.
  enum class Need { kRead, kWrite };
  // Callers can be told to come back; agents' messages have room of their own. What the link itself
  // has to tell, that a Session broke, a start was not written or a caller has gone, is never
  // refused: nobody else would tell it again.
  enum class From { kCaller, kAgent, kLink };

  Command(Need need, From from) : need_(need), from_(from) {}
  virtual ~Command() = default;
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  Need need() const { return need_; }
  From from() const { return from_; }
  // How many calls it stands for.
  virtual size_t weight() const { return 1; }

  // kWait: it has to sit down at the desk, and gets its answer in a later turn.
  enum class Then { kSay, kWait, kNothing };
  virtual Then Decide(DirectorEngine& engine, WaiterDesk& desk, Moment now) = 0;
  // Says what was decided. REQUIRES: it is on disk.
  virtual void Say() {}
  // Says that it was not done, or that this is not known. Never after Say().
  virtual void Refuse(const absl::Status&) {}

 private:
  const Need need_;
  const From from_;
};
using CommandPtr = std::unique_ptr<Command>;

// Names a call that may have to wait, so that its caller can leave. Never reused.
using CallId = base::StrongId<struct CallIdTag, uint64_t>;

// A caller at the door: answered at once, or when its turn comes.
class DoorCommand : public Command {
 public:
  using Reply = std::function<void(const Decision&)>;

  DoorCommand(CallId call, Reply reply)
      : Command(Need::kWrite, From::kCaller), call_(call), reply_(std::move(reply)) {}

  CallId call() const { return call_; }
  const Decision& decision() const { return decision_; }
  void SetDecision(Decision decision) { decision_ = std::move(decision); }

  Then Decide(DirectorEngine& engine, WaiterDesk& desk, Moment now) final;
  void Say() final { reply_(decision_); }
  void Refuse(const absl::Status& why) final { reply_(why); }

 private:
  virtual Decision Knock(DirectorEngine& engine, Moment now) = 0;

  const CallId call_;
  const Reply reply_;
  Decision decision_;
};

// The callers who wait for a place.
class WaiterDesk {
 public:
  // REQUIRES: it was decided that it waits.
  void Seat(std::unique_ptr<DoorCommand> caller);
  // The waiter of a call; nothing when it does not wait (any more).
  std::optional<WaiterId> Find(CallId call) const;
  // Lets it go; null when it is not here.
  std::unique_ptr<DoorCommand> Take(WaiterId waiter);
  void RefuseAll(const absl::Status& why);

 private:
  std::map<WaiterId, std::unique_ptr<DoorCommand>> seated_;
  absl::flat_hash_map<CallId, WaiterId> by_call_;
};

// A command that is answered with what `decide` returns.
template <class T>
CommandPtr CallCommand(Command::Need need,
                       std::function<absl::StatusOr<T>(DirectorEngine&, Moment)> decide,
                       std::function<void(absl::StatusOr<T>)> reply) {
  class Call final : public Command {
   public:
    Call(Need need, std::function<absl::StatusOr<T>(DirectorEngine&, Moment)> decide,
         std::function<void(absl::StatusOr<T>)> reply)
        : Command(need, From::kCaller), decide_(std::move(decide)), reply_(std::move(reply)) {}

    Then Decide(DirectorEngine& engine, WaiterDesk&, Moment now) override {
      answer_.emplace(decide_(engine, now));
      return Then::kSay;
    }
    void Say() override { reply_(*std::move(answer_)); }
    void Refuse(const absl::Status& why) override { reply_(why); }

   private:
    const std::function<absl::StatusOr<T>(DirectorEngine&, Moment)> decide_;
    const std::function<void(absl::StatusOr<T>)> reply_;
    std::optional<absl::StatusOr<T>> answer_;
  };
  return std::make_unique<Call>(need, std::move(decide), std::move(reply));
}

CommandPtr SubmitCommand(CallId call, std::string identity, core::Submission&& submission,
                         absl::Time arrived, DoorCommand::Reply reply);
CommandPtr ReserveCommand(CallId call, std::string identity, absl::Duration lifetime,
                          DoorCommand::Reply reply);
// The caller has gone: if it waits, it waits no longer, and its reply is CANCELLED. `keep` lives
// until then.
CommandPtr LeaveCommand(CallId call, std::shared_ptr<const void> keep = nullptr);
// Something that an agent's Session brought, or the link found; nobody waits for an answer.
CommandPtr AgentCommand(std::function<void(DirectorEngine&, Moment)> tell,
                        Command::From from = Command::From::kAgent);

}  // namespace callboard::director

#endif  // CALLBOARD_LIBS_DIRECTOR_COMMAND_H_
