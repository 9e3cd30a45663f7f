// The contract of every task runner, as a test suite to instantiate for each implementation:
//
//   struct NoopHarness {
//     // Whether a run lasts until it is finished or stopped.
//     static constexpr bool kLasts = false;
//     explicit NoopHarness(ports::RunObserver& observer);
//     ports::TaskRunner& runner();
//     void Destroy();                             // Destroys the runner.
//     core::RunSpec Spec();                      // A run that can be finished.
//     void Finish(const core::FenceToken& run);   // Ends it with success.
//     void ApplyStop(const core::FenceToken& run);  // Makes a requested stop take effect.
//   };
//   INSTANTIATE_TYPED_TEST_SUITE_P(Noop, TaskRunnerContractTest, NoopHarness);
#ifndef CALLBOARD_LIBS_TESTING_TASK_RUNNER_CONTRACT_H_
#define CALLBOARD_LIBS_TESTING_TASK_RUNNER_CONTRACT_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libs/ports/task_runner.h"
#include "libs/testing/recorded_runs.h"
#include "libs/testing/status_matchers.h"

namespace callboard::test {

template <class Harness>
class TaskRunnerContractTest : public testing::Test {
 protected:
  using End = core::RunResult::End;

  ports::TaskRunner& runner() { return harness_.runner(); }
  void Start(const core::FenceToken& token) {
    runner().Start(MakeRunRequest(token, harness_.Spec()));
  }

  RecordedRuns runs_;
  Harness harness_{runs_};
};

TYPED_TEST_SUITE_P(TaskRunnerContractTest);

TYPED_TEST_P(TaskRunnerContractTest, CheckAcceptsASpecThatCanBeStarted) {
  EXPECT_THAT(this->runner().Check(this->harness_.Spec()), IsOk());
}

TYPED_TEST_P(TaskRunnerContractTest, RunEndsOnceAsCompleted) {
  const core::FenceToken run = RunToken(1);
  this->Start(run);
  this->harness_.Finish(run);
  EXPECT_EQ(this->runs_.WaitForEnd(run).end, core::RunResult::End::kCompleted);
  this->harness_.Destroy();
  EXPECT_EQ(this->runs_.ends(run), 1);
}

TYPED_TEST_P(TaskRunnerContractTest, RunsEndInAnyOrder) {
  for (uint64_t number : {1, 2, 3}) this->Start(RunToken(number));
  for (uint64_t number : {3, 1, 2}) {
    this->harness_.Finish(RunToken(number));
    EXPECT_EQ(this->runs_.WaitForEnd(RunToken(number)).end, core::RunResult::End::kCompleted);
  }
}

TYPED_TEST_P(TaskRunnerContractTest, StoppedRunIsCancelled) {
  const core::FenceToken run = RunToken(1);
  this->Start(run);
  this->runner().Stop(run);
  this->harness_.ApplyStop(run);
  const core::RunResult result = this->runs_.WaitForEnd(run);
  EXPECT_EQ(result.end, TypeParam::kLasts ? core::RunResult::End::kCancelled
                                          : core::RunResult::End::kCompleted);
}

TYPED_TEST_P(TaskRunnerContractTest, CallsForEndedOrUnknownRunsHaveNoEffect) {
  const core::FenceToken run = RunToken(1);
  this->Start(run);
  this->harness_.Finish(run);
  this->runs_.WaitForEnd(run);
  for (const core::FenceToken& token : {run, RunToken(2)}) {
    this->runner().Stop(token);
    this->runner().MoveFence(token, absl::ZeroDuration());
    this->runner().AcknowledgeOutput(token, 1000);
  }
  this->harness_.Destroy();
  EXPECT_EQ(this->runs_.ends(run), 1);
  EXPECT_EQ(this->runs_.ends(RunToken(2)), 0);
}

TYPED_TEST_P(TaskRunnerContractTest, RunsEndOnceAtDestruction) {
  for (uint64_t number : {1, 2, 3}) this->Start(RunToken(number));
  this->harness_.Destroy();
  for (uint64_t number : {1, 2, 3}) {
    ASSERT_EQ(this->runs_.ends(RunToken(number)), 1);
    EXPECT_EQ(this->runs_.WaitForEnd(RunToken(number)).end, TypeParam::kLasts
                                                                ? core::RunResult::End::kCancelled
                                                                : core::RunResult::End::kCompleted);
  }
}

REGISTER_TYPED_TEST_SUITE_P(TaskRunnerContractTest, CheckAcceptsASpecThatCanBeStarted,
                            RunEndsOnceAsCompleted, RunsEndInAnyOrder, StoppedRunIsCancelled,
                            CallsForEndedOrUnknownRunsHaveNoEffect, RunsEndOnceAtDestruction);

}  // namespace callboard::test

#endif  // CALLBOARD_LIBS_TESTING_TASK_RUNNER_CONTRACT_H_
