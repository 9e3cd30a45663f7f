// Runs one script, as an agent would, until it is killed: for tests of the processes that an agent
// leaves behind.
//
//   runner_host <data folder> <milliseconds to the fence, or 0 for none> <script>
#include <cstdio>

#include "absl/strings/numbers.h"
#include "libs/base/check.h"
#include "libs/runner/launcher.h"
#include "libs/runner/subprocess_runner.h"
#include "libs/system/system.h"
#include "libs/testing/recorded_runs.h"

int main(int argc, char** argv) {
  if (const auto code = callboard::runner::MaybeRunLauncher(argc, argv)) return *code;
  CHECK_EQ(argc, 4);
  int fence_milliseconds = 0;
  CHECK(absl::SimpleAtoi(argv[2], &fence_milliseconds));
  const callboard::system::SystemClock clock;
  callboard::test::RecordedRuns runs;
  const auto runner = callboard::runner::SubprocessRunner::Create(
      {.kind = callboard::runner::SubprocessRunnerOptions::Kind::kShell,
       .allow_shell = true,
       .environment = {{"PATH", "/usr/bin:/bin"}},
       .env_allow = {"PATH"},
       .data_dir = argv[1]},
      clock, runs);
  CHECK_OK(runner.status());
  callboard::ports::RunRequest request = callboard::test::MakeRunRequest(
      callboard::test::RunToken(1), callboard::test::SpecOf(argv[3]));
  request.kill_grace = absl::Milliseconds(100);
  if (fence_milliseconds > 0) {
    request.fence_at = clock.MonotonicNow() + absl::Milliseconds(fence_milliseconds);
  }
  (*runner)->Start(request);
  const callboard::core::RunResult result = runs.WaitForEnd(request.token);
  std::fprintf(stderr, "ended %d %s\n", static_cast<int>(result.end), result.error.c_str());
  return 0;
}
