// Tests the simulation: it must find every planted bug soon.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "libs/base/check.h"
#include "libs/testing/process.h"

namespace callboard::simulation {
namespace {

using Bug = std::pair<std::string, uint64_t>;

class PlantedBugsTest : public testing::Test {
 public:
  explicit PlantedBugsTest(Bug bug) : bug_(std::move(bug)) {}

  void TestBody() override {
    const uint64_t simulations = 10 * bug_.second;
    const test::ProcessResult ended =
        test::RunToEnd({test::BuiltBinary(absl::StrCat("tests/simulation/", bug_.first)),
                        "--first=1", absl::StrCat("--count=", simulations)});
    ASSERT_TRUE(ended.exit_code.has_value()) << ended.output;
    EXPECT_NE(*ended.exit_code, 0)
        << "not found in " << simulations << " simulations: " << ended.output;
    EXPECT_NE(ended.output.find("replay:"), std::string::npos) << ended.output;
  }

 private:
  const Bug bug_;
};

}  // namespace
}  // namespace callboard::simulation

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    const std::vector<std::string> parts = absl::StrSplit(argv[i], '=');
    uint64_t median = 0;
    CHECK(parts.size() == 2 && absl::SimpleAtoi(parts[1], &median)) << argv[i];
    testing::RegisterTest("PlantedBugsTest", absl::StrCat("IsFoundSoon_", parts[0]).c_str(),
                          nullptr, nullptr, __FILE__, __LINE__,
                          [bug = callboard::simulation::Bug(parts[0], median)]() -> testing::Test* {
                            return new callboard::simulation::PlantedBugsTest(bug);
                          });
  }
  return RUN_ALL_TESTS();
}
