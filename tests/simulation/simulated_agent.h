#ifndef CALLBOARD_TESTS_SIMULATION_SIMULATED_AGENT_H_
#define CALLBOARD_TESTS_SIMULATION_SIMULATED_AGENT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/core/session.h"
#include "tests/simulation/simulated_director.h"

namespace callboard::simulation {

// An agent as the protocol wants it, with everything that may happen to one. Its journal survives a
// crash of its process; the processes of its tasks may outlive it, until it comes back or until
// their own supervisor ends them.
class SimulatedAgent {
 public:
  SimulatedAgent(Ground& ground, SimulatedDirector& director, Address address);

  const std::string& name() const { return name_; }
  Address address() const { return address_; }

  void Start();
  // With everything it wrote, when the machine itself loses power.
  void Crash(bool power_cut);
  // The machine burns down.
  void Die();
  void Freeze(absl::Duration time);
  void BecomeQuiet();
  bool is_up() const { return up_; }

  void HearOpen(core::SessionId session, uint64_t director_epoch);
  void HearHeartbeatAck(core::SessionId session, absl::Duration t);
  void HearItem(core::SessionId session, const core::DirectorItem& item);

 private:
  // A task's process and its supervisor, which lives on when the agent does not.
  struct Run {
    bool alive = true;
    bool ending = false;
    // In the agent's time.
    absl::Duration fence_at;
    // How it ends if nobody interferes.
    core::RunResult result;
    // The agent's life that started it, and its timers.
    uint64_t life = 0;
  };

  // The agent's own monotonic time, which runs a little fast or slow.
  absl::Duration Time() const { return time_base_ + ground_.timeline.now() * clock_rate_; }
  void Handle(core::SessionId session, std::function<void()> what);
  void Say(core::AgentItem item);
  core::LoadReported Load() const;

  void OnStart(const core::StartRun& start);
  absl::Status AnswerTo(const core::StartRun& start);
  void OnCancel(const core::FenceToken& token);
  void Begin(const core::StartRun& start);
  // The process gets SIGTERM, and is gone after a while.
  void EndProcess(const core::FenceToken& token, const core::RunResult& result);
  void OnProcessGone(const core::FenceToken& token, const core::RunResult& result);
  void WatchFence(const core::FenceToken& token);
  void Beat(uint64_t life);

  Ground& ground_;
  SimulatedDirector& director_;
  const Address address_;
  const std::string name_;
  const double clock_rate_;
  const absl::Duration time_base_;

  bool up_ = false;
  bool dead_ = false;
  bool quiet_ = false;
  uint64_t life_ = 0;
  absl::Duration frozen_until_ = -absl::InfiniteDuration();
  core::SessionId session_;
  uint64_t highest_epoch_ = 0;
  // Starts that were answered, and how.
  std::map<core::FenceToken, absl::Status> answers_;
  // Heartbeats that were not acknowledged yet.
  std::map<absl::Duration, std::vector<core::FenceToken>> beats_;

  // The journal: accepted, and results that were not acknowledged.
  std::set<core::FenceToken> journal_;
  std::map<core::FenceToken, core::RunResult> results_;
  // The processes.
  std::map<core::FenceToken, Run> runs_;
};

}  // namespace callboard::simulation

#endif  // CALLBOARD_TESTS_SIMULATION_SIMULATED_AGENT_H_
