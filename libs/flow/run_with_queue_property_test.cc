// Compares RunWithQueue() with a plain loop. The seed chooses the order in which attempts run.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <stop_token>
#include <vector>

#include "libs/flow/abort.h"
#include "libs/flow/run_with_queue.h"
#include "libs/testing/fake_environment.h"

namespace callboard::flow {
namespace {

// A random run: its options, the failing attempts of each item, and the attempt that stops the run.
struct Script {
  RunOptions options;
  std::vector<uint32_t> failing_attempts;
  std::optional<int> stop_at_attempt;
};

Script RandomScript(test::FakeRandom& random) {
  Script script;
  script.options.on_failure = random.Chance(0.5) ? OnFailure::kStop : OnFailure::kContinue;
  script.options.retries = static_cast<uint32_t>(random.Below(3));
  script.options.backoff = absl::Seconds(random.Below(3));
  for (size_t i = 0; i < random.Below(30); ++i) {
    script.failing_attempts.push_back(random.Chance(0.7) ? 0
                                                         : static_cast<uint32_t>(random.Below(5)));
  }
  if (random.Chance(0.3)) script.stop_at_attempt = static_cast<int>(random.Below(20));
  return script;
}

TEST(RunWithQueuePropertyTest, RunEqualsALoopForEveryOrder) {
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    SCOPED_TRACE(seed);
    test::FakeRandom random(seed);
    Script script = RandomScript(random);
    test::FakeClock clock;
    test::ManualExecutor executor(clock, seed);
    Flow flow({.lanes = {{.name = "work",
                          .limit = {static_cast<uint32_t>(1 + random.Below(4)),
                                    static_cast<uint32_t>(1 + random.Below(6))}}}},
              executor, clock);
    std::stop_source stop;
    script.options.stop = stop.get_token();
    int attempts = 0;
    bool returned = false;
    std::map<size_t, int> results;
    std::map<size_t, int> errors;
    const auto worker = [&](uint32_t failing_attempts,
                            const ItemContext& context) -> absl::StatusOr<size_t> {
      EXPECT_FALSE(returned);
      if (attempts++ == script.stop_at_attempt) stop.request_stop();
      if (context.attempt <= failing_attempts) return absl::DataLossError("broken");
      return context.index;
    };
    const RunResults<size_t> run =
        RunWithQueue(flow.lane("work"), script.failing_attempts, worker, script.options,
                     {.on_result =
                          [&](uint32_t, size_t index, const ItemContext&) {
                            ++results[index];
                            return absl::OkStatus();
                          },
                      .on_error =
                          [&](uint32_t, const absl::Status&, const ItemContext& context) {
                            ++errors[context.index];
                            return absl::OkStatus();
                          }});
    returned = true;
    EXPECT_EQ(executor.size(), 0u) << "jobs remain in the executor";

    // The outcome of a loop over the items, without a stop.
    std::map<size_t, int> expected_results;
    std::map<size_t, int> expected_errors;
    for (size_t i = 0; i < script.failing_attempts.size(); ++i) {
      (script.failing_attempts[i] <= script.options.retries ? expected_results
                                                            : expected_errors)[i] = 1;
    }
    const bool stopped = stop.stop_requested();
    EXPECT_EQ(IsAbortError(run.status), stopped);
    if (!stopped &&
        (script.options.on_failure == OnFailure::kContinue || expected_errors.empty())) {
      EXPECT_EQ(results, expected_results);
      EXPECT_EQ(errors, expected_errors);
      EXPECT_EQ(run.status.ok(), expected_errors.empty());
      EXPECT_EQ(run.results.size(), script.failing_attempts.size());
    } else {
      EXPECT_TRUE(std::includes(expected_results.begin(), expected_results.end(), results.begin(),
                                results.end()));
      EXPECT_TRUE(stopped || !errors.empty());
      // A stop ends the retries of an item, so items may fail that would otherwise succeed.
      for (const auto& [index, count] : errors) EXPECT_EQ(count, 1);
    }
    EXPECT_EQ(run.failed, errors.size());
    EXPECT_EQ(run.succeeded, results.size());
    for (const auto& [index, count] : results) {
      EXPECT_EQ(count, 1);
      EXPECT_EQ(run.results.at(index), index);
    }
  }
}

}  // namespace
}  // namespace callboard::flow
