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
// As many as there are tables when RocksDB begins to merge them.
constexpr int kEarlierDirectors = 4;

bool Evicts(uint64_t seed) { return seed % 2 == 1; }

QueueRules RulesOf(uint64_t seed) { return {.evicts = Evicts(seed), .forgets = Evicts(seed)}; }

std::vector<std::string> FlagsOf(uint64_t seed) {
  if (!Evicts(seed)) return {"--queue.max_size=0"};
  return {"--queue.max_size=8", "--queue.policy=drop-oldest", "--retention.count=3"};
}

// What the next director on a folder makes of it.
class Aftermath {
 public:
  Aftermath(const std::filesystem::path& folder, uint64_t seed, History history, uint64_t tick)
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
    Ask(outcome);
    if (director_.Stop() != 0) outcome.failure = director_.process().Output();
  }

 private:
  void Ask(Outcome& outcome) {
    QueueClient client(director_.address());
    std::vector<FoundTask> found = *client.FindAll();
    outcome.verdict = CheckHistory(history_, found, rules_);
    if (!outcome.verdict.ok()) return;
    AskAgain(client);
    found = *client.FindAll();
    // Keeps what was recovered, which now is acknowledged.
    const uint64_t recovered = outcome.verdict.recovered;
    const uint64_t acknowledged = outcome.verdict.acknowledged;
    outcome.verdict = CheckHistory(history_, found, rules_);
    outcome.verdict.recovered = recovered;
    outcome.verdict.acknowledged = acknowledged;
    const auto pending = std::count_if(found.begin(), found.end(), [](const FoundTask& task) {
      return task.state == FoundTask::State::kPending;
    });
    if (*client.Depth() != static_cast<uint64_t>(pending)) outcome.failure = "depth is wrong";
  }

  // Every submit once more: a client that got no answer does that.
  void AskAgain(QueueClient& client) {
    std::map<std::string, Call> asked;
    for (const Call& call : history_) {
      if (call.kind == Call::Kind::kSubmit) asked.emplace(call.request_id, call);
    }
    for (const auto& [id, call] : asked) {
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

// What clients ask of a director, in one go or around a failure of its disk.
History RunLoads(Scenario scenario, uint64_t seed, const std::string& address, Disk& disk) {
  const Ticks ticks = [&disk] { return disk.Tick(); };
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

// A director under load, to its end; returns how it ended.
int Live(Scenario scenario, uint64_t seed, Disk& disk, History& history) {
  DirectorProcess director(disk, FlagsOf(seed));
  if (!director.is_listening()) return director.WaitForEnd();
  Append(RunLoads(scenario, seed, director.address(), disk), history);
  // Unless it is dying already.
  if (!director.process().WaitForExit(absl::ZeroDuration()).has_value()) {
    director.process().Signal(SIGTERM);
  }
  return director.WaitForEnd();
}

}  // namespace

std::string Outcome::ToString() const {
  return absl::StrCat(verdict.ToString(), failure.empty() ? "" : "\n", failure);
}

void Tally::Add(const std::string& which, const Outcome& outcome) {
  const Verdict& verdict = outcome.verdict;
  ++runs;
  killed += outcome.was_killed ? 1 : 0;
  acknowledged += verdict.acknowledged;
  recovered += verdict.recovered;
  lost += verdict.lost.size();
  unexpected += verdict.unexpected.size();
  duplicated += verdict.duplicated.size();
  altered += verdict.altered.size();
  reordered += verdict.reordered.size();
  if (!outcome.ok()) absl::StrAppend(&failures, which, ": ", outcome.ToString(), "\n");
}

void Tally::Add(const Tally& other) {
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

std::string Tally::ToString() const {
  return absl::StrCat(runs, " runs, ", killed, " killed, ", acknowledged, " acknowledged, ",
                      recovered, " recovered; ", lost, " lost, ", unexpected, " unexpected, ",
                      duplicated, " duplicated, ", altered, " altered, ", reordered, " reordered");
}

std::filesystem::path CrashRuns::NewFolder() {
  const std::filesystem::path folder = folder_ / absl::StrCat("run_", ++folders_);
  std::filesystem::remove_all(folder);
  return folder;
}

const CrashRuns::Past& CrashRuns::PastOf(Scenario scenario, uint64_t seed) {
  Past& past = pasts_[{scenario, Evicts(seed)}];
  if (!past.folder.empty()) return past;
  past.folder = NewFolder();
  std::filesystem::create_directories(past.folder);
  if (scenario != Scenario::kRestart) return past;
  for (int i = 0; i < kEarlierDirectors; ++i) {
    Disk disk(past.folder);
    disk.control().tick = past.tick;
    DirectorProcess director(disk, FlagsOf(seed));
    const Load load = {.seed = static_cast<uint64_t>(i), .name = absl::StrCat("past", i)};
    Append(RunLoad(load, director.address(), [&] { return disk.Tick(); }), past.history);
    director.process().Signal(SIGKILL);
    director.WaitForEnd();
    past.tick = disk.Tick();
  }
  return past;
}

Outcome CrashRuns::Kill(const KillPoint& point) {
  const Past& past = PastOf(point.scenario, point.seed);
  const std::filesystem::path folder = NewFolder();
  std::filesystem::copy(past.folder, folder, std::filesystem::copy_options::recursive);
  Disk disk(folder);
  disk.control().tick = past.tick;
  disk.DieAt(point.call, point.death);
  Outcome outcome;
  History history = past.history;
  const int code = Live(point.scenario, point.seed, disk, history);
  outcome.was_killed = code == kKilled;
  outcome.calls = disk.calls();
  if (outcome.was_killed || code == 0) {
    Aftermath(folder, point.seed, std::move(history), disk.Tick()).Check(outcome);
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
  const Past& past = PastOf(scenario, seed);
  const std::filesystem::path folder = NewFolder();
  std::filesystem::copy(past.folder, folder, std::filesystem::copy_options::recursive);
  Disk disk(folder);
  disk.control().tick = past.tick;
  Recording recording = {.scenario = scenario, .seed = seed, .history = past.history};
  CHECK_EQ(Live(scenario, seed, disk, recording.history), 0);
  recording.calls = disk.Log();
  return recording;
}

Outcome CrashRuns::CutPower(const Recording& recording, const PowerCut& cut) {
  const Past& past = PastOf(recording.scenario, recording.seed);
  const std::filesystem::path folder = NewFolder();
  WriteImage(past.folder, recording.calls, cut, folder);
  Outcome outcome;
  Aftermath(folder, recording.seed, UpTo(cut.tick, recording.history), cut.tick).Check(outcome);
  if (outcome.ok()) std::filesystem::remove_all(folder);
  return outcome;
}

}  // namespace callboard::crash
