#ifndef CALLBOARD_TESTS_E2E_CHAOS_FAULTS_H_
#define CALLBOARD_TESTS_E2E_CHAOS_FAULTS_H_

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "libs/adapters/system_clock/system_clock.h"
#include "libs/testing/fake_random.h"
#include "libs/testing/tcp_proxy.h"
#include "tests/crash/disk.h"
#include "tests/crash/small_disk.h"
#include "tests/e2e/cluster.h"

namespace callboard::e2e {

// Does to a cluster what happens to machines, disks and networks: what, to whom and for how long
// follows from the seed. Every part has at most one trouble at a time; different parts have theirs
// together.
class ChaosFaults {
 public:
  // `small_disk` is where the director's data is; without it that disk is never full. A line is
  // written to `log` for everything that is done.
  ChaosFaults(Cluster& cluster, crash::Disk& disk, crash::SmallDisk* small_disk, uint64_t seed,
              std::ostream& log);

  // Makes trouble for so long.
  void Run(absl::Duration time);
  // Ends all trouble.
  void Heal();

  uint64_t faults() const { return faults_; }
  // Who ended without being asked to, or did not begin; how.
  const std::vector<std::string>& deaths() const { return deaths_; }

 private:
  using Random = test::FakeRandom;
  // What may have trouble of its own.
  struct Part {
    std::string name;
    // Of a process, which is alive while it has no trouble.
    Member* member = nullptr;
    // Begins one of its troubles, and says which.
    std::function<std::string(Part&, Random)> trouble;
    // Ends it; false when that has to be tried again. Null when there is none.
    std::function<bool()> heal = {};
    absl::Duration heal_at = {};
  };

  std::string TroubleProcess(Part& part, Member& member, Random random);
  std::string TroubleNetwork(Part& part, test::TcpProxy& network, Random random);
  std::string TroubleDisk(Part& part, Random random);

  // The part is in trouble for so long; returns that in words.
  std::string For(Part& part, absl::Duration time, std::function<bool()> heal) const;
  // Ends the trouble of one that is dead.
  std::function<bool()> Reviving(const Part& part, Member& member);
  // Ends what is due by then.
  void HealDue(absl::Duration until);
  // Sees that everybody is alive who should be.
  void Look();
  void Say(const std::string& what);

  Cluster& cluster_;
  crash::Disk& disk_;
  crash::SmallDisk* const small_disk_;
  test::FakeRandom random_;
  std::ostream& log_;
  const adapters::SystemClock clock_;
  const absl::Duration begin_ = clock_.MonotonicNow();
  std::vector<Part> parts_;
  uint64_t faults_ = 0;
  std::vector<std::string> deaths_;
};

}  // namespace callboard::e2e

#endif  // CALLBOARD_TESTS_E2E_CHAOS_FAULTS_H_
