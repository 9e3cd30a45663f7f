#ifndef CALLBOARD_LIBS_TESTING_SHELL_RUNS_H_
#define CALLBOARD_LIBS_TESTING_SHELL_RUNS_H_

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libs/base/check.h"
#include "libs/runner/subprocess_runner.h"
#include "libs/system/system.h"
#include "libs/testing/files.h"
#include "libs/testing/recorded_runs.h"

namespace callboard::test {

// A runner that runs scripts in real processes, and the recorded events of its runs. The `main` of
// such a test must call runner::MaybeRunLauncher().
class ShellRuns {
 public:
  ShellRuns() { Open(Options()); }
  explicit ShellRuns(std::vector<std::string> argv) {
    runner::SubprocessRunnerOptions options = Options();
    options.kind = runner::SubprocessRunnerOptions::Kind::kExec;
    options.argv = std::move(argv);
    Open(std::move(options));
  }

  runner::SubprocessRunnerOptions Options() const {
    return {.kind = runner::SubprocessRunnerOptions::Kind::kShell,
            .allow_shell = true,
            .environment = {{"PATH", "/usr/bin:/bin"}, {"SECRET", "of the agent"}},
            .env_allow = {"PATH"},
            .data_dir = data_dir_};
  }

  core::FenceToken Start(core::RunSpec spec, absl::Duration kill_grace = absl::Seconds(10),
                         absl::Duration fence_in = absl::InfiniteDuration()) {
    const core::FenceToken token = RunToken(++last_run_);
    ports::RunRequest request = MakeRunRequest(token, std::move(spec));
    request.kill_grace = kill_grace;
    request.fence_at = clock_.MonotonicNow() + fence_in;
    runner_->Start(std::move(request));
    return token;
  }
  core::FenceToken Start(std::string script, absl::Duration kill_grace = absl::Seconds(10)) {
    return Start(SpecOf(std::move(script)), kill_grace);
  }
  core::RunResult RunToEnd(core::RunSpec spec) { return runs_.WaitForEnd(Start(std::move(spec))); }
  core::RunResult RunToEnd(std::string script) { return RunToEnd(SpecOf(std::move(script))); }

  void Close() { runner_.reset(); }

  ports::TaskRunner& runner() { return *runner_; }
  RecordedRuns& runs() { return runs_; }
  const ports::Clock& clock() const { return clock_; }
  const std::filesystem::path& data_dir() const { return data_dir_; }

 private:
  void Open(runner::SubprocessRunnerOptions options) {
    auto runner = runner::SubprocessRunner::Create(std::move(options), clock_, runs_);
    CHECK_OK(runner.status());
    runner_ = *std::move(runner);
  }

  const std::filesystem::path data_dir_ = NewFolder();
  const system::SystemClock clock_;
  RecordedRuns runs_;
  uint64_t last_run_ = 0;
  std::unique_ptr<runner::SubprocessRunner> runner_;
};

}  // namespace callboard::test

#endif  // CALLBOARD_LIBS_TESTING_SHELL_RUNS_H_
