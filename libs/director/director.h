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
#include "libs/director/fleet.h"
#include "libs/director/observer.h"
#include "libs/ports/agent_link.h"
#include "libs/ports/environment.h"
#include "libs/ports/event_store.h"

namespace callboard::director {

// Dependencies of a director. All of them outlive it.
struct Deps {
  const ports::Clock& clock;
  ports::Random& random;
  ports::EventStoreOpener& stores;
  ports::AgentLink& agents;
  // May be null.
  Observer* observer = nullptr;
};

// The result of one turn. Commit its records first; send anything else only after that.
struct Turn {
  // Does not contain answers to waiters; they are in `replies`.
  Outcome outcome = {};
  // Commands that get their reply when the turn is flushed.
  std::vector<CommandPtr> replies = {};

  bool is_empty() const { return outcome.empty() && replies.empty(); }
};

// A DirectorEngine together with its store. The work is divided into turns: Decide() commands and
// FireTimers(), Commit() all resulting records in one synced batch, and only then Flush() the turn,
// which sends replies and messages. While one turn is being committed the next one is already open.
// It builds on state that is not on disk yet, but it is committed after the other one or not at
// all.
//
// The outcome of a failed commit is unknown. Callers that wait for it get OUTCOME_UNKNOWN; the
// store is closed, opened and loaded again, which is a restart in every respect except the process.
// Until that succeeds the director serves nothing or, if the disk is full, reads only.
//
// Not thread-safe, with one exception: while one thread decides, another thread may Commit() and
// Flush() the turn that was taken last.
class Director {
 public:
  Director(const EngineOptions& options, const Deps& deps)
      : options_(options),
        deps_(deps),
        report_agents_at_(deps.observer == nullptr ? absl::InfiniteDuration()
                                                   : -absl::InfiniteDuration()) {}

  // Fails all commands that still wait for a reply.
  ~Director();
  Director(const Director&) = delete;
  Director& operator=(const Director&) = delete;

  // Calls `on_store` now and whenever the store changes: with the store that others may read, and
  // with null before that store is closed.
  void SetStoreListener(std::function<void(const ports::EventStore*)> on_store);

  // Publishes every committed change to `feed`, which outlives the director.
  void SetChangeFeed(ChangeFeed& feed);

  // Opens the store and recovers. Returns the store's error if it cannot be opened or trusted.
  absl::Status Open();

  Moment Now() const { return {deps_.clock.WallNow(), deps_.clock.MonotonicNow()}; }
  // Each command becomes a part of the open turn or fails. REQUIRES: `now` is not earlier than the
  // arrival of any command.
  void Decide(absl::Span<CommandPtr> commands, Moment now);
  // Fires all timers that are due at `now`. REQUIRES: every command that arrived until `now` is
  // decided. Otherwise a lease could end although its renewal is waiting behind a slow disk.
  void FireTimers(Moment now);
  // Stops admission. Stays in effect if the store is opened again.
  void BeginShutdown(Moment now);
  // Returns when the next turn is due without a command, on the monotonic clock. The value stays
  // the same until the state changes, except that timers on the wall clock are converted with the
  // current difference of the two clocks.
  absl::Duration NextTurnAt() const;

  // Whether the open turn contains anything, and the number of calls that it will answer.
  bool has_turn() const;
  size_t calls_in_turn() const { return calls_in_turn_; }
  // Closes the open turn and returns it. REQUIRES: the turn that was taken before is flushed or
  // failed.
  Turn TakeTurn();
  absl::Status Commit(const Turn& turn);
  // REQUIRES: `turn` is committed. If the store cannot be read, returns an error to pass to Fail().
  absl::Status Flush(Turn turn);
  // Handles a failed commit. REQUIRES: no other turn is being committed.
  void Fail(const Turn& turn, const absl::Status& why);
  // Opens the store again if that failed before and the retry is due. REQUIRES: no turn is being
  // committed.
  void ReopenIfDue();

  // Decides, commits and flushes one turn on the calling thread.
  void RunTurn(std::vector<CommandPtr> commands);

  Service service() const { return service_; }
  // Null while the director serves nothing.
  const DirectorEngine* engine() const { return engine_.get(); }

 private:
  // Fallback when the store cannot be written: serves reads if the disk is full and the store can
  // be read.
  void OpenReadOnly(const absl::Status& why);
  absl::Status Load(ports::StoreAccess access);
  void Close();
  void SetService(Service service, const absl::Status& why);
  void ReportService(Service service, const absl::Status& why);
  // The error for a command that needs more than the current service level.
  absl::Status UnservedError() const;
  // Moves waiters that were answered from the WaiterTable into the open turn.
  void CollectAnswers();
  absl::Status SendToAgents(std::vector<Outcome::Message> messages);
  // REQUIRES: there is an observer.
  void ReportTasks(const Outcome& outcome) const;
  // These two report to the observer, if there is one.
  void ReportLevels();
  void ReportAgents(Moment now);

  const EngineOptions options_;
  const Deps deps_;
  std::function<void(const ports::EventStore*)> on_store_;
  // Null without subscribers.
  ChangeFeed* feed_ = nullptr;
  Service service_ = Service::kNone;
  bool has_served_ = false;
  bool disk_full_ = false;
  bool shutting_down_ = false;
  absl::Duration reopen_at_ = absl::InfiniteDuration();
  // Number of waiters in the last report.
  uint64_t reported_waiting_ = 0;
  // Time of the next report about agents; infinite without an observer.
  absl::Duration report_agents_at_;
  std::unique_ptr<ports::EventStore> store_;
  std::unique_ptr<DirectorEngine> engine_;
  WaiterTable waiters_;
  // The open turn: these commands, and the engine's outcome.
  std::vector<CommandPtr> replies_;
  size_t calls_in_turn_ = 0;
};

// Returns UNAVAILABLE/STORE_UNAVAILABLE.
absl::Status StoreUnavailable(absl::Duration retry_after);

}  // namespace callboard::director

#endif  // CALLBOARD_LIBS_DIRECTOR_DIRECTOR_H_
