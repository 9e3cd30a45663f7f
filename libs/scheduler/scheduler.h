#ifndef CALLBOARD_LIBS_SCHEDULER_SCHEDULER_H_
#define CALLBOARD_LIBS_SCHEDULER_SCHEDULER_H_

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "libs/core/job.h"
#include "libs/core/moment.h"
#include "libs/ports/clock.h"
#include "libs/scheduler/director_link.h"
#include "libs/scheduler/engine.h"
#include "libs/scheduler/ledger.h"

namespace callboard::scheduler {

// Hears how a scheduler fares and what it does, on its thread, which it must not block.
class Observer {
 public:
  virtual ~Observer() = default;

  // After every opening of the ledger, and when it fails; `why` when nothing is served.
  virtual void OnService(const absl::Status& why) = 0;
  // What is on disk now; and how long that took.
  virtual void OnCommit(absl::Span<const LedgerChange> changes, absl::Duration took) = 0;
  virtual void OnNotice(const Notice& notice) = 0;
  // After turns, once in a second; also after the last one.
  virtual void OnStatus(const StatusView& status) = 0;
};

// What a scheduler needs of the world. All outlive it.
struct World {
  const ports::Clock& clock;
  LedgerOpener& ledgers;
  DirectorLink& director;
  // May be null.
  Observer* observer = nullptr;
};

// Something to be done in a turn.
struct Call {
  // Decides, and returns what is said once that is on disk; null when it is said later.
  std::function<std::function<void()>(SchedulerEngine&, core::Moment)> decide;
  // Says instead that it was not done, or that this is not known; may be null.
  std::function<void(const absl::Status&)> refuse = nullptr;
};

// The engine and its ledger, turn by turn: what was decided is committed in one synced batch, and
// only then said, and asked of the director.
//
// A commit that fails has an unknown outcome. Whoever waited for it is told so, and the ledger is
// closed, opened anew and loaded: a restart in every respect but the process. Until that succeeds
// nothing is served and nothing happens.
//
// Not thread-safe.
class Scheduler {
 public:
  // Hands over, from any thread, what the director answered; it is for RunTurn(). Never refused.
  using Post = std::function<void(Call)>;

  Scheduler(const World& world, Post post) : world_(world), post_(std::move(post)) {}
  // Tells whoever still waits that nobody will answer.
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Opens the ledger and recovers. The ledger's error when it cannot be opened or trusted.
  absl::Status Open();
  // From the next turn on. Nothing happens before the first time.
  void SetJobs(std::vector<core::Job> jobs);
  // Decides the calls and what is due, commits, and says it.
  void RunTurn(std::vector<Call> calls);
  // When something is due although nobody asks.
  absl::Duration UntilNextTurn() const;

  // Answered, through `reply`, when the director has.
  Call TriggerCall(TriggerQuery query, DirectorLink::Reply<Accepted> reply);

  // Null while nothing is served.
  const SchedulerEngine* engine() const { return engine_.get(); }
  // For reads; null while nothing is served.
  const Ledger* ledger() const { return engine_ == nullptr ? nullptr : ledger_.get(); }

 private:
  core::Moment Now() const { return {world_.clock.WallNow(), world_.clock.MonotonicNow()}; }
  void Close();
  absl::Status Load();
  absl::Status Commit(const Outcome& outcome);
  void Say(Outcome outcome);
  void Give(const Order& order);
  void Fail(const absl::Status& why);
  void Tell(const absl::Status& why) const;
  void TellStatus(core::Moment now);

  const World world_;
  const Post post_;
  std::unique_ptr<Ledger> ledger_;
  std::unique_ptr<SchedulerEngine> engine_;
  // Over all lives, so that late answers find nobody.
  OrderId last_order_;
  CallId last_call_;
  absl::Duration reopen_at_ = absl::InfiniteDuration();
  // When the observer may hear of the status again, and whether it has to.
  absl::Duration tell_at_ = {};
  bool is_untold_ = false;
  // What the file says; and whether the engine has to be told.
  std::unique_ptr<const std::vector<core::Job>> jobs_;
  bool jobs_changed_ = false;
  std::map<CallId, DirectorLink::Reply<Accepted>> triggers_;
};

// UNAVAILABLE/STORE_UNAVAILABLE
absl::Status LedgerUnavailable();

}  // namespace callboard::scheduler

#endif  // CALLBOARD_LIBS_SCHEDULER_SCHEDULER_H_
