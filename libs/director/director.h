#ifndef CALLBOARD_LIBS_DIRECTOR_DIRECTOR_H_
#define CALLBOARD_LIBS_DIRECTOR_DIRECTOR_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/director/command.h"
#include "libs/director/engine.h"
#include "libs/director/moment.h"
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
};

// The engine and its store, turn by turn: take every command that waits, decide each, do what is
// due, write everything that followed in one synced batch, and only then reply and act.
//
// A commit that fails has an unknown outcome. Whoever waited for it is told so, and the store is
// closed, opened anew and loaded: a restart in every respect but the process. Until that succeeds
// the director serves nothing, or, where the disk is full, reads only.
//
// Not thread-safe: one thread takes all turns.
class Director {
 public:
  Director(const EngineOptions& options, const World& world) : options_(options), world_(world) {}

  // Tells whoever still waits that nobody will answer.
  ~Director();
  Director(const Director&) = delete;
  Director& operator=(const Director&) = delete;

  // Opens the store and recovers. The store's error when it cannot be opened or trusted.
  absl::Status Open();

  void TakeTurn(std::vector<Command> commands);
  // Stops admission from the next turn on, whatever happens to the store.
  void BeginShutdown() { shutting_down_ = true; }
  // When the next turn is due although nobody asked for one.
  absl::Duration UntilNextTurn() const;

  enum class Service { kNone, kReadOnly, kFull };
  Service service() const { return service_; }
  // What the director knows; null while it serves nothing.
  const DirectorEngine* engine() const { return engine_.get(); }

 private:
  Moment Now() const { return {world_.clock.WallNow(), world_.clock.MonotonicNow()}; }
  // What is left when the store cannot be written: reads, if it can be read.
  void OpenReadOnly();
  absl::Status Load(ports::StoreAccess access);
  void Close();
  // Why a command that needs more than there is cannot be served.
  absl::Status Unserved() const;
  absl::Status Commit(const Outcome& outcome);
  void Act(Outcome outcome);

  const EngineOptions options_;
  const World world_;
  Service service_ = Service::kNone;
  bool disk_full_ = false;
  bool shutting_down_ = false;
  absl::Duration reopen_at_ = absl::InfiniteDuration();
  std::unique_ptr<ports::EventStore> store_;
  std::unique_ptr<DirectorEngine> engine_;
  WaiterDesk desk_;
};

}  // namespace callboard::director

#endif  // CALLBOARD_LIBS_DIRECTOR_DIRECTOR_H_
