#include "libs/system/system.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "libs/testing/files.h"

namespace callboard::system {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

class ControlGroupTest : public testing::Test {
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

TEST_F(ControlGroupTest, WithoutAGroupTheWholeMachineIsUsed) {
  EXPECT_EQ(Limited().processors, 8u);
  EXPECT_EQ(Limited().memory_bytes, 64 * kGiB);
}

TEST_F(ControlGroupTest, Version2LimitsApply) {
  WriteFile("cpu.max", "250000 100000");
  WriteFile("memory.max", "1073741824");
  EXPECT_EQ(Limited().processors, 3u) << "2.5 rounded up";
  EXPECT_EQ(Limited().pool_threads, 3u);
  EXPECT_EQ(Limited().memory_bytes, kGiB);
}

TEST_F(ControlGroupTest, Version1LimitsApply) {
  WriteFile("cpu/cpu.cfs_quota_us", "50000");
  WriteFile("cpu/cpu.cfs_period_us", "100000");
  WriteFile("memory/memory.limit_in_bytes", "2147483648");
  EXPECT_EQ(Limited().processors, 1u);
  EXPECT_EQ(Limited().memory_bytes, 2 * kGiB);
}

TEST_F(ControlGroupTest, GroupWithoutLimitsChangesNothing) {
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

TEST(SystemRandomTest, NumbersAreDistinctAndUseEveryBit) {
  SystemRandom random;
  std::set<uint64_t> seen;
  uint64_t set_once = 0;
  uint64_t clear_once = 0;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t number = random.Next();
    seen.insert(number);
    set_once |= number;
    clear_once |= ~number;
  }
  EXPECT_EQ(seen.size(), 1000u);
  EXPECT_EQ(set_once & clear_once, ~uint64_t{0});
}

}  // namespace
}  // namespace callboard::system
