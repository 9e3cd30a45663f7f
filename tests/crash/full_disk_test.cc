// A director on a disk that is full for a moment; full_disk.sh has it full for longer.
#include "tests/crash/full_disk.h"

#include <gtest/gtest.h>

#include "absl/time/time.h"
#include "libs/testing/new_folder.h"

namespace callboard::crash {
namespace {

// What is promised.
constexpr absl::Duration kWritableWithin = absl::Seconds(10);

// Writes ended, for as long as the disk was full, and nothing else did.
bool OnlyWritesEnded(const FullDiskReport& report) {
  const bool nothing_is_lost =
      report.while_full.ok() && report.afterwards.ok() && report.after_restart.ok();
  const bool more_came_afterwards =
      report.after_restart.acknowledged > report.while_full.acknowledged;
  // One read may come while the store is opened anew, once a second.
  return nothing_is_lost && more_came_afterwards && report.refused > 0 &&
         report.reads > report.failed_reads && report.until_writable <= kWritableWithin &&
         report.exit_code == 0;
}

// Long enough for some tries to go on.
constexpr absl::Duration kFullFor = absl::Seconds(3);

TEST(FullDiskTest, FullDiskEndsWritesOnlyAndForAsLongAsItIsFull) {
  const FullDiskReport report = FillDisk(test::NewFolder(), kFullFor);
  EXPECT_TRUE(OnlyWritesEnded(report)) << report.ToString();
}

TEST(FullDiskTest, DiskWithoutAFileLeftEndsWritesOnlyAndForAsLongAsThereIsNone) {
  const FullDiskReport report = FillDisk(test::NewFolder(), kFullFor, Shortage::kFiles);
  EXPECT_TRUE(OnlyWritesEnded(report)) << report.ToString();
}

}  // namespace
}  // namespace callboard::crash
