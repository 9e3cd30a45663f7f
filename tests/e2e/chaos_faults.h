#ifndef CALLBOARD_TESTS_E2E_CHAOS_FAULTS_H_
#define CALLBOARD_TESTS_E2E_CHAOS_FAULTS_H_

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "libs/system/system.h"
#include "libs/testing/fake_environment.h"
#include "libs/testing/tcp_proxy.h"
#include "tests/crash/disk.h"
#include "tests/crash/small_disk.h"
#include "tests/e2e/cluster.h"

namespace callboard::e2e {

// Injects faults of machines, disks and networks into a cluster. The seed determines which fault
// hits which part and for how long. Every part has at most one fault at a time; different parts can
// have faults at the same time.
class ChaosFaults {
 public:
  // The director's data is on `small_disk`; if it is null, the disk is never full. Each action is
  // written to `log`.
  ChaosFaults(Cluster& cluster, crash::Disk& disk, crash::SmallDisk* small_disk, uint64_t seed,
              std::ostream& log);

  // Injects faults for this time.
  void Run(absl::Duration time);
  // Ends all faults.
  void Heal();

  uint64_t faults() const { return faults_; }
  // Processes that ended unexpectedly or did not start, with the reason.
  const std::vector<std::string>& deaths() const { return deaths_; }

 private:
  using Random = test::FakeRandom;
  // A part that can have a fault.
  struct Part {
    std::string name;
    // For a process: the process, which runs while it has no fault.
    ServerProcess* member = nullptr;
    // Starts a fault and returns its description.
    std::function<std::string(Part&, Random)> start_fault;
    // Ends the fault; returns false if that must be retried. Null if there is no fault.
    std::function<bool()> heal = {};
    absl::Duration heal_at = {};
  };

  std::string ProcessFault(Part& part, ServerProcess& member, Random random);
  std::string NetworkFault(Part& part, test::TcpProxy& network, Random random);
  std::string DiskFault(Part& part, Random random);

  // Records a fault of this length; returns the length as text.
  std::string StartFault(Part& part, absl::Duration time, std::function<bool()> heal) const;
  // Returns a function that restarts a dead process.
  std::function<bool()> RestartAfterFault(const Part& part, ServerProcess& member);
  // Ends the faults that are due before `until`.
  void HealUntil(absl::Duration until);
  // Checks that all processes without a fault are running.
  void CheckMembers();
  void Log(const std::string& what);

  Cluster& cluster_;
  crash::Disk& disk_;
  crash::SmallDisk* const small_disk_;
  test::FakeRandom random_;
  std::ostream& log_;
  const system::SystemClock clock_;
  const absl::Duration begin_ = clock_.MonotonicNow();
  std::vector<Part> parts_;
  uint64_t faults_ = 0;
  std::vector<std::string> deaths_;
};

}  // namespace callboard::e2e

#endif  // CALLBOARD_TESTS_E2E_CHAOS_FAULTS_H_
