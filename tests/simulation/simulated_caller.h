#ifndef CALLBOARD_TESTS_SIMULATION_SIMULATED_CALLER_H_
#define CALLBOARD_TESTS_SIMULATION_SIMULATED_CALLER_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "libs/core/task.h"
#include "tests/simulation/simulated_director.h"

namespace callboard::simulation {

// A caller that submits tasks one after the other. If the outcome of a submit is unknown, it
// submits again with the same request id. It may leave while it waits, cancel its tasks, and
// redrive failed tasks.
class SimulatedCaller {
 public:
  SimulatedCaller(SimulationContext& context, SimulatedDirector& director, Address address);

  void Start();
  // The director died: open calls get no answer.
  void OnDirectorDied();
  // Returns whether all submits were answered.
  bool is_done() const { return !pending_.has_value() && submits_left_ == 0; }
  // Starts no further submits, but finishes the open one.
  void BecomeQuiet();

 private:
  void Next();
  core::Submission MakeSubmission();
  void Reserve();
  void Submit();
  void SubmitDuplicate(const core::Submission& submission);
  void OnDecision(uint64_t call, const director::Decision& decision);
  void OnSubmitted(const director::SubmitResult& submitted, const std::string& request_id);
  void Retry();
  void FinishRequest();
  void Cancel(core::QueueId id);
  void Redrive(core::QueueId id);
  bool WaitsInOrder() const;

  SimulationContext& context_;
  SimulatedDirector& director_;
  const Address address_;
  const std::string identity_;
  int submits_left_;
  uint64_t last_request_ = 0;
  std::optional<core::Submission> pending_;
  bool wants_ticket_ = false;
  // The open call; 0 for none.
  uint64_t call_ = 0;
  std::vector<core::Submission> sent_before_;
};

}  // namespace callboard::simulation

#endif  // CALLBOARD_TESTS_SIMULATION_SIMULATED_CALLER_H_
