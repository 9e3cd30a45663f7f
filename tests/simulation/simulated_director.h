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
#include "libs/testing/memory_event_store.h"
#include "tests/simulation/gauges.h"
#include "tests/simulation/network.h"
#include "tests/simulation/referee.h"
#include "tests/simulation/settings.h"
#include "tests/simulation/timeline.h"

namespace callboard::simulation {

class SimulatedAgent;

// The objects that all parts of a simulation share.
struct SimulationContext {
  const Settings& settings;
  Timeline& timeline;
  SimulatedClock& clock;
  test::FakeRandom& random;
  Network& network;
  Referee& referee;
  bool quiet = false;
};

// The director's process: the real Director, its inbox, and its side of the Sessions. Dies at any
// moment and restarts from the records on disk.
class SimulatedDirector final : public ports::AgentLink {
 public:
  explicit SimulatedDirector(SimulationContext& context);

  void AddAgent(SimulatedAgent& agent) { agents_.push_back(&agent); }
  void Start();
  void Die();
  // Ends the process at the end of the simulation; callers are not notified.
  void Stop();
  void FillDisk(bool full) { disk_full_ = full; }
  // Breaks a Session in a way that both ends may notice.
  void BreakSession(size_t agent);

  bool is_up() const { return director_ != nullptr; }
  uint64_t crashes() const { return crashes_; }
  // Number of restarts. Messages to an earlier process are lost.
  uint64_t incarnation() const { return crashes_; }

  // Returns false if the process is down.
  bool Post(director::CommandPtr command);
  director::CallId NewCallId() { return director::CallId(++last_call_); }
  // Returns the spec of the task on disk; null if the task is not there.
  core::SpecBytes StoredSpec(core::QueueId id) const;
  // Delivers `what` to a caller, if the process is still alive at that time.
  void SendToCaller(Address caller, std::function<void()> what);
  // Sets a function that is called when the process has died: all open calls are lost.
  void SetDeathCallback(std::function<void()> callback) { on_death_ = std::move(callback); }

  // ---- Messages from agents ----

  void OnSessionOpened(core::AgentSessionId session, const core::SessionOpened& opened);
  void OnMessage(core::AgentSessionId session, const core::AgentMessage& message);

  // ---- ports::AgentLink ----

  void Send(core::AgentSessionId session, std::vector<core::DirectorMessage> messages) override;
  void Redial(uint64_t director_epoch) override;

 private:
  struct Session {
    size_t agent;
    bool opened = false;
  };

  test::FaultyEventStores::CommitResult DecideCommit();
  // Returns whether the process can still send; a process that dies while it sends sends nothing
  // more.
  bool CanSend();
  void SendMessage(core::AgentSessionId session, core::DirectorMessage message);
  absl::Duration UntilNextTurn() const;
  void PlanTurn(absl::Duration delay);
  void Turn();
  director::Moment TakeCommitMoment();
  // Commits the decided turn, if no other commit is in progress.
  void BeginCommit();
  void EndCommit();
  void Dial(size_t agent);
  void CloseSession(core::AgentSessionId session);
  director::Moment Now() const { return {context_.clock.WallNow(), context_.clock.MonotonicNow()}; }

  SimulationContext& context_;
  test::FaultyEventStores stores_;
  std::vector<SimulatedAgent*> agents_;
  Gauges gauges_{[this](const director::AgentCounts& agents) {
    const std::string wrong = FindMismatch(agents, *director_->engine());
    if (!wrong.empty()) context_.referee.Fail(wrong);
  }};
  std::unique_ptr<director::Director> director_;
  std::function<void()> on_death_;
  std::vector<director::CommandPtr> inbox_;
  std::map<core::AgentSessionId, Session> sessions_;
  uint64_t last_session_ = 0;
  uint64_t last_call_ = 0;
  uint64_t crashes_ = 0;
  uint64_t epoch_ = 0;
  // Number of the planned turn; earlier plans are void.
  uint64_t plan_ = 0;
  // The turn that is being committed.
  std::optional<director::Turn> committing_;
  absl::Status commit_status_;
  // Decision time of each record of the open turn, and of the turn that is being committed.
  std::vector<director::Moment> open_moments_;
  std::deque<director::Moment> commit_moments_;
  absl::Duration planned_at_ = absl::InfiniteDuration();
  bool dying_ = false;
  // Messages that it still sends before it dies; negative if it does not die.
  int sends_left_ = -1;
  bool disk_full_ = false;
  absl::Duration commit_takes_ = {};
};

}  // namespace callboard::simulation

#endif  // CALLBOARD_TESTS_SIMULATION_SIMULATED_DIRECTOR_H_
