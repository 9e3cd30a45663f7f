#ifndef CALLBOARD_LIBS_DIRECTOR_COMMAND_H_
#define CALLBOARD_LIBS_DIRECTOR_COMMAND_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/base/value_types.h"
#include "libs/director/engine.h"
#include "libs/director/engine_types.h"
#include "libs/director/waiter_queue.h"

namespace callboard::director {

class Command;
using CommandPtr = std::unique_ptr<Command>;

// Identifies a call that may have to wait, so that its caller can cancel the wait. Never reused.
using CallId = base::StrongId<struct CallIdTag, uint64_t>;

// The commands of callers that wait for a place. Not thread-safe.
class WaiterTable {
 public:
  // REQUIRES: the command was decided to wait.
  void Add(CommandPtr command);
  // Returns the waiter of a call; nothing when the call does not wait.
  std::optional<WaiterId> Find(CallId call) const;
  // Removes and returns the command of a waiter; null when there is none.
  CommandPtr Remove(WaiterId waiter);
  void FailAll(const absl::Status& why);

 private:
  std::map<WaiterId, CommandPtr> commands_;
  absl::flat_hash_map<CallId, WaiterId> by_call_;
};

// One unit of work for a turn: Decide() changes the engine; later, once the turn is on disk,
// SendReply() sends the reply. MakeCommand() makes every command.
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
  struct Options {
    Access access = Access::kWrite;
    Origin origin = Origin::kCaller;
    // Number of calls that the command stands for.
    size_t weight = 1;
    // The call, if it may have to wait for a place.
    CallId call = {};
  };

  virtual ~Command() = default;
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  Access access() const { return options_.access; }
  Origin origin() const { return options_.origin; }
  size_t weight() const { return options_.weight; }
  CallId call() const { return options_.call; }

  // kWait: the command moves to the WaiterTable and gets its reply in a later turn.
  enum class DecideResult { kReply, kWait, kNoReply };
  virtual DecideResult Decide(DirectorEngine& engine, WaiterTable& waiters, Moment now) = 0;
  // The decision of a submit or a reservation, for which a waiter gets another one later; null for
  // any other command. REQUIRES: Decide() was called.
  virtual Decision* decision() = 0;
  // Sends the result to the caller. REQUIRES: the turn is on disk.
  virtual void SendReply() = 0;
  // Replies with an error: the command was not executed, or its outcome is unknown. REQUIRES:
  // SendReply() was not called.
  virtual void Fail(const absl::Status& why) = 0;

 protected:
  explicit Command(const Options& options) : options_(options) {}

 private:
  const Options options_;
};

// Replaces the result of a command whose outcome is unknown by an error. Overload it for a result
// that has several errors.
template <class Result>
void FailResult(Result& result, const absl::Status& why) {
  result = why;
}

namespace internal {

struct NoReply {};

// The type that holds the result T of a command, or the error that the caller gets instead.
template <class T>
struct ResultOf {
  using Type =
      std::conditional_t<std::is_convertible_v<const absl::Status&, T>, T, absl::StatusOr<T>>;
};
template <class T>
struct ResultOf<std::optional<T>> : ResultOf<T> {};
template <>
struct ResultOf<void> {
  using Type = absl::Status;
};

template <class DecideFn>
auto CallDecide(DecideFn& decide, DirectorEngine& engine, WaiterTable& waiters, Moment now) {
  if constexpr (std::is_invocable_v<DecideFn&, DirectorEngine&, WaiterTable&, Moment>) {
    return decide(engine, waiters, now);
  } else {
    return decide(engine, now);
  }
}

// The only implementation of Command. Holds both functions and the result, so that a command is one
// allocation.
template <class DecideFn, class ReplyFn>
class CommandOf final : public Command {
 public:
  CommandOf(const Options& options, DecideFn decide, ReplyFn reply)
      : Command(options), decide_(std::move(decide)), reply_(std::move(reply)) {}

  DecideResult Decide(DirectorEngine& engine, WaiterTable& waiters, Moment now) override {
    if constexpr (kHasReply) {
      result_ = CallDecide(decide_, engine, waiters, now);
      if (!result_.has_value()) return DecideResult::kNoReply;
      const bool waits = decision() != nullptr && std::holds_alternative<WaiterId>(*decision());
      return waits ? DecideResult::kWait : DecideResult::kReply;
    } else {
      CallDecide(decide_, engine, waiters, now);
      return DecideResult::kNoReply;
    }
  }
  Decision* decision() override {
    if constexpr (std::is_same_v<Result, Decision>) {
      return &*result_;
    } else {
      return nullptr;
    }
  }
  void SendReply() override {
    if constexpr (kHasReply) reply_(*std::move(result_));
  }
  void Fail(const absl::Status& why) override {
    if constexpr (kHasReply) {
      if (result_.has_value()) {
        FailResult(*result_, why);
      } else {
        result_.emplace(why);
      }
      reply_(*std::move(result_));
    }
  }

 private:
  static constexpr bool kHasReply = !std::is_same_v<ReplyFn, NoReply>;

  using Result = typename ResultOf<decltype(CallDecide(
      std::declval<DecideFn&>(), std::declval<DirectorEngine&>(), std::declval<WaiterTable&>(),
      Moment()))>::Type;

  DecideFn decide_;
  ReplyFn reply_;
  std::optional<Result> result_;
};

}  // namespace internal

// Makes a command of two functions, which are called at most once:
//
//   decide(engine, now)    runs in a turn and returns the result: a T, an absl::StatusOr<T>, or a
//                          Decision. It may take the WaiterTable as second argument. Returning
//                          nullopt means that there is no reply.
//   reply(result)          gets the absl::StatusOr<T> or the Decision, or an error instead of it.
//                          Runs on a thread of the driver and must not block. A command without it
//                          has no reply, and then `decide` returns nothing.
template <class DecideFn, class ReplyFn = internal::NoReply>
CommandPtr MakeCommand(const Command::Options& options, DecideFn decide, ReplyFn reply = {}) {
  return std::make_unique<internal::CommandOf<DecideFn, ReplyFn>>(options, std::move(decide),
                                                                  std::move(reply));
}

// A submit. `reply` gets a Decision.
template <class ReplyFn>
CommandPtr SubmitCommand(CallId call, std::string identity, core::Submission&& submission,
                         absl::Time arrived, ReplyFn reply) {
  return MakeCommand(
      {.call = call},
      [request = MakeSubmitRequest(std::move(identity), std::move(submission), arrived)](
          DirectorEngine& engine, Moment now) mutable {
        return engine.Submit(std::move(request), now);
      },
      std::move(reply));
}

// Ends the wait of a call whose caller has gone: its reply is CANCELLED. Does nothing if the call
// does not wait. `keep` is released after that.
CommandPtr CancelWaitCommand(CallId call, std::shared_ptr<const void> keep = nullptr);

}  // namespace callboard::director

#endif  // CALLBOARD_LIBS_DIRECTOR_COMMAND_H_
