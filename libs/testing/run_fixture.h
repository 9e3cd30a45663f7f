// A lane without threads, and workers that succeed or fail.
#ifndef CALLBOARD_LIBS_TESTING_RUN_FIXTURE_H_
#define CALLBOARD_LIBS_TESTING_RUN_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "libs/flow/flow.h"
#include "libs/flow/queue_run.h"
#include "libs/testing/fake_environment.h"

namespace callboard::test {

inline std::vector<int> Numbers(int count) {
  std::vector<int> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

inline absl::Status Broken(int item) { return absl::DataLossError(absl::StrCat("broken ", item)); }

// A worker that fails for odd numbers.
inline absl::StatusOr<int> TenfoldOfEven(int item, const flow::ItemContext&) {
  if (item % 2 != 0) return Broken(item);
  return item * 10;
}

class RunFixture : public testing::Test {
 protected:
  void SetLaneLimit(uint32_t concurrency, uint32_t max_pending) {
    flow_.emplace(
        flow::FlowOptions{.lanes = {{.name = "work", .limit = {concurrency, max_pending}}}},
        executor_, clock_);
  }
  flow::Lane& lane() { return flow_->lane("work"); }

  FakeClock clock_;
  ManualExecutor executor_{clock_};
  std::optional<flow::Flow> flow_ = std::make_optional<flow::Flow>(
      flow::FlowOptions{.lanes = {{.name = "work", .limit = {2, 4}}}}, executor_, clock_);
};

}  // namespace callboard::test

#endif  // CALLBOARD_LIBS_TESTING_RUN_FIXTURE_H_
