#ifndef CALLBOARD_TESTS_E2E_MORTAL_SCHEDULER_H_
#define CALLBOARD_TESTS_E2E_MORTAL_SCHEDULER_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "callboard/v1/scheduler.pb.h"
#include "libs/adapters/system_clock/system_clock.h"
#include "tests/crash/disk.h"
#include "tests/e2e/cluster.h"

namespace callboard::e2e {

// A scheduler with jobs that are due every second, one for each way to catch up, which dies again
// and again. Its ledger outlives it.
class MortalScheduler {
 public:
  // Where it dies: how many calls that persist or send something after its start, or, when
  // `from_its_start` is false, after it was seen to listen.
  struct KillPoint {
    bool from_its_start = false;
    uint64_t calls = 0;
    crash::Death death = crash::Death::kBefore;
    // Until something else is due.
    bool stays_away = false;
  };
  // A job and its rows, the oldest first; `first`: between which times its first occurrence was.
  struct Record {
    std::string job;
    std::pair<absl::Time, absl::Time> first;
    std::vector<v1::Firing> rows;
  };

  // `name` is part of the names of its jobs.
  MortalScheduler(const std::string& name, const std::string& director_address);

  // Its first life begins; returns once it knows its jobs.
  void Begin();
  // Dies there, in the life that it has or in the next one. REQUIRES: Begin().
  void Die(const KillPoint& point);
  // Lives on until it has decided on everything up to a time, `end`, from which on nothing is due.
  void End();

  const std::vector<Record>& records() const { return records_; }
  absl::Time end() const { return end_; }
  // By the kind of the last call before each death.
  const std::map<crash::DiskAction, uint64_t>& deaths() const { return deaths_; }

 private:
  void WriteJobs(const std::string& more) const;
  std::string jobs_file() const { return disk_.folder().string() + ".yaml"; }
  void Revive();
  // Returns the call at which it dies.
  uint64_t Arm(const KillPoint& point);

  const adapters::SystemClock clock_;
  crash::Disk disk_;
  Member member_;
  std::vector<Record> records_;
  absl::Time end_;
  std::map<crash::DiskAction, uint64_t> deaths_;
};

}  // namespace callboard::e2e

#endif  // CALLBOARD_TESTS_E2E_MORTAL_SCHEDULER_H_
