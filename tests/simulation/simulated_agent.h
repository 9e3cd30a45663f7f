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
#include "libs/agent/run_table.h"
#include "libs/core/session.h"
#include "tests/simulation/simulated_director.h"

namespace callboard::simulation {

// An agent with the real AgentEngine and simulated faults. Its journal survives a crash of its
// process; the processes of its tasks may outlive the agent, until it restarts or until their
// supervisor ends them.
class SimulatedAgent {
 public:
  SimulatedAgent(SimulationContext& context, SimulatedDirector& director, Address address);

  const std::string& name() const { return name_; }
  Address address() const { return address_; }

  void Start();
  // The journal is lost too if the machine loses power.
  void Crash(bool power_cut);
  // The machine is lost forever.
  void Die();
  void Freeze(absl::Duration time);
  void BecomeQuiet();
  bool is_up() const { return engine_ != nullptr; }

  void OnOpenSession(core::AgentSessionId session, uint64_t director_epoch);
  void OnHeartbeatAck(core::AgentSessionId session, absl::Duration t);
  void OnMessage(core::AgentSessionId session, const core::DirectorMessage& message);

 private:
  // The process of a task and its supervisor, which survives the agent.
  struct Process {
    bool ending = false;
    // The fence, in the agent's time.
    absl::Duration fence_at;
    // The result if nothing stops it.
    core::RunResult result;
    // Number of the agent process that started it.
    uint64_t incarnation = 0;
  };

  // The agent's monotonic time, which runs a little fast or slow.
  absl::Duration Time() const { return time_base_ + context_.timeline.now() * clock_rate_; }
  // Runs `what` on the engine, now or when the agent is no longer frozen, if the agent process is
  // still the same.
  void RunEngine(std::function<void(agent::AgentEngine&)> what);
  // Applies the outcome: to the journal, the processes and the director.
  void ApplyOutcome();
  absl::Status Check();
  // Whether it does not answer starts, in one of two ways.
  bool IgnoresStarts() const;
  // Ends its Session every few seconds; the director dials it again.
  void ReopenSession();
  void EndSession();

  void StartProcess(const ports::RunRequest& request);
  // Sends SIGTERM to the process, which ends after a while.
  void EndProcess(const core::FenceToken& token);
  void OnProcessGone(const core::FenceToken& token, const core::RunResult& result);
  void WatchFence(const core::FenceToken& token);
  void PlanTimers();

  SimulationContext& context_;
  SimulatedDirector& director_;
  const Address address_;
  const std::string name_;
  const double clock_rate_;
  const absl::Duration time_base_;

  // The real engine; null while the agent is down.
  std::unique_ptr<agent::AgentEngine> engine_;
  bool dead_ = false;
  bool quiet_ = false;
  uint64_t incarnation_ = 0;
  absl::Duration frozen_until_ = -absl::InfiniteDuration();
  core::AgentSessionId session_;
  uint64_t plan_ = 0;

  // The content of its disk.
  agent::JournalState journal_;
  std::map<core::FenceToken, Process> processes_;
};

}  // namespace callboard::simulation

#endif  // CALLBOARD_TESTS_SIMULATION_SIMULATED_AGENT_H_
