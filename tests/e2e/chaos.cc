// Chaos for as long as one likes. For tests/run.sh, which starts it where its data is:
//
//   chaos FOLDER SECONDS SEED
//
// Says what it does; exits with 1 when a promise was broken, and then leaves the folder.
#include <filesystem>
#include <iostream>

#include "absl/strings/numbers.h"
#include "absl/time/time.h"
#include "tests/e2e/chaos_run.h"

int main(int argc, char** argv) {
  using callboard::e2e::ChaosReport;
  uint64_t seconds = 0;
  uint64_t seed = 0;
  if (argc != 4 || !absl::SimpleAtoi(argv[2], &seconds) || !absl::SimpleAtoi(argv[3], &seed)) {
    std::cerr << "usage: chaos FOLDER SECONDS SEED\n";
    return 2;
  }
  std::cout << "chaos for " << seconds << " s, seed " << seed << std::endl;
  const std::filesystem::path folder = std::filesystem::absolute(argv[1]);
  const ChaosReport report =
      callboard::e2e::RunChaos(folder, absl::Seconds(seconds), seed, std::cout);
  std::cout << report.ToString() << std::endl;
  return report.ok() ? 0 : 1;
}
