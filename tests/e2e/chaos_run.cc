#include "tests/e2e/chaos_run.h"

#include <fstream>
#include <optional>

#include "absl/strings/str_cat.h"
#include "tests/crash/disk.h"
#include "tests/crash/small_disk.h"
#include "tests/e2e/chaos_faults.h"
#include "tests/e2e/chaos_load.h"
#include "tests/e2e/eventually.h"

namespace callboard::e2e {
namespace {

// RocksDB reserves 18 MiB for a log, and two logs exist for a moment.
constexpr uint64_t kDiskBytes = 128 << 20;
// The time in which the remaining tasks must end: runs, leases and resent messages. The backlog may
// take as long as the faults.
constexpr absl::Duration kEndWithin = absl::Minutes(3);

// Copies the data for debugging: the disk is unmounted when the process ends.
void KeepEvidence(Cluster& cluster, const std::filesystem::path& data,
                  const std::filesystem::path& folder) {
  std::filesystem::copy(data, folder / "disk_afterwards", std::filesystem::copy_options::recursive);
  std::ofstream(folder / "director.log") << cluster.director().process().Output();
  for (size_t i = 1; i <= cluster.agents(); ++i) {
    std::ofstream(folder / absl::StrCat("agent-", i, ".log"))
        << cluster.agent(i).process().Output();
  }
}

}  // namespace

std::string ChaosReport::ToString() const {
  std::string text = absl::StrCat(
      ok() ? "ok" : "BROKEN", " after ", faults, " faults: ", check_result.submits.acknowledged,
      " acknowledged, ", check_result.runs.ended, " ended, ", check_result.submits.lost.size(),
      " lost, ", check_result.submits.unexpected.size(), " unexpected, ",
      check_result.submits.duplicated.size(), " duplicated, ", check_result.runs.overlapping.size(),
      " overlapping runs, ", check_result.runs.stale.size(), " stale results\n",
      check_result.ToString());
  for (const std::string& failure : failures) absl::StrAppend(&text, "\n", failure);
  return text;
}

ChaosReport RunChaos(const std::filesystem::path& folder, absl::Duration time, uint64_t seed,
                     std::ostream& log) {
  const std::filesystem::path data = folder / "disk";
  std::filesystem::create_directories(data);
  std::optional<crash::SmallDisk> small_disk;
  if (crash::SmallDisk::IsAllowed()) {
    small_disk.emplace(data, kDiskBytes);
  } else {
    log << "no full disks: mounting one needs root or user namespaces\n";
  }
  crash::Disk disk(data);
  Cluster cluster(folder, {.agents = 3, .agent_flags = {"--lanes=default=2"}, .disk = &disk});
  ChaosReport report;
  ChaosFaults faults(cluster, disk, small_disk.has_value() ? &*small_disk : nullptr, seed, log);
  {
    ChaosLoad load(cluster, seed);
    faults.Run(time);
    faults.Heal();
    load.Finish();
  }
  if (!cluster.AllEndWithin(kEndWithin + time)) report.failures.push_back("not every task ended");
  report.faults = faults.faults();
  for (const std::string& death : faults.deaths()) report.failures.push_back(death);
  report.check_result = cluster.Check();
  if (!report.ok()) KeepEvidence(cluster, data, folder);
  return report;
}

}  // namespace callboard::e2e
