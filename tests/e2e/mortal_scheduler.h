#ifndef CALLBOARD_TESTS_E2E_MORTAL_SCHEDULER_H_
#define CALLBOARD_TESTS_E2E_MORTAL_SCHEDULER_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "callboard/v1/scheduler.pb.h"
#include "libs/system/system.h"
#include "tests/crash/disk.h"
#include "tests/e2e/cluster.h"

namespace callboard::e2e {

// A scheduler that is killed repeatedly. Its jobs are due every second, one for each way to catch
// up. Its ledger survives the kills.
class MortalScheduler {
 public:
  // The point at which the scheduler dies, in calls that persist or send something: after its
  // start, or, if `from_its_start` is false, after it listens.
  struct KillPoint {
    bool from_its_start = false;
    uint64_t calls = 0;
    crash::DeathTime death = crash::DeathTime::kBefore;
    // Restart only when another occurrence is due.
    bool stays_away = false;
  };
  // A job and its rows, oldest first. Its first occurrence was between the times in `first`.
  struct Record {
    std::string job;
    std::pair<absl::Time, absl::Time> first;
    std::vector<v1::Firing> rows;
  };

  // `name` becomes part of the names of the jobs.
  MortalScheduler(const std::string& name, const std::string& director_address);

  // Starts the scheduler; returns once it has loaded its jobs.
  void Begin();
  // Kills the current or the next process at this point. REQUIRES: Begin().
  void Die(const KillPoint& point);
  // Runs until the scheduler has decided on all occurrences up to the time `end`, after which
  // nothing is due.
  void End();

  const std::vector<Record>& records() const { return records_; }
  absl::Time end() const { return end_; }
  // Number of deaths by kind of the last call.
  const std::map<crash::DiskAction, uint64_t>& deaths() const { return deaths_; }

 private:
  void WriteJobs(const std::string& more) const;
  std::string jobs_file() const { return disk_.folder().string() + ".yaml"; }
  void Revive();
  // Returns the call at which the scheduler will die.
  uint64_t Arm(const KillPoint& point);

  const system::SystemClock clock_;
  crash::Disk disk_;
  ServerProcess member_;
  std::vector<Record> records_;
  absl::Time end_;
  std::map<crash::DiskAction, uint64_t> deaths_;
};

}  // namespace callboard::e2e

#endif  // CALLBOARD_TESTS_E2E_MORTAL_SCHEDULER_H_
