#include "libs/system/system.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "libs/testing/files.h"

namespace callboard::system {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

class GroupTest : public testing::Test {
 protected:
  void WriteFile(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text << "\n";
  }
  flow::Machine Limited() const {
    return ApplyGroupLimits({.processors = 8, .memory_bytes = 64 * kGiB, .pool_threads = 8},
                            folder_);
  }

  const std::filesystem::path folder_ = test::NewFolder();
};

TEST_F(GroupTest, WithoutAGroupTheWholeMachineIsUsed) {
  EXPECT_EQ(Limited().processors, 8u);
  EXPECT_EQ(Limited().memory_bytes, 64 * kGiB);
}

TEST_F(GroupTest, Version2LimitsApply) {
  WriteFile("cpu.max", "250000 100000");
  WriteFile("memory.max", "1073741824");
  EXPECT_EQ(Limited().processors, 3u) << "2.5 rounded up";
  EXPECT_EQ(Limited().pool_threads, 3u);
  EXPECT_EQ(Limited().memory_bytes, kGiB);
}

TEST_F(GroupTest, Version1LimitsApply) {
  WriteFile("cpu/cpu.cfs_quota_us", "50000");
  WriteFile("cpu/cpu.cfs_period_us", "100000");
  WriteFile("memory/memory.limit_in_bytes", "2147483648");
  EXPECT_EQ(Limited().processors, 1u);
  EXPECT_EQ(Limited().memory_bytes, 2 * kGiB);
}

TEST_F(GroupTest, GroupWithoutLimitsChangesNothing) {
  WriteFile("cpu.max", "max 100000");
  WriteFile("memory.max", "max");
  EXPECT_EQ(Limited().processors, 8u);
  EXPECT_EQ(Limited().memory_bytes, 64 * kGiB);
  WriteFile("cpu.max", "");
  WriteFile("cpu/cpu.cfs_quota_us", "-1");
  WriteFile("cpu/cpu.cfs_period_us", "100000");
  WriteFile("memory.max", "9223372036854771712");
  EXPECT_EQ(Limited().processors, 8u);
  EXPECT_EQ(Limited().memory_bytes, 64 * kGiB);
}

TEST(ThisMachineTest, IsWithinTheSystemsLimits) {
  const flow::Machine machine = ThisMachine();
  EXPECT_GE(machine.processors, 1u);
  EXPECT_LE(machine.processors, static_cast<uint32_t>(sysconf(_SC_NPROCESSORS_CONF)));
  EXPECT_GE(machine.memory_bytes, uint64_t{1} << 20);
}

}  // namespace
}  // namespace callboard::system
