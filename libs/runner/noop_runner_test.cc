#include "libs/runner/noop_runner.h"

#include <optional>

#include "libs/testing/recorded_runs.h"
#include "libs/testing/task_runner_contract.h"

namespace callboard::runner {
namespace {

struct NoopHarness {
  static constexpr bool kLasts = false;

  explicit NoopHarness(ports::RunObserver& observer) : noop(std::in_place, observer) {}

  ports::TaskRunner& runner() { return *noop; }
  void Destroy() { noop.reset(); }
  core::RunSpec Spec() { return test::SpecOf("prompt"); }
  void Finish(const core::FenceToken&) {}
  void ApplyStop(const core::FenceToken&) {}

  std::optional<NoopRunner> noop;
};

}  // namespace
}  // namespace callboard::runner

namespace callboard::test {
namespace {

using runner::NoopHarness;

INSTANTIATE_TYPED_TEST_SUITE_P(Noop, TaskRunnerContractTest, NoopHarness);

TEST(NoopRunnerTest, ExitCodeIsZero) {
  RecordedRuns runs;
  runner::NoopRunner noop(runs);
  noop.Start(MakeRunRequest(RunToken(1), SpecOf("prompt")));
  EXPECT_EQ(runs.WaitForEnd(RunToken(1)).exit_code, 0);
}

}  // namespace
}  // namespace callboard::test
