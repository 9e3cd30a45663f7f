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
  // A director on an empty folder, under load, stopped in the end.
  kFresh,
  // The same after several that were killed: what they left is moved into tables and compacted.
  kRestart,
  // A sync fails in the middle: the store is closed and opened anew, under load.
  kReopen,
};

struct KillPoint {
  Scenario scenario = Scenario::kFresh;
  // The call (DiskControl::calls) at which the director dies.
  uint64_t call = 0;
  Death death = Death::kBefore;
  // Chooses what the clients do. With an even one nobody leaves the line but who is cancelled; with
  // an odd one a full queue evicts, and ended tasks are soon forgotten.
  uint64_t seed = 0;
};

struct Outcome {
  // Whether it came to the call at which it was to die.
  bool was_killed = false;
  // How many it made.
  uint64_t calls = 0;
  Verdict verdict = {};
  // What went wrong beside the verdict; empty when nothing did.
  std::string failure = {};

  bool ok() const { return failure.empty() && verdict.ok(); }
  std::string ToString() const;
};

// Many of them.
struct Tally {
  uint64_t runs = 0;
  uint64_t killed = 0;
  uint64_t acknowledged = 0;
  uint64_t recovered = 0;
  uint64_t lost = 0;
  uint64_t unexpected = 0;
  uint64_t duplicated = 0;
  uint64_t altered = 0;
  uint64_t reordered = 0;
  // Of every run that went wrong, which one, and what; empty when all went well.
  std::string failures = {};

  void Add(const std::string& which, const Outcome& outcome);
  void Add(const Tally& other);
  // The numbers.
  std::string ToString() const;
};

// A run to the end, of which power cuts are made afterwards.
struct Recording {
  Scenario scenario = Scenario::kFresh;
  uint64_t seed = 0;
  std::vector<DiskCall> calls = {};
  History history = {};
};

// Runs of directors that are killed, or lose power, and of those that come after them. Each has a
// folder of its own, which is kept when something went wrong.
class CrashRuns {
 public:
  // Works in `folder`, an absolute path.
  explicit CrashRuns(std::filesystem::path folder) : folder_(std::move(folder)) {}

  Outcome Kill(const KillPoint& point);

  Recording Record(Scenario scenario, uint64_t seed);
  Outcome CutPower(const Recording& recording, const PowerCut& cut);

 private:
  // What there was before.
  struct Past {
    std::filesystem::path folder;
    History history;
    uint64_t tick = 0;
  };

  const Past& PastOf(Scenario scenario, uint64_t seed);
  std::filesystem::path NewFolder();

  const std::filesystem::path folder_;
  int folders_ = 0;
  std::map<std::pair<Scenario, bool>, Past> pasts_;
};

}  // namespace callboard::crash

#endif  // CALLBOARD_TESTS_CRASH_CRASH_RUN_H_
