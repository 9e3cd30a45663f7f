// Runs one script, as an agent would, until it is killed: for tests of what an agent leaves behind.
//
//   runner_host <data folder> <milliseconds to the fence, or 0 for none> <script>
#include <cstdio>

#include "absl/strings/numbers.h"
#include "libs/adapters/subprocess_runner/launcher.h"
#include "libs/adapters/subprocess_runner/subprocess_runner.h"
#include "libs/adapters/system_clock/system_clock.h"
#include "libs/base/check.h"
#include "libs/testing/recorded_runs.h"
#include "libs/testing/run_orders.h"

int main(int argc, char** argv) {
  if (const auto code = callboard::adapters::MaybeRunSupervisor(argc, argv)) return *code;
  CHECK_EQ(argc, 4);
  int fence_milliseconds = 0;
  CHECK(absl::SimpleAtoi(argv[2], &fence_milliseconds));
  const callboard::adapters::SystemClock clock;
  callboard::test::RecordedRuns runs;
  const auto runner = callboard::adapters::SubprocessRunner::Create(
      {.kind = callboard::adapters::SubprocessRunnerOptions::Kind::kShell,
       .allow_shell = true,
       .environment = {{"PATH", "/usr/bin:/bin"}},
       .env_allow = {"PATH"},
       .data_dir = argv[1]},
      clock, runs);
  CHECK_OK(runner.status());
  callboard::ports::RunOrder order =
      callboard::test::RunOrderOf(callboard::test::RunToken(1), callboard::test::SpecOf(argv[3]));
  order.kill_grace = absl::Milliseconds(100);
  if (fence_milliseconds > 0) {
    order.fence_at = clock.MonotonicNow() + absl::Milliseconds(fence_milliseconds);
  }
  (*runner)->Start(order);
  const callboard::core::RunResult result = runs.WaitForEnd(order.token);
  std::fprintf(stderr, "ended %d %s\n", static_cast<int>(result.end), result.error.c_str());
  return 0;
}
