// A director on a disk that is full for a moment; full_disk.sh has it full for longer.
#include "tests/crash/full_disk.h"

#include <gtest/gtest.h>

#include "absl/time/time.h"
#include "libs/testing/new_folder.h"

namespace callboard::crash {
namespace {

// What is promised.
constexpr absl::Duration kWritableWithin = absl::Seconds(10);

TEST(FullDiskTest, FullDiskEndsWritesOnlyAndForAsLongAsItIsFull) {
  // Long enough for some tries to go on.
  const FullDiskReport report = FillDisk(test::NewFolder(), absl::Seconds(3));
  EXPECT_GT(report.refused, 0u);
  // One may come while the store is opened anew, once a second.
  EXPECT_GT(report.reads, report.failed_reads) << report.ToString();
  EXPECT_LE(report.until_writable, kWritableWithin);
  EXPECT_TRUE(report.while_full.ok()) << report.while_full.ToString();
  EXPECT_TRUE(report.afterwards.ok()) << report.afterwards.ToString();
  EXPECT_TRUE(report.after_restart.ok()) << report.after_restart.ToString();
  EXPECT_GT(report.after_restart.acknowledged, report.while_full.acknowledged);
  EXPECT_EQ(report.exit_code, 0);
}

}  // namespace
}  // namespace callboard::crash
