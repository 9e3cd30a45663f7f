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

// RocksDB reserves 18 MiB for a log, of which there are two for a moment.
constexpr uint64_t kDiskBytes = 128 << 20;
// How long the tasks that are left may take to end: runs, leases and what is resent. What piled up
// in the meantime may take as long as that.
constexpr absl::Duration kEndWithin = absl::Minutes(3);

// For whoever looks into it: the disk is gone with the process.
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
      ok() ? "all is well" : "BROKEN", " after ", faults, " faults: ", verdict.submits.acknowledged,
      " acknowledged, ", verdict.runs.ended, " ended, ", verdict.submits.lost.size(), " lost, ",
      verdict.submits.unexpected.size(), " unexpected, ", verdict.submits.duplicated.size(),
      " duplicated, ", verdict.runs.overlapping.size(), " overlapping runs, ",
      verdict.runs.stale.size(), " stale results\n", verdict.ToString());
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
    log << "no disk is full: mounting one takes root, or user namespaces\n";
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
  if (!cluster.AllEndWithin(kEndWithin + time)) report.failures.push_back("not every task ends");
  report.faults = faults.faults();
  for (const std::string& death : faults.deaths()) report.failures.push_back(death);
  report.verdict = cluster.Check();
  if (!report.ok()) KeepEvidence(cluster, data, folder);
  return report;
}

}  // namespace callboard::e2e
