// fill_store FOLDER TASKS: creates a store with this number of pending tasks, for a director to
// start on.
#include <cstdio>

#include "absl/strings/numbers.h"
#include "tests/benchmarks/filled_store.h"

int main(int argc, char** argv) {
  uint64_t tasks = 0;
  if (argc != 3 || !absl::SimpleAtoi(argv[2], &tasks)) {
    std::fputs("usage: fill_store FOLDER TASKS\n", stderr);
    return 2;
  }
  callboard::FillStore(argv[1], tasks);
  return 0;
}
