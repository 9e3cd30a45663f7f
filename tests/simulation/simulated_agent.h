#ifndef CALLBOARD_TESTS_SIMULATION_SIMULATED_AGENT_H_
#define CALLBOARD_TESTS_SIMULATION_SIMULATED_AGENT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/agent/engine.h"
#include "libs/agent/journal.h"
#include "libs/core/session.h"
#include "tests/simulation/simulated_director.h"

namespace callboard::simulation {

// The real rules of an agent, with everything that may happen to one. Its journal survives a crash
// of its process; the processes of its tasks may outlive it, until it comes back or until their own
// supervisor ends them.
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
  bool is_up() const { return engine_ != nullptr; }

  void HearOpen(core::SessionId session, uint64_t director_epoch);
  void HearHeartbeatAck(core::SessionId session, absl::Duration t);
  void HearItem(core::SessionId session, const core::DirectorItem& item);

 private:
  // A task's process and its supervisor, which lives on when the agent does not.
  struct Process {
    bool ending = false;
    // In the agent's time.
    absl::Duration fence_at;
    // How it ends if nobody interferes.
    core::RunResult result;
    // The agent's life that started it.
    uint64_t life = 0;
  };

  // The agent's own monotonic time, which runs a little fast or slow.
  absl::Duration Time() const { return time_base_ + ground_.timeline.now() * clock_rate_; }
  // Runs the agent's code, now or when it is no longer frozen, if it is still the same life.
  void Act(std::function<void(agent::AgentEngine&)> what);
  // Does what follows from it: into the journal, to the processes, to the director.
  void Follow();
  absl::Status Check();
  // Whether it leaves starts without an answer, in one of two ways.
  bool IgnoresStarts() const;
  // Ends its Session every few seconds; the director dials it again.
  void ReopenSession();
  void EndSession();

  void Begin(const ports::RunOrder& order);
  // The process gets SIGTERM, and is gone after a while.
  void EndProcess(const core::FenceToken& token);
  void OnProcessGone(const core::FenceToken& token, const core::RunResult& result);
  void WatchFence(const core::FenceToken& token);
  void PlanTimers();

  Ground& ground_;
  SimulatedDirector& director_;
  const Address address_;
  const std::string name_;
  const double clock_rate_;
  const absl::Duration time_base_;

  // The real one; null while the agent is down.
  std::unique_ptr<agent::AgentEngine> engine_;
  bool dead_ = false;
  bool quiet_ = false;
  uint64_t life_ = 0;
  absl::Duration frozen_until_ = -absl::InfiniteDuration();
  core::SessionId session_;
  uint64_t plan_ = 0;

  // What is on its disk.
  agent::Journaled journal_;
  std::map<core::FenceToken, Process> processes_;
};

}  // namespace callboard::simulation

#endif  // CALLBOARD_TESTS_SIMULATION_SIMULATED_AGENT_H_
