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

// Somebody who submits tasks, one after the other, and does not take silence for an answer: a
// submit whose outcome is not known is made again with the same request id. May leave while it
// waits, cancel what it submitted, and submit failed tasks anew.
class SimulatedCaller {
 public:
  SimulatedCaller(Ground& ground, SimulatedDirector& director, Address address);

  void Start();
  // Nobody is there any more who could answer.
  void OnDirectorDied();
  // Whether everything that it wanted to say was answered.
  bool is_done() const { return !pending_.has_value() && submits_left_ == 0; }
  // No further submits; what was begun is brought to an end.
  void BecomeQuiet();

 private:
  void Next();
  core::Submission MakeSubmission();
  void Reserve();
  void Submit();
  void SubmitTwin(const core::Submission& submission);
  void OnDecision(uint64_t call, const director::Decision& decision);
  void OnSubmitted(const director::Submitted& submitted, const std::string& request_id);
  void TryAgain();
  void GiveUp();
  void Cancel(core::QueueId id);
  void Redrive(core::QueueId id);
  bool TakesItsTurn() const;

  Ground& ground_;
  SimulatedDirector& director_;
  const Address address_;
  const std::string identity_;
  int submits_left_;
  uint64_t last_request_ = 0;
  std::optional<core::Submission> pending_;
  bool wants_ticket_ = false;
  // The call that is under way; 0 for none.
  uint64_t call_ = 0;
  std::vector<core::Submission> sent_before_;
};

}  // namespace callboard::simulation

#endif  // CALLBOARD_TESTS_SIMULATION_SIMULATED_CALLER_H_
