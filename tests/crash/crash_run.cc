#include "tests/crash/crash_run.h"

#include <signal.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "libs/base/check.h"
#include "tests/crash/director_process.h"
#include "tests/crash/load.h"
#include "tests/crash/queue_client.h"

namespace callboard::crash {
namespace {

constexpr int kKilled = 128 + SIGKILL;
// The number of tables at which RocksDB begins to merge them.
constexpr int kEarlierDirectors = 4;

bool Evicts(uint64_t seed) { return seed % 2 == 1; }

QueueRules RulesOf(uint64_t seed) { return {.evicts = Evicts(seed), .forgets = Evicts(seed)}; }

std::vector<std::string> FlagsOf(uint64_t seed) {
  if (!Evicts(seed)) return {"--queue.max_size=0"};
  return {"--queue.max_size=8", "--queue.policy=drop-oldest", "--retention.count=3"};
}

// Checks the folder after a crash with a new director.
class RestartCheck {
 public:
  RestartCheck(const std::filesystem::path& folder, uint64_t seed, History history, uint64_t tick)
      : director_(folder / kDataFolder, FlagsOf(seed)),
        rules_(RulesOf(seed)),
        history_(std::move(history)),
        tick_(tick) {}

  void Check(Outcome& outcome) {
    if (!director_.is_listening()) {
      outcome.failure = absl::StrCat("the next director did not start (", director_.WaitForEnd(),
                                     "): ", director_.process().Output());
      return;
    }
    CheckAnswers(outcome);
    if (director_.Stop() != 0) outcome.failure = director_.process().Output();
  }

 private:
  void CheckAnswers(Outcome& outcome) {
    QueueClient client(director_.address());
    std::vector<FoundTask> found = *client.FindAll();
    outcome.check_result = CheckHistory(history_, found, rules_);
    if (!outcome.check_result.ok()) return;
    ResubmitAll(client);
    found = *client.FindAll();
    // Keeps the number of recovered tasks, which now count as acknowledged.
    const uint64_t recovered = outcome.check_result.recovered;
    const uint64_t acknowledged = outcome.check_result.acknowledged;
    outcome.check_result = CheckHistory(history_, found, rules_);
    outcome.check_result.recovered = recovered;
    outcome.check_result.acknowledged = acknowledged;
    const auto pending = std::count_if(found.begin(), found.end(), [](const FoundTask& task) {
      return task.state == FoundTask::State::kPending;
    });
    if (*client.Depth() != static_cast<uint64_t>(pending)) outcome.failure = "depth is wrong";
  }

  // Repeats every submit, as a client without an answer does.
  void ResubmitAll(QueueClient& client) {
    std::map<std::string, Call> submits;
    for (const Call& call : history_) {
      if (call.kind == Call::Kind::kSubmit) submits.emplace(call.request_id, call);
    }
    for (const auto& [id, call] : submits) {
      history_.push_back(Resubmit(call, client, [this] { return ++tick_; }));
      CHECK(history_.back().answer == Call::Answer::kDone) << id;
    }
  }

