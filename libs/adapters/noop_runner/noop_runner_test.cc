#include "libs/adapters/noop_runner/noop_runner.h"

#include <optional>

#include "libs/testing/task_runner_contract.h"

namespace callboard::adapters {
namespace {

struct NoopHarness {
  static constexpr bool kLasts = false;

  explicit NoopHarness(ports::RunWatcher& watcher) : noop(std::in_place, watcher) {}

  ports::TaskRunner& runner() { return *noop; }
  void Destroy() { noop.reset(); }
  core::TaskSpec Spec() { return test::SpecOf("prompt"); }
  void Finish(const core::FenceToken&) {}
  void Obey(const core::FenceToken&) {}

  std::optional<NoopRunner> noop;
};

}  // namespace
}  // namespace callboard::adapters

namespace callboard::test {
namespace {

using adapters::NoopHarness;

INSTANTIATE_TYPED_TEST_SUITE_P(Noop, TaskRunnerContractTest, NoopHarness);

TEST(NoopRunnerTest, ExitCodeIsThatOfSuccess) {
  RecordedRuns runs;
  adapters::NoopRunner noop(runs);
  noop.Start(RunOrderOf(RunToken(1), SpecOf("prompt")));
  EXPECT_EQ(runs.WaitForEnd(RunToken(1)).exit_code, 0);
}

}  // namespace
}  // namespace callboard::test
