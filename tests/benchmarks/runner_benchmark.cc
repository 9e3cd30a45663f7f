// Cost of running a program under supervision, compared with bare posix_spawn().
//
// BM_…ToExec is the time until the program runs, as the program reports it; BM_…ToEnd is the time
// until its end is known. The libraries of an agent are linked in, because the launcher, like the
// agent, maps them, and each fork copies that map.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "libs/base/check.h"
#include "libs/runner/launcher.h"
#include "libs/runner/subprocess_runner.h"
#include "libs/system/system.h"
#include "libs/testing/recorded_runs.h"

namespace callboard {
namespace {

const system::SystemClock kClock;

class Runner {
 public:
  explicit Runner(std::vector<std::string> argv) {
    std::string pattern = std::filesystem::temp_directory_path() / "runner-XXXXXX";
    CHECK(mkdtemp(pattern.data()) != nullptr);
    folder_ = pattern;
    auto runner = runner::SubprocessRunner::Create({.argv = std::move(argv), .data_dir = folder_},
                                                   kClock, runs_);
    CHECK_OK(runner.status());
    runner_ = *std::move(runner);
  }
  ~Runner() {
    runner_.reset();
    std::filesystem::remove_all(folder_);
  }

  core::FenceToken Start() {
    const core::FenceToken token = test::RunToken(++runs_started_);
    runner_->Start(test::MakeRunRequest(token, test::SpecOf("prompt")));
    return token;
  }
  core::RunResult WaitForEnd(const core::FenceToken& run) { return runs_.WaitForEnd(run); }

 private:
  std::filesystem::path folder_;
  test::RecordedRuns runs_;
  uint64_t runs_started_ = 0;
  std::unique_ptr<runner::SubprocessRunner> runner_;
};

// Returns the output of a program that runs to its end.
std::string Spawned(std::vector<std::string> arguments) {
  int ends[2];
  CHECK_EQ(pipe2(ends, O_CLOEXEC), 0);
  posix_spawn_file_actions_t actions;
  CHECK_EQ(posix_spawn_file_actions_init(&actions), 0);
  CHECK_EQ(posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO), 0);
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  char* const no_environment[] = {nullptr};
  pid_t pid = 0;
  CHECK_EQ(posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), no_environment), 0);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string text(64, '\0');
  text.resize(static_cast<size_t>(read(ends[0], text.data(), text.size())));
  close(ends[0]);
  CHECK_EQ(waitpid(pid, nullptr, 0), pid);
  return text;
}

const std::vector<std::string> kNothing = {"/bin/true"};
const std::vector<std::string> kTheTime = {"/bin/date", "+%s%N"};

double SecondsFrom(absl::Time start, absl::string_view nanoseconds) {
  int64_t end = 0;
  CHECK(absl::SimpleAtoi(absl::StripSuffix(nanoseconds, "\n"), &end)) << nanoseconds;
  return absl::ToDoubleSeconds(absl::FromUnixNanos(end) - start);
}

void BM_SpawnToExec(benchmark::State& state) {
  for (auto _ : state) {
    const absl::Time start = kClock.WallNow();
    state.SetIterationTime(SecondsFrom(start, Spawned(kTheTime)));
  }
}
BENCHMARK(BM_SpawnToExec)->UseManualTime()->Unit(benchmark::kMicrosecond);

void BM_RunToExec(benchmark::State& state) {
  Runner runner(kTheTime);
  runner.WaitForEnd(runner.Start());
  for (auto _ : state) {
    const absl::Time start = kClock.WallNow();
    state.SetIterationTime(SecondsFrom(start, runner.WaitForEnd(runner.Start()).result));
  }
}
BENCHMARK(BM_RunToExec)->UseManualTime()->Unit(benchmark::kMicrosecond);

void BM_SpawnToEnd(benchmark::State& state) {
  for (auto _ : state) Spawned(kNothing);
}
BENCHMARK(BM_SpawnToEnd)->UseRealTime()->Unit(benchmark::kMicrosecond);

void BM_RunToEnd(benchmark::State& state) {
  Runner runner(kNothing);
  runner.WaitForEnd(runner.Start());
  for (auto _ : state) {
    CHECK_EQ(runner.WaitForEnd(runner.Start()).exit_code.value_or(-1), 0);
  }
}
BENCHMARK(BM_RunToEnd)->UseRealTime()->Unit(benchmark::kMicrosecond);

// Many concurrent runs.
void BM_RunManyToEnd(benchmark::State& state) {
  Runner runner(kNothing);
  runner.WaitForEnd(runner.Start());
  std::vector<core::FenceToken> tokens(static_cast<size_t>(state.range(0)));
  for (auto _ : state) {
    for (core::FenceToken& token : tokens) token = runner.Start();
    for (const core::FenceToken& token : tokens) {
      CHECK_EQ(runner.WaitForEnd(token).exit_code.value_or(-1), 0);
    }
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_RunManyToEnd)->Arg(100)->Arg(1000)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace callboard

int main(int argc, char** argv) {
  if (const auto code = callboard::runner::MaybeRunLauncher(argc, argv)) return *code;
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
