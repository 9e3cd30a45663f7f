// Crashes directors at every call, while the tests crash them at a sample of calls. Started by
// run_all.sh and full_disk.sh in the folder with its data:
//
//   crash_runs kill FOLDER TIMES       kills at every call, TIMES times each
//   crash_runs cut FOLDER RECORDINGS   cuts the power in three ways after every call of some runs
//   crash_runs full FOLDER SECONDS     fills the disk for SECONDS
#include <algorithm>
#include <filesystem>
#include <functional>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tests/crash/crash_run.h"
#include "tests/crash/full_disk.h"

namespace callboard::crash {
namespace {

constexpr Scenario kScenarios[] = {Scenario::kFresh, Scenario::kRestart, Scenario::kReopen};
constexpr const char* kScenarioNames[] = {"fresh", "restart", "reopen"};

const char* NameOf(Scenario scenario) { return kScenarioNames[static_cast<int>(scenario)]; }

// Executes every `step`-th run of a job, from run `first` on.
using RunSubset = std::function<RunTotals(CrashRuns& runs, uint64_t first, uint64_t step)>;

// Executes all runs, spread over the processors.
RunTotals RunOnAllProcessors(const std::filesystem::path& folder, const RunSubset& run_subset) {
  const uint64_t step = std::max(1u, std::thread::hardware_concurrency());
  std::vector<RunTotals> tallies(step);
  std::vector<std::thread> threads;
  for (uint64_t first = 0; first < step; ++first) {
    threads.emplace_back([&, first] {
      CrashRuns runs(folder / absl::StrCat("share_", first));
      tallies[first] = run_subset(runs, first, step);
    });
  }
  for (std::thread& thread : threads) thread.join();
  RunTotals all;
  for (const RunTotals& totals : tallies) all.Add(totals);
  return all;
}

bool Report(const std::string& what, const RunTotals& totals) {
  std::cout << what << ": " << totals.ToString() << "\n" << totals.failures << std::flush;
  return totals.failures.empty();
}

// Returns the largest number of calls of a run.
uint64_t CallsOf(CrashRuns& runs, Scenario scenario) {
  uint64_t most = 0;
  for (uint64_t seed = 0; seed < 6; ++seed) {
    most = std::max(most, runs.Kill({.scenario = scenario, .seed = seed}).calls);
  }
  return most;
}

bool KillEverywhere(const std::filesystem::path& folder, uint64_t times) {
  bool ok = true;
  for (const Scenario scenario : kScenarios) {
    const std::filesystem::path own_folder = folder / NameOf(scenario);
    CrashRuns first_runs(own_folder / "first");
    const uint64_t calls = CallsOf(first_runs, scenario);
    const RunTotals totals =
        RunOnAllProcessors(own_folder, [=](CrashRuns& runs, uint64_t first, uint64_t step) {
          RunTotals own;
          for (uint64_t i = first; i < calls * times; i += step) {
            const KillPoint point = {.scenario = scenario,
                                     .call = 1 + i / times,
                                     .death = static_cast<DeathTime>(i % 3),
                                     .seed = i};
            own.Add(absl::StrCat(NameOf(scenario), " call ", point.call, ", seed ", i),
                    runs.Kill(point));
          }
          return own;
        });
    ok = Report(absl::StrCat("kill, ", NameOf(scenario), ", ", calls, " calls, ", times,
                             " times each"),
                totals) &&
         ok;
  }
  return ok;
}

bool CutEverywhere(const std::filesystem::path& folder, uint64_t recordings) {
  bool ok = true;
  for (const Scenario scenario : kScenarios) {
    const RunTotals totals = RunOnAllProcessors(folder / NameOf(scenario), [=](CrashRuns& runs,
                                                                               uint64_t first,
                                                                               uint64_t step) {
      RunTotals own;
      for (uint64_t seed = first; seed < recordings; seed += step) {
        const Recording recording = runs.Record(scenario, seed);
        for (const DiskCall& call : recording.calls) {
          for (const Unsynced unsynced : {Unsynced::kLost, Unsynced::kCutShort, Unsynced::kHoles}) {
            own.Add(
                absl::StrCat(NameOf(scenario), " tick ", call.tick, ", seed ", seed),
                runs.CutPower(recording, {.tick = call.tick, .unsynced = unsynced, .seed = seed}));
          }
        }
      }
      return own;
    });
    ok = Report(absl::StrCat("power cut, ", NameOf(scenario), ", ", recordings, " recordings"),
                totals) &&
         ok;
  }
  return ok;
}

bool Fill(const std::filesystem::path& folder, uint64_t seconds) {
  std::filesystem::create_directories(folder);
  const FullDiskReport report = FillDisk(folder, absl::Seconds(seconds));
  std::cout << "full for " << seconds << " s: " << report.ToString() << "\n";
  return report.while_full.ok() && report.afterwards.ok() && report.after_restart.ok() &&
         report.reads > report.failed_reads && report.exit_code == 0 &&
         report.until_writable <= absl::Seconds(10);
}

int Run(const std::string& what, const std::filesystem::path& folder, uint64_t number) {
  if (what == "kill") return KillEverywhere(folder, number) ? 0 : 1;
  if (what == "cut") return CutEverywhere(folder, number) ? 0 : 1;
  if (what == "full") return Fill(folder, number) ? 0 : 1;
  return 2;
}

}  // namespace
}  // namespace callboard::crash

int main(int argc, char** argv) {
  uint64_t number = 0;
  if (argc != 4 || !absl::SimpleAtoi(argv[3], &number)) {
    std::cerr << "usage: crash_runs kill|cut|full FOLDER NUMBER\n";
    return 2;
  }
  return callboard::crash::Run(argv[1], argv[2], number);
}
