#include "services/director/start_director.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "libs/testing/status_matchers.h"

namespace callboard {
namespace {

// Returns the concurrency limit of the lane.
uint32_t ConcurrencyOf(const flow::FlowOptions& flow, const std::string& lane) {
  const auto found = std::find_if(flow.lanes.begin(), flow.lanes.end(),
                                  [&lane](const auto& known) { return known.name == lane; });
  return found == flow.lanes.end() ? 0 : found->limit.concurrency;
}

TEST(DirectorFlowTest, ReadsGetTheIoConcurrency) {
  const flow::Machine large = {
      .processors = 2, .memory_bytes = uint64_t{64} << 30, .pool_threads = 8};
  flow::Machine small = large;
  small.memory_bytes = uint64_t{8} << 30;
  config::v1::FlowConfig config;
  config.set_threads(40);
  const auto reads = [&](const flow::Machine& machine) {
    const auto flow = DirectorFlow(config, machine, {});
    EXPECT_THAT(flow, test::IsOk());
    return ConcurrencyOf(*flow, "reads");
  };
  EXPECT_EQ(reads(large), 32u) << "four times the threads of its pool";
  EXPECT_EQ(reads(small), 16u) << "limited by its memory";
}

}  // namespace
}  // namespace callboard
