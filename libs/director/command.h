#ifndef CALLBOARD_LIBS_DIRECTOR_COMMAND_H_
#define CALLBOARD_LIBS_DIRECTOR_COMMAND_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "libs/base/strong_id.h"
#include "libs/director/engine.h"
#include "libs/director/moment.h"

namespace callboard::director {

// Names a call that may have to wait, so that its caller can leave. Never reused.
using CallId = base::StrongId<struct CallIdTag, uint64_t>;

// The callers who wait for a place, and what each of them is to be told.
class WaiterDesk {
 public:
  using Reply = std::function<void(const Decision&)>;

  void Seat(CallId call, WaiterId waiter, Reply reply);
  // The waiter of a call; nothing when it does not wait (any more).
  std::optional<WaiterId> Find(CallId call) const;
  // Lets it go, and returns how to tell it; null when it is not here.
  Reply Take(WaiterId waiter);
  void TellAll(const absl::Status& why);

 private:
  struct Seated {
    CallId call;
    Reply reply;
  };
  std::map<WaiterId, Seated> seated_;
  absl::flat_hash_map<CallId, WaiterId> by_call_;
};

// Something to be done in a turn.
struct Command {
  // What it needs of the store: to read, it is enough that one was loaded.
  enum class Need { kRead, kWrite };
  // Callers can be told to come back; agents' messages have room of their own. What the link itself
  // has to tell, that a Session broke, a start was not written or a caller has gone, is never
  // refused: nobody else would tell it again.
  enum class From { kCaller, kAgent, kLink };
  // What is said once the turn is on disk. Empty when nothing is.
  using Reply = std::function<void()>;

  Need need = Need::kWrite;
  From from = From::kCaller;
  std::function<Reply(DirectorEngine&, WaiterDesk&, Moment)> decide;
  // Says that it was not done, or that this is not known. Never after a reply.
  std::function<void(const absl::Status&)> refuse;
};

// A command that is answered with what `decide` returns.
template <class T>
Command CallCommand(Command::Need need,
                    std::function<absl::StatusOr<T>(DirectorEngine&, Moment)> decide,
                    std::function<void(absl::StatusOr<T>)> reply) {
  return {.need = need,
          .from = Command::From::kCaller,
          .decide =
              [decide, reply](DirectorEngine& engine, WaiterDesk&, Moment now) {
                return [reply, answer = decide(engine, now)] { reply(answer); };
              },
          .refuse = [reply](const absl::Status& why) { reply(why); }};
}

// A caller at the door: answered at once, or when its turn comes.
Command SubmitCommand(CallId call, std::string identity, core::Submission submission,
                      absl::Time arrived, WaiterDesk::Reply reply);
Command ReserveCommand(CallId call, std::string identity, absl::Duration lifetime,
                       WaiterDesk::Reply reply);
// The caller has gone: it is told nothing any more.
Command LeaveCommand(CallId call);
// Something that an agent's Session brought, or the link found; nobody waits for an answer.
Command AgentCommand(std::function<void(DirectorEngine&, Moment)> tell,
                     Command::From from = Command::From::kAgent);

}  // namespace callboard::director

#endif  // CALLBOARD_LIBS_DIRECTOR_COMMAND_H_
