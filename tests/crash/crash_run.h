#ifndef CALLBOARD_TESTS_CRASH_CRASH_RUN_H_
#define CALLBOARD_TESTS_CRASH_CRASH_RUN_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/crash/disk.h"
#include "tests/crash/disk_image.h"
#include "tests/crash/history.h"
#include "tests/crash/history_checker.h"

namespace callboard::crash {

enum class Scenario {
  // A director on an empty folder, under load, stopped at the end.
  kFresh,
  // The same after several killed directors: their data is moved into tables and compacted.
  kRestart,
  // A sync fails in the middle: the store is closed and reopened under load.
  kReopen,
};

struct KillPoint {
  Scenario scenario = Scenario::kFresh;
  // The call (DiskControl::calls) at which the director is killed.
  uint64_t call = 0;
  DeathTime death = DeathTime::kBefore;
  // Determines the calls of the clients. With an even seed only cancelled tasks leave the queue;
  // with an odd one a full queue evicts tasks, and ended tasks are forgotten soon.
  uint64_t seed = 0;
};

struct Outcome {
  // Whether the director reached the call at which it was to be killed.
  bool was_killed = false;
  // Number of its calls.
  uint64_t calls = 0;
  CheckResult check_result = {};
  // Another error; empty if there was none.
  std::string failure = {};

  bool ok() const { return failure.empty() && check_result.ok(); }
  std::string ToString() const;
};

// The sum of many outcomes.
struct RunTotals {
  uint64_t runs = 0;
  uint64_t killed = 0;
  uint64_t acknowledged = 0;
  uint64_t recovered = 0;
  uint64_t lost = 0;
  uint64_t unexpected = 0;
  uint64_t duplicated = 0;
  uint64_t altered = 0;
  uint64_t reordered = 0;
  // Descriptions of the runs that failed; empty if none did.
  std::string failures = {};

  void Add(const std::string& which, const Outcome& outcome);
  void Add(const RunTotals& other);
  // Returns the counts as readable text.
  std::string ToString() const;
};

// A complete run, from which power cuts are derived afterwards.
struct Recording {
  Scenario scenario = Scenario::kFresh;
  uint64_t seed = 0;
  std::vector<DiskCall> calls = {};
  History history = {};
};

// Runs directors that are killed or lose power, and then directors that start on the same folder.
// Each run has a folder, which is kept if the run failed.
class CrashRuns {
 public:
  // Works in `folder`, which must be an absolute path.
  explicit CrashRuns(std::filesystem::path folder) : folder_(std::move(folder)) {}

  Outcome Kill(const KillPoint& point);

  Recording Record(Scenario scenario, uint64_t seed);
  Outcome CutPower(const Recording& recording, const PowerCut& cut);

 private:
  // The state of the folder before a run.
  struct InitialState {
    std::filesystem::path folder;
    History history;
    uint64_t tick = 0;
  };

  const InitialState& InitialStateFor(Scenario scenario, uint64_t seed);
  std::filesystem::path NewFolder();

  const std::filesystem::path folder_;
  int folders_ = 0;
  std::map<std::pair<Scenario, bool>, InitialState> initial_states_;
};

}  // namespace callboard::crash

#endif  // CALLBOARD_TESTS_CRASH_CRASH_RUN_H_
