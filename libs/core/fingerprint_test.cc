#include "libs/core/fingerprint.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <vector>

namespace callboard::core {
namespace {

TEST(FingerprintTest, IsTheSameForTheSameContentWhateverTheRequestId) {
  TaskSpec spec;
  spec.prompt = "echo hello";
  TaskSpec same = spec;
  same.request_id = "r-1";
  EXPECT_EQ(FingerprintOf(spec), FingerprintOf(same));
}

TEST(FingerprintTest, StaysWhatItWasWhenItWasStored) {
  TaskSpec spec;
  spec.prompt = "echo hello";
  spec.labels = {{"team", "a"}};
  EXPECT_EQ(FingerprintOf(spec), (Fingerprint{12733844254623299554u, 6631971783806572032u}));
}

TEST(FingerprintTest, EveryFieldThatASubmitterSetsCounts) {
  const std::vector<std::function<void(TaskSpec&)>> changes = {
      [](TaskSpec& spec) { spec.prompt = "x"; },
      [](TaskSpec& spec) { spec.payload = "x"; },
      [](TaskSpec& spec) { spec.model = "x"; },
      [](TaskSpec& spec) { spec.timeout = absl::Seconds(1); },
      [](TaskSpec& spec) { spec.session_id = "x"; },
      [](TaskSpec& spec) { spec.project = Project(); },
      [](TaskSpec& spec) { spec.project = {.name = "x", .path = ""}; },
      [](TaskSpec& spec) { spec.project = {.name = "", .path = "x"}; },
      [](TaskSpec& spec) {
        spec.env = {{"x", ""}};
      },
      [](TaskSpec& spec) {
        spec.env = {{"x", "y"}};
      },
      [](TaskSpec& spec) { spec.thinking = false; },
      [](TaskSpec& spec) { spec.thinking = true; },
      [](TaskSpec& spec) { spec.source = TaskSource::kApi; },
      [](TaskSpec& spec) { spec.source_job = "x"; },
      [](TaskSpec& spec) { spec.job_type = "x"; },
      [](TaskSpec& spec) {
        spec.labels = {{"x", ""}};
      },
      [](TaskSpec& spec) {
        spec.required_labels = {{"x", ""}};
      },
      [](TaskSpec& spec) { spec.lane = "x"; },
      [](TaskSpec& spec) { spec.priority = Priority::kLow; },
      [](TaskSpec& spec) { spec.fairness_key = "x"; },
      [](TaskSpec& spec) { spec.cost_units = 1; },
      [](TaskSpec& spec) { spec.constraints = {Constraint::kCpuHeavy}; },
      [](TaskSpec& spec) { spec.run_when = RunWhen::kAnytime; },
      [](TaskSpec& spec) { spec.time_sensitive = true; },
      [](TaskSpec& spec) { spec.earliest_start_at = absl::UnixEpoch(); },
      [](TaskSpec& spec) { spec.deadline_at = absl::UnixEpoch(); },
      [](TaskSpec& spec) { spec.expected_duration = absl::Seconds(1); },
      [](TaskSpec& spec) { spec.max_attempts = 1; },
      [](TaskSpec& spec) { spec.retry_on = {RetryRule()}; },
      [](TaskSpec& spec) { spec.on_agent_lost = OnAgentLost::kFail; },
      [](TaskSpec& spec) { spec.overlap = Overlap(); },
      [](TaskSpec& spec) { spec.overlap = {.key = "x", .policy = std::nullopt, .n = 0}; },
      [](TaskSpec& spec) { spec.overlap = {.key = "", .policy = std::nullopt, .n = 1}; },
      [](TaskSpec& spec) { spec.overlap = {.key = "", .policy = OverlapPolicy::kSkip, .n = 0}; },
  };
  std::set<Fingerprint> seen = {FingerprintOf(TaskSpec())};
  for (size_t i = 0; i < changes.size(); ++i) {
    TaskSpec spec;
    changes[i](spec);
    EXPECT_TRUE(seen.insert(FingerprintOf(spec)).second) << "change " << i;
  }
}

}  // namespace
}  // namespace callboard::core
