#ifndef CALLBOARD_TESTS_SIMULATION_SIMULATED_DIRECTOR_H_
#define CALLBOARD_TESTS_SIMULATION_SIMULATED_DIRECTOR_H_

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "libs/director/director.h"
#include "libs/ports/agent_link.h"
#include "libs/testing/faulty_event_stores.h"
#include "tests/simulation/gauges.h"
#include "tests/simulation/network.h"
#include "tests/simulation/referee.h"
#include "tests/simulation/settings.h"
#include "tests/simulation/timeline.h"

namespace callboard::simulation {

class SimulatedAgent;

// What all parts of a world share.
struct Ground {
  const Settings& settings;
  Timeline& timeline;
  SimulatedClock& clock;
  test::FakeRandom& random;
  Network& network;
  Referee& referee;
  bool quiet = false;
};

// The director's process: the real Director, its inbox, and its end of the Sessions. Dies at any
// moment and comes back with what is on the disk.
class SimulatedDirector final : public ports::AgentLink {
 public:
  explicit SimulatedDirector(Ground& ground);

  void AddAgent(SimulatedAgent& agent) { agents_.push_back(&agent); }
  void Start();
  void Die();
  // The world ends: nobody is told.
  void Vanish();
  void FillDisk(bool full) { disk_full_ = full; }
  // A Session breaks in a way that both ends may notice.
  void BreakSession(size_t agent);

  bool is_up() const { return director_ != nullptr; }
  uint64_t crashes() const { return crashes_; }
  // Counts the lives of the process: what was said to an earlier one is lost.
  uint64_t life() const { return crashes_; }

  // False when nobody is there to take it.
  bool Post(director::CommandPtr command);
  director::CallId NextCall() { return director::CallId(++last_call_); }
  // What the task on the disk asked for; nothing when it is not there.
  core::TaskSpec SpecOf(core::QueueId id) const;
  // Says something to a caller, if the process still lives when it comes to it.
  void Tell(Address caller, std::function<void()> what);
  // Called when the process has died: whoever waited for it knows no more.
  void OnDeath(std::function<void()> told) { on_death_ = std::move(told); }

  // ---- What comes from agents ----

  void HearOpened(core::SessionId session, const core::AgentOpened& opened);
  void HearItem(core::SessionId session, const core::AgentItem& item);

  // ---- ports::AgentLink ----

  void Say(core::SessionId session, std::vector<core::DirectorItem> items) override;
  void Redial(uint64_t director_epoch) override;

 private:
  struct Session {
    size_t agent;
    bool opened = false;
  };

  test::FaultyEventStores::Fate DecideCommit();
  // Whether the process still speaks; one that dies while it speaks says no more.
  bool Speaks();
  void SayOne(core::SessionId session, const core::DirectorItem& item);
  absl::Duration UntilNextTurn() const;
  void PlanTurn(absl::Duration delay);
  void Turn();
  director::Moment TakeCommitMoment();
  // Sends what was decided to the disk, if nothing else is on its way there.
  void BeginCommit();
  void EndCommit();
  void Dial(size_t agent);
  void CloseSession(core::SessionId session);
  director::Moment Now() const { return {ground_.clock.WallNow(), ground_.clock.MonotonicNow()}; }

  Ground& ground_;
  test::FaultyEventStores stores_;
  std::vector<SimulatedAgent*> agents_;
  Gauges gauges_{[this](const director::AgentCounts& agents) {
    const std::string wrong = WhatIsWrong(agents, *director_->engine());
    if (!wrong.empty()) ground_.referee.Fail(wrong);
  }};
  std::unique_ptr<director::Director> director_;
  std::function<void()> on_death_;
  std::vector<director::CommandPtr> inbox_;
  std::map<core::SessionId, Session> sessions_;
  uint64_t last_session_ = 0;
  uint64_t last_call_ = 0;
  uint64_t crashes_ = 0;
  uint64_t epoch_ = 0;
  // The turn that is planned; an earlier plan is void.
  uint64_t plan_ = 0;
  // What is on its way to the disk.
  std::optional<director::Turn> committing_;
  absl::Status commit_status_;
  // When each record of the open turn, and of the one on its way, was decided.
  std::vector<director::Moment> open_moments_;
  std::deque<director::Moment> commit_moments_;
  absl::Duration planned_at_ = absl::InfiniteDuration();
  bool dying_ = false;
  // Things it still says before it dies; negative when it does not.
  int says_left_ = -1;
  bool disk_full_ = false;
  absl::Duration commit_takes_ = {};
};

}  // namespace callboard::simulation

#endif  // CALLBOARD_TESTS_SIMULATION_SIMULATED_DIRECTOR_H_
