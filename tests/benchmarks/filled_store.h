#ifndef CALLBOARD_TESTS_BENCHMARKS_FILLED_STORE_H_
#define CALLBOARD_TESTS_BENCHMARKS_FILLED_STORE_H_

#include <cstdint>
#include <filesystem>

namespace callboard {

// Creates a director's store in `folder` with `tasks` pending tasks, each with a prompt of 256
// bytes and a request id.
void FillStore(const std::filesystem::path& folder, uint64_t tasks);

}  // namespace callboard

#endif  // CALLBOARD_TESTS_BENCHMARKS_FILLED_STORE_H_
