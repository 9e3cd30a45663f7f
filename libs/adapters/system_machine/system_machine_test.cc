#include "libs/adapters/system_machine/system_machine.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "libs/testing/new_folder.h"

namespace callboard::adapters {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

class GroupTest : public testing::Test {
 protected:
  void Has(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text << "\n";
  }
  flow::Machine Within() const {
    return WithinGroup({.processors = 8, .memory_bytes = 64 * kGiB, .pool_threads = 8}, folder_);
  }

  const std::filesystem::path folder_ = test::NewFolder();
};

TEST_F(GroupTest, MachineIsWholeWithoutAGroup) {
  EXPECT_EQ(Within().processors, 8u);
  EXPECT_EQ(Within().memory_bytes, 64 * kGiB);
}

TEST_F(GroupTest, LimitsOfVersionTwoHold) {
  Has("cpu.max", "250000 100000");
  Has("memory.max", "1073741824");
  EXPECT_EQ(Within().processors, 3u) << "two and a half";
  EXPECT_EQ(Within().pool_threads, 3u);
  EXPECT_EQ(Within().memory_bytes, kGiB);
}

TEST_F(GroupTest, LimitsOfVersionOneHold) {
  Has("cpu/cpu.cfs_quota_us", "50000");
  Has("cpu/cpu.cfs_period_us", "100000");
  Has("memory/memory.limit_in_bytes", "2147483648");
  EXPECT_EQ(Within().processors, 1u);
  EXPECT_EQ(Within().memory_bytes, 2 * kGiB);
}

TEST_F(GroupTest, GroupWithoutLimitsLeavesTheMachineWhole) {
  Has("cpu.max", "max 100000");
  Has("memory.max", "max");
  EXPECT_EQ(Within().processors, 8u);
  EXPECT_EQ(Within().memory_bytes, 64 * kGiB);
  Has("cpu.max", "");
  Has("cpu/cpu.cfs_quota_us", "-1");
  Has("cpu/cpu.cfs_period_us", "100000");
  Has("memory.max", "9223372036854771712");
  EXPECT_EQ(Within().processors, 8u);
  EXPECT_EQ(Within().memory_bytes, 64 * kGiB);
}

TEST(ThisMachineTest, IsAtMostWhatTheSystemSays) {
  const flow::Machine machine = ThisMachine();
  EXPECT_GE(machine.processors, 1u);
  EXPECT_LE(machine.processors, static_cast<uint32_t>(sysconf(_SC_NPROCESSORS_CONF)));
  EXPECT_GE(machine.memory_bytes, uint64_t{1} << 20);
}

}  // namespace
}  // namespace callboard::adapters
