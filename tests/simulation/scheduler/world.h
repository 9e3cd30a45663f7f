#ifndef CALLBOARD_TESTS_SIMULATION_SCHEDULER_WORLD_H_
#define CALLBOARD_TESTS_SIMULATION_SCHEDULER_WORLD_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "libs/ports/clock.h"
#include "libs/scheduler/scheduler.h"
#include "libs/testing/engine_fixture.h"
#include "libs/testing/fake_random.h"
#include "libs/testing/memory_ledger.h"
#include "tests/simulation/scheduler/referee.h"
#include "tests/simulation/scheduler/settings.h"
#include "tests/simulation/timeline.h"

namespace callboard::simulation::cron {

class Replica;

// The director that schedulers submit to: the real engine, whose one agent runs everything that it
// is given, behind a network that loses and delays.
class SimulatedDirector {
 public:
  using Reply = std::function<void(absl::StatusOr<scheduler::Accepted>)>;

  SimulatedDirector(const Settings& settings, Timeline& timeline, test::FakeRandom& random);

  absl::Time now() {
    Sync();
    return engine_.now().wall;
  }
  const Truth& truth() const { return truth_; }
  const std::string& failure() const { return failure_; }

  void Submit(int replica, const core::Submission& submission, const Reply& reply);
  void AskEnds(const std::vector<std::string>& ids,
               const scheduler::DirectorLink::Reply<std::vector<scheduler::TaskEnd>>& reply);
  void StartDirect(int replica, const std::string& request_id, const Reply& reply);

  // Somebody else wants a place.
  void SubmitOther();
  // Not to be reached for a while; silent, or refusing.
  void GoAway(absl::Duration time);
  // Since when every call that is made is answered; infinite while it is away.
  absl::Duration serves_since() const { return is_up_ ? serves_since_ : absl::InfiniteDuration(); }
  void Drain(absl::Duration time);
  void Heal();

 private:
  void Sync();
  void ComeBack();
  absl::StatusOr<scheduler::Accepted> Take(int replica, core::Submission submission);
  void RunTasks();
  void EndRun(core::FenceToken token);
  bool Chance(double probability) { return !quiet_ && random_.Chance(probability); }

  const Settings& settings_;
  Timeline& timeline_;
  test::FakeRandom& random_;
  test::EngineFixture engine_;
  absl::Duration synced_at_;
  Truth truth_;
  std::string failure_;
  bool quiet_ = false;
  bool is_up_ = true;
  bool is_silent_ = false;
  absl::Duration serves_since_;
};

// One scheduler: the real one, with a disk, a clock and a process of its own that dies.
class Replica final : public scheduler::DirectorLink, public ports::Clock {
 public:
  Replica(int number, const Settings& settings, Timeline& timeline, test::FakeRandom& random,
          SimulatedDirector& director);

  void Start();
  void Die();
  bool is_up() const { return scheduler_ != nullptr; }
  // The file has changed: it is read again when the process has been up for a turn.
  void SetJobs(std::vector<core::Job> jobs);
  void JumpClock(absl::Duration by);
  void SetWall(absl::Time wall) { wall_start_ = wall - timeline_.now(); }
  void Ask(scheduler::Call call);
  void Trigger(const scheduler::TriggerQuery& query);
  void Heal() { quiet_ = true; }
  void End() { referee_.OnEnd(ledgers_, WallNow()); }

  Referee& referee() { return referee_; }
  uint64_t lives() const { return life_; }

  absl::Time WallNow() const override { return wall_start_ + timeline_.now() + jumped_; }
  absl::Duration MonotonicNow() const override { return timeline_.now(); }

  void Submit(const core::Submission& submission, Reply<scheduler::Accepted> reply) override;
  void AskEnds(std::vector<std::string> queue_ids,
               Reply<std::vector<scheduler::TaskEnd>> reply) override;
  void StartDirect(const std::string& agent_url, const core::Submission& submission,
                   Reply<scheduler::Accepted> reply) override;

 private:
  test::MemoryLedgers::Fate DecideCommit(absl::Span<const scheduler::LedgerChange> batch);
  void PlanTurn(absl::Duration delay);
  void RunTurn();
  // Whether a call leaves the process, which may die of it.
  bool MayCall();
  // A director that serves is noticed in time.
  void CheckLink();

  const int number_;
  const Settings& settings_;
  Timeline& timeline_;
  test::FakeRandom& random_;
  SimulatedDirector& director_;
  Referee referee_;
  test::MemoryLedgers ledgers_;
  std::unique_ptr<scheduler::Scheduler> scheduler_;
  std::vector<scheduler::Call> inbox_;
  // What it uses, also after a restart; and what the file says since then.
  std::vector<core::Job> jobs_;
  std::optional<std::vector<core::Job>> next_jobs_;
  bool has_jobs_ = false;
  absl::Time wall_start_;
  absl::Duration jumped_;
  // Counts its lives: what was meant for an earlier one is lost.
  uint64_t life_ = 0;
  // Since when it says that the director cannot be reached; infinite while it does not.
  absl::Duration unreachable_since_ = absl::InfiniteDuration();
  // Of the turn that is planned; others are not.
  uint64_t planned_ = 0;
  bool dying_ = false;
  bool quiet_ = false;
  // A turn in which nothing goes wrong.
  bool calm_ = false;
};

// What happened in a world.
struct Report {
  std::string failure = {};
  // Equal for two runs of one seed.
  uint64_t hash = 0;
  uint64_t rows = 0;
  uint64_t tasks = 0;
  uint64_t crashes = 0;
  absl::Duration time = {};

  void Add(const Report& other);
  std::string Counts() const;
};

// Lets the world of a seed run: first with everything that its settings allow to go wrong, then,
// with nothing going wrong any more, until all is decided. Stops at the first broken promise.
Report Simulate(uint64_t seed);

std::string ReplayHint(uint64_t seed);

}  // namespace callboard::simulation::cron

#endif  // CALLBOARD_TESTS_SIMULATION_SCHEDULER_WORLD_H_
