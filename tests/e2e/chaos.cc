// Runs chaos for any time. Started by tests/run.sh in the folder with its data:
//
//   chaos FOLDER SECONDS SEED
//
// Prints each fault; exits with 1 and keeps the folder if a guarantee was violated.
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
