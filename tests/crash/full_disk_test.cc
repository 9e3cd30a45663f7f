// A director on a disk that is full for a moment; full_disk.sh fills it for longer.
#include "tests/crash/full_disk.h"

#include <gtest/gtest.h>

#include "absl/time/time.h"
#include "libs/testing/files.h"

namespace callboard::crash {
namespace {

// The promised limit.
constexpr absl::Duration kWritableWithin = absl::Seconds(10);

// Returns whether only writes failed, and only while the disk was full.
bool OnlyWritesFailed(const FullDiskReport& report) {
  const bool nothing_is_lost =
      report.while_full.ok() && report.afterwards.ok() && report.after_restart.ok();
  const bool more_came_afterwards =
      report.after_restart.acknowledged > report.while_full.acknowledged;
  // One read may hit the moment in which the store is reopened, once a second.
  return nothing_is_lost && more_came_afterwards && report.rejected > 0 &&
         report.reads > report.failed_reads && report.until_writable <= kWritableWithin &&
         report.exit_code == 0;
}

// Long enough for several attempts to reopen the store.
constexpr absl::Duration kFullFor = absl::Seconds(3);

TEST(FullDiskTest, FullDiskFailsOnlyWritesUntilThereIsSpace) {
  const FullDiskReport report = FillDisk(test::NewFolder(), kFullFor);
  EXPECT_TRUE(OnlyWritesFailed(report)) << report.ToString();
}

TEST(FullDiskTest, DiskWithoutInodesFailsOnlyWritesUntilThereAreSome) {
  const FullDiskReport report = FillDisk(test::NewFolder(), kFullFor, Shortage::kFiles);
  EXPECT_TRUE(OnlyWritesFailed(report)) << report.ToString();
}

}  // namespace
}  // namespace callboard::crash
