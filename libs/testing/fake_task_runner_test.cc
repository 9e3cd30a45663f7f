#include "libs/testing/fake_task_runner.h"

#include <optional>

#include "libs/testing/recorded_runs.h"
#include "libs/testing/task_runner_contract.h"

namespace callboard::test {
namespace {

struct FakeHarness {
  static constexpr bool kLasts = true;

  explicit FakeHarness(ports::RunObserver& observer) : fake(std::in_place, observer) {}

  ports::TaskRunner& runner() { return *fake; }
  void Destroy() { fake.reset(); }
  core::RunSpec Spec() { return SpecOf("prompt"); }
  void Finish(const core::FenceToken& run) { fake->End(run); }
  void ApplyStop(const core::FenceToken& run) {
    if (fake->run(run)->stopped) fake->End(run, {.end = core::RunResult::End::kCancelled});
  }

  std::optional<FakeTaskRunner> fake;
};

INSTANTIATE_TYPED_TEST_SUITE_P(Fake, TaskRunnerContractTest, FakeHarness);

TEST(FakeTaskRunnerTest, RecordsFencesAndDeliveredBytes) {
  RecordedRuns runs;
  FakeTaskRunner fake(runs);
  ports::RunRequest request = MakeRunRequest(RunToken(1), SpecOf("prompt"));
  request.fence_at = absl::Seconds(5);
  fake.Start(request);
  EXPECT_EQ(fake.run(RunToken(1))->fence_at, absl::Seconds(5));
  fake.MoveFence(RunToken(1), absl::Seconds(9));
  fake.AcknowledgeOutput(RunToken(1), 3);
  fake.AcknowledgeOutput(RunToken(1), 4);
  EXPECT_EQ(fake.run(RunToken(1))->fence_at, absl::Seconds(9));
  EXPECT_EQ(fake.run(RunToken(1))->delivered_bytes, 7u);
  fake.Write(RunToken(1), {.number = 1, .data = "text"});
  EXPECT_EQ(runs.text(RunToken(1)), "text");
}

}  // namespace
}  // namespace callboard::test
