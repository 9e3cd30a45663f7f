#ifndef CALLBOARD_LIBS_DIRECTOR_DIRECTOR_H_
#define CALLBOARD_LIBS_DIRECTOR_DIRECTOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "libs/director/change_feed.h"
#include "libs/director/command.h"
#include "libs/director/engine.h"
#include "libs/director/moment.h"
#include "libs/director/observer.h"
#include "libs/ports/agent_link.h"
#include "libs/ports/clock.h"
#include "libs/ports/event_store.h"
#include "libs/ports/random.h"

namespace callboard::director {

// What a director needs of the world. All outlive it.
struct World {
  const ports::Clock& clock;
  ports::Random& random;
  ports::EventStoreOpener& stores;
  ports::AgentLink& agents;
  // May be null.
  Observer* observer = nullptr;
};

// What was decided: to be committed first, and only then to be said.
struct Turn {
  // Without answers: those are in the commands.
  Outcome outcome = {};
  // Those who are to be answered.
  std::vector<CommandPtr> answers = {};

  bool is_empty() const { return outcome.empty() && answers.empty(); }
};

// The engine and its store, turn by turn: Decide() commands and do what is due, Commit() everything
// that followed in one synced batch, and only then Say() it. While a turn is on its way to the disk
// the next one is made: it rests on what is not on disk yet, but is committed after it or not at
// all.
//
// A commit that fails has an unknown outcome. Whoever waited for it is told so, and the store is
// closed, opened anew and loaded: a restart in every respect but the process. Until that succeeds
// the director serves nothing, or, where the disk is full, reads only.
//
// Not thread-safe, but for one exception: one other thread may Commit() and Say() the turn that was
// taken last while this one decides.
class Director {
 public:
  Director(const EngineOptions& options, const World& world)
      : options_(options),
        world_(world),
        show_agents_at_(world.observer == nullptr ? absl::InfiniteDuration()
                                                  : -absl::InfiniteDuration()) {}

  // Tells whoever still waits that nobody will answer.
  ~Director();
  Director(const Director&) = delete;
  Director& operator=(const Director&) = delete;

  // Called now and whenever it changes: with the store that others may read, and with null before
  // that is closed.
  void OnStore(std::function<void(const ports::EventStore*)> told);

  // From now on `feed`, which outlives it, has what is on disk of this store.
  void Feed(ChangeFeed& feed);

  // Opens the store and recovers. The store's error when it cannot be opened or trusted.
  absl::Status Open();

  Moment Now() const { return {world_.clock.WallNow(), world_.clock.MonotonicNow()}; }
  // Each command goes into the open turn, or is refused. `now`: no earlier than any of them came.
  void Decide(absl::Span<CommandPtr> commands, Moment now);
  // Does what is due at `now`. REQUIRES: all that had arrived by then is decided, so that no lease
  // ends because its renewal waited behind a slow disk.
  void FireTimers(Moment now);
  // Stops admission, whatever happens to the store.
  void BeginShutdown(Moment now);
  // When something is due although nobody asks, on the monotonic clock: the same whenever it is
  // asked, until something changes; what goes by the wall clock, as the two stand now.
  absl::Duration NextTurnAt() const;

  // Whether the open turn has anything in it, and how many calls are to be answered.
  bool has_turn() const;
  size_t answers() const { return calls_; }
  // REQUIRES: the turn taken before was said, or failed.
  Turn TakeTurn();
  absl::Status Commit(const Turn& turn);
  // REQUIRES: it is committed. An error, when the store cannot be read, is one to Fail() with.
  absl::Status Say(Turn turn);
  // Its commit failed. REQUIRES: nothing else is on its way.
  void Fail(const Turn& turn, const absl::Status& why);
  // Tries again what failed, when it is time. REQUIRES: nothing is on its way to the disk.
  void ReopenIfDue();

  // All of it in one go.
  void RunTurn(std::vector<CommandPtr> commands);

  Service service() const { return service_; }
  // What the director knows; null while it serves nothing.
  const DirectorEngine* engine() const { return engine_.get(); }

 private:
  // What is left when the store cannot be written: reads, if the disk is full and can be read.
  void OpenReadOnly(const absl::Status& why);
  absl::Status Load(ports::StoreAccess access);
  void Close();
  void Serve(Service service, const absl::Status& why);
  void Tell(Service service, const absl::Status& why);
  // Why a command that needs more than there is cannot be served.
  absl::Status Unserved() const;
  // Waiters who got their answer get up from the desk.
  void CollectAnswers();
  absl::Status SayToAgents(std::vector<Outcome::Message> messages);
  // REQUIRES: there is an observer.
  void ShowTasks(const Outcome& outcome) const;
  // To the observer, if there is one.
  void ShowLevels();
  void ShowAgents(Moment now);

  const EngineOptions options_;
  const World world_;
  std::function<void(const ports::EventStore*)> on_store_;
  // Null when nobody wants to know.
  ChangeFeed* feed_ = nullptr;
  Service service_ = Service::kNone;
  bool has_served_ = false;
  bool disk_full_ = false;
  bool shutting_down_ = false;
  absl::Duration reopen_at_ = absl::InfiniteDuration();
  // Callers at the door, as they were last shown.
  uint64_t waiting_shown_ = 0;
  // When the agents are shown again; never, when nobody looks.
  absl::Duration show_agents_at_;
  std::unique_ptr<ports::EventStore> store_;
  std::unique_ptr<DirectorEngine> engine_;
  WaiterDesk desk_;
  // Of the open turn; the rest of it is the engine's outcome.
  std::vector<CommandPtr> answers_;
  size_t calls_ = 0;
};

}  // namespace callboard::director

#endif  // CALLBOARD_LIBS_DIRECTOR_DIRECTOR_H_