  DirectorProcess director_;
  const QueueRules rules_;
  History history_;
  uint64_t tick_;
};

void Append(History more, History& history) {
  for (Call& call : more) history.push_back(std::move(call));
}

// Runs the load of the clients, in one part or before and after a failure of the disk.
History RunLoads(Scenario scenario, uint64_t seed, const std::string& address, Disk& disk) {
  const TickSource ticks = [&disk] { return disk.Tick(); };
  if (scenario != Scenario::kReopen) return RunLoad({.seed = seed, .name = "last"}, address, ticks);
  History history =
      RunLoad({.seed = seed, .calls_per_client = 3, .name = "before"}, address, ticks);
  disk.control().log_syncs_to_fail = 1;
  for (const char* name : {"during", "after"}) {
    const Load load = {.seed = seed, .calls_per_client = 4, .name = name};
    Append(RunLoad(load, address, ticks), history);
  }
  return history;
}

// Runs a director under load until it ends, and returns its exit code.
int RunToTheEnd(Scenario scenario, uint64_t seed, Disk& disk, History& history) {
  DirectorProcess director(disk, FlagsOf(seed));
  if (!director.is_listening()) return director.WaitForEnd();
  Append(RunLoads(scenario, seed, director.address(), disk), history);
  // It may be dying already.
  if (!director.process().WaitForExit(absl::ZeroDuration()).has_value()) {
    director.process().Signal(SIGTERM);
  }
  return director.WaitForEnd();
}

}  // namespace

std::string Outcome::ToString() const {
  return absl::StrCat(check_result.ToString(), failure.empty() ? "" : "\n", failure);
}

void RunTotals::Add(const std::string& which, const Outcome& outcome) {
  const CheckResult& check_result = outcome.check_result;
  ++runs;
  killed += outcome.was_killed ? 1 : 0;
  acknowledged += check_result.acknowledged;
  recovered += check_result.recovered;
  lost += check_result.lost.size();
  unexpected += check_result.unexpected.size();
  duplicated += check_result.duplicated.size();
  altered += check_result.altered.size();
  reordered += check_result.reordered.size();
  if (!outcome.ok()) absl::StrAppend(&failures, which, ": ", outcome.ToString(), "\n");
}

void RunTotals::Add(const RunTotals& other) {
  runs += other.runs;
  killed += other.killed;
  acknowledged += other.acknowledged;
  recovered += other.recovered;
  lost += other.lost;
  unexpected += other.unexpected;
  duplicated += other.duplicated;
  altered += other.altered;
  reordered += other.reordered;
  absl::StrAppend(&failures, other.failures);
}

std::string RunTotals::ToString() const {
  return absl::StrCat(runs, " runs, ", killed, " killed, ", acknowledged, " acknowledged, ",
                      recovered, " recovered; ", lost, " lost, ", unexpected, " unexpected, ",
                      duplicated, " duplicated, ", altered, " altered, ", reordered, " reordered");
}

std::filesystem::path CrashRuns::NewFolder() {
  const std::filesystem::path folder = folder_ / absl::StrCat("run_", ++folders_);
  std::filesystem::remove_all(folder);
  return folder;
}

const CrashRuns::InitialState& CrashRuns::InitialStateFor(Scenario scenario, uint64_t seed) {
  InitialState& initial = initial_states_[{scenario, Evicts(seed)}];
  if (!initial.folder.empty()) return initial;
  initial.folder = NewFolder();
  std::filesystem::create_directories(initial.folder);
  if (scenario != Scenario::kRestart) return initial;
  for (int i = 0; i < kEarlierDirectors; ++i) {
    Disk disk(initial.folder);
    disk.control().tick = initial.tick;
    DirectorProcess director(disk, FlagsOf(seed));
    const Load load = {.seed = static_cast<uint64_t>(i), .name = absl::StrCat("initial", i)};
    Append(RunLoad(load, director.address(), [&] { return disk.Tick(); }), initial.history);
    director.process().Signal(SIGKILL);
    director.WaitForEnd();
    initial.tick = disk.Tick();
  }
  return initial;
}

Outcome CrashRuns::Kill(const KillPoint& point) {
  const InitialState& initial = InitialStateFor(point.scenario, point.seed);
  const std::filesystem::path folder = NewFolder();
  std::filesystem::copy(initial.folder, folder, std::filesystem::copy_options::recursive);
  Disk disk(folder);
  disk.control().tick = initial.tick;
  disk.DieAt(point.call, point.death);
  Outcome outcome;
  History history = initial.history;
  const int code = RunToTheEnd(point.scenario, point.seed, disk, history);
  outcome.was_killed = code == kKilled;
  outcome.calls = disk.calls();
  if (outcome.was_killed || code == 0) {
    RestartCheck(folder, point.seed, std::move(history), disk.Tick()).Check(outcome);
  } else {
    outcome.failure = absl::StrCat("ended with ", code);
  }
  if (outcome.ok()) {
    std::filesystem::remove_all(folder);
    std::filesystem::remove_all(folder.string() + ".disk");
  }
  return outcome;
}

Recording CrashRuns::Record(Scenario scenario, uint64_t seed) {
  const InitialState& initial = InitialStateFor(scenario, seed);
  const std::filesystem::path folder = NewFolder();
  std::filesystem::copy(initial.folder, folder, std::filesystem::copy_options::recursive);
  Disk disk(folder);
  disk.control().tick = initial.tick;
  Recording recording = {.scenario = scenario, .seed = seed, .history = initial.history};
  CHECK_EQ(RunToTheEnd(scenario, seed, disk, recording.history), 0);
  recording.calls = disk.Log();
  return recording;
}

Outcome CrashRuns::CutPower(const Recording& recording, const PowerCut& cut) {
  const InitialState& initial = InitialStateFor(recording.scenario, recording.seed);
  const std::filesystem::path folder = NewFolder();
  WriteImage(initial.folder, recording.calls, cut, folder);
  Outcome outcome;
  RestartCheck(folder, recording.seed, HistoryUntil(cut.tick, recording.history), cut.tick)
      .Check(outcome);
  if (outcome.ok()) std::filesystem::remove_all(folder);
  return outcome;
}

}  // namespace callboard::crash
