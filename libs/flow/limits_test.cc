#include "libs/flow/limits.h"

#include <gtest/gtest.h>

#include <stop_token>

#include "libs/flow/abort.h"

namespace callboard::flow {
namespace {

TEST(AbortTest, ReasonIdentifiesAbortErrors) {
  EXPECT_TRUE(IsAbortError(AbortError()));
  EXPECT_TRUE(IsAbortError(AbortError("the operator pressed Ctrl-C")));
}

TEST(AbortTest, OtherErrorsAreFailures) {
  EXPECT_FALSE(IsAbortError(absl::OkStatus()));
  EXPECT_FALSE(IsAbortError(absl::CancelledError("a peer went away")));
  EXPECT_FALSE(IsAbortError(absl::AbortedError("lost the race")));
}

TEST(AbortTest, CheckFailsAfterTheStopRequest) {
  std::stop_source stop;
  EXPECT_TRUE(CheckNotAborted(stop.get_token()).ok());
  stop.request_stop();
  EXPECT_TRUE(IsAbortError(CheckNotAborted(stop.get_token(), "stopped")));
  EXPECT_EQ(CheckNotAborted(stop.get_token(), "stopped").message(), "stopped");
}

TEST(AbortTest, TokenWithoutASourceNeverAborts) {
  EXPECT_TRUE(CheckNotAborted(std::stop_token()).ok());
}

constexpr uint64_t kGiB = uint64_t{1} << 30;

Machine BigMachine(uint32_t processors) {
  return {.processors = processors, .memory_bytes = 64 * kGiB, .pool_threads = processors};
}

TEST(LimitsTest, ThreadsDefaultToTheNumberOfProcessors) {
  EXPECT_EQ(ComputeLimits({}, BigMachine(6)).cpu.concurrency, 6u);
  EXPECT_EQ(ComputeLimits({.threads = 3}, BigMachine(6)).cpu.concurrency, 3u);
  EXPECT_EQ(ComputeLimits({}, Machine{.processors = 0}).cpu.concurrency, 1u);
}

TEST(LimitsTest, ThreadsAreCappedAtFourPerPoolThread) {
  const Machine machine = {.processors = 64, .memory_bytes = 64 * kGiB, .pool_threads = 4};
  const Limits limits = ComputeLimits({.threads = 64}, machine);
  EXPECT_EQ(limits.io.concurrency, 16u);
  EXPECT_EQ(limits.cpu.concurrency, 16u);
}

TEST(LimitsTest, OversubscriptionLiftsThePoolCapButNotThePlatformCap) {
  const Machine machine = {.processors = 64, .memory_bytes = 8 * kGiB, .pool_threads = 4};
  const Limits limits = ComputeLimits({.threads = 200, .io_oversubscribe = true}, machine);
  EXPECT_EQ(limits.cpu.concurrency, 200u);
  EXPECT_EQ(limits.io.concurrency, 64u);
  EXPECT_EQ(ComputeLimits({.threads = 9999, .io_oversubscribe = true}, machine).cpu.concurrency,
            kThreadsMax);
}

TEST(LimitsTest, IoCapIsTheSmallestOfPlatformPoolAndMemory) {
  struct Case {
    uint32_t pool_threads;
    uint64_t memory_bytes;
    uint32_t cap;
  };
  for (const Case& c :
       {Case{0, 64 * kGiB, 4}, Case{1, 64 * kGiB, 4}, Case{4, 64 * kGiB, 16},
        Case{64, 16 * kGiB - 1, 16}, Case{64, 16 * kGiB, 32}, Case{64, 32 * kGiB - 1, 32},
        Case{64, 32 * kGiB, 64}, Case{4096, 1024 * kGiB, 64}, Case{2, 1 * kGiB, 8}}) {
    const Machine machine = {.memory_bytes = c.memory_bytes, .pool_threads = c.pool_threads};
    EXPECT_EQ(IoCap(machine), c.cap)
        << c.pool_threads << " threads, " << c.memory_bytes << " bytes";
  }
}

TEST(LimitsTest, PendingIsFourTimesConcurrencyWithAMinimum) {
  const Limits few = ComputeLimits({.threads = 1}, BigMachine(1));
  EXPECT_EQ(few.io, (LaneLimit{1, 8}));
  EXPECT_EQ(few.cpu, (LaneLimit{1, 16}));
  EXPECT_EQ(NamedLaneLimit(1), (LaneLimit{1, 16}));
  const Limits many = ComputeLimits({.threads = 20}, BigMachine(20));
  EXPECT_EQ(many.io, (LaneLimit{20, 80}));
  EXPECT_EQ(many.cpu, (LaneLimit{20, 80}));
  EXPECT_EQ(NamedLaneLimit(20), (LaneLimit{20, 80}));
}

TEST(LimitsTest, ProcessLaneRunsAtMostFourJobs) {
  EXPECT_EQ(ComputeLimits({}, BigMachine(1)).proc, (LaneLimit{1, 4}));
  EXPECT_EQ(ComputeLimits({}, BigMachine(3)).proc, (LaneLimit{3, 12}));
  EXPECT_EQ(ComputeLimits({}, BigMachine(64)).proc, (LaneLimit{4, 16}));
}

TEST(LimitsTest, LowResourceMeansOneThreadPerLaneByDefault) {
  const Limits low = ComputeLimits({.low_resource = true}, BigMachine(8));
  EXPECT_EQ(low.cpu.concurrency, 1u);
  EXPECT_EQ(low.io.concurrency, 1u);
  EXPECT_EQ(low.proc.concurrency, 1u);
  EXPECT_EQ(ComputeLimits({.threads = 2, .low_resource = true}, BigMachine(8)).cpu.concurrency, 2u);
}

TEST(FlowOptionsTest, StandardLanesUseTheGivenLimits) {
  const Limits limits = {.cpu = {32, 5}, .io = {12, 7}, .proc = {3, 9}};
  const std::vector<LaneOptions> lanes = StandardLanes(limits);
  ASSERT_EQ(lanes.size(), 3u);
  EXPECT_EQ(lanes[0].name, "io");
  EXPECT_EQ(lanes[0].limit, limits.io);
  EXPECT_EQ(lanes[1].name, "cpu");
  EXPECT_EQ(lanes[1].limit, limits.cpu);
  EXPECT_EQ(lanes[2].name, "proc");
  EXPECT_EQ(lanes[2].limit, limits.proc);
}

TEST(FlowOptionsTest, TokensFollowTheLimitsAndMemory) {
  const Limits limits = {.cpu = {6, 24}, .io = {12, 48}};
  EXPECT_EQ(ComputeTokens(limits, {.memory_bytes = 24 * kGiB}),
            (Tokens{.cpu = 6, .io = 12, .memory = 24}));
  EXPECT_EQ(ComputeTokens(limits, {.memory_bytes = kGiB / 2}).memory, 1u);
}

}  // namespace
}  // namespace callboard::flow
