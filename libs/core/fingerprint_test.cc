#include "libs/core/fingerprint.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <vector>

namespace callboard::core {
namespace {

TEST(FingerprintTest, DoesNotDependOnTheRequestId) {
  TaskSpec spec;
  spec.prompt = "echo hello";
  TaskSpec same = spec;
  same.request_id = "r-1";
  EXPECT_EQ(ComputeFingerprint(spec), ComputeFingerprint(same));
}

TEST(FingerprintTest, StoredValueNeverChanges) {
  TaskSpec spec;
  spec.prompt = "echo hello";
  spec.labels = {{"team", "a"}};
  EXPECT_EQ(ComputeFingerprint(spec, 0),
            (Fingerprint{12733844254623299554u, 6631971783806572032u, 0}));
  EXPECT_EQ(ComputeFingerprint(spec, 1),
            (Fingerprint{14378915197770178067u, 4649428794052939731u, 1}));
}

TEST(FingerprintTest, StoredFingerprintIsComparedByTheRulesOfItsVersion) {
  TaskSpec spec;
  spec.prompt = "echo hello";
  const Fingerprint sent = ComputeFingerprint(spec);
  EXPECT_TRUE(IsSameSubmit(sent, sent, spec));
  EXPECT_TRUE(IsSameSubmit(ComputeFingerprint(spec, 0), sent, spec));
  TaskSpec other = spec;
  other.prompt = "echo bye";
  EXPECT_FALSE(IsSameSubmit(ComputeFingerprint(other, 0), sent, spec));
  EXPECT_FALSE(IsSameSubmit(ComputeFingerprint(other), sent, spec));
  EXPECT_TRUE(IsSameSubmit({1, 2, kFingerprintVersion + 1}, sent, spec)) << "of a later version";
}

TEST(FingerprintTest, DefaultValueEqualsAnAbsentValue) {
  const std::vector<std::function<void(TaskSpec&)>> defaults = {
      [](TaskSpec& spec) { spec.timeout = absl::Seconds(1800); },
      [](TaskSpec& spec) { spec.source = TaskSource::kApi; },
      [](TaskSpec& spec) { spec.lane = "default"; },
      [](TaskSpec& spec) { spec.priority = Priority::kNormal; },
      [](TaskSpec& spec) { spec.run_when = RunWhen::kAnytime; },
      [](TaskSpec& spec) { spec.on_agent_lost = OnAgentLost::kFail; },
      [](TaskSpec& spec) { spec.project = Project(); },
  };
  for (size_t i = 0; i < defaults.size(); ++i) {
    TaskSpec spec;
    defaults[i](spec);
    EXPECT_EQ(ComputeFingerprint(spec), ComputeFingerprint(TaskSpec())) << "default " << i;
  }
  TaskSpec overlap;
  overlap.overlap = {.key = "k", .policy = std::nullopt, .n = 0};
  TaskSpec same = overlap;
  same.overlap = {.key = "k", .policy = OverlapPolicy::kSkip, .n = 1};
  EXPECT_EQ(ComputeFingerprint(overlap), ComputeFingerprint(same));
}

TEST(FingerprintTest, SameValueInAnotherFieldDiffers) {
  TaskSpec project;
  project.project = {.name = "x", .path = ""};
  project.env = {{"a", "b"}};
  TaskSpec other = project;
  other.project = {.name = "", .path = "x"};
  EXPECT_NE(ComputeFingerprint(project), ComputeFingerprint(other));
  other = project;
  std::swap(other.env, other.labels);
  EXPECT_NE(ComputeFingerprint(project), ComputeFingerprint(other));
}

TEST(FingerprintTest, EveryFieldIsPartOfTheFingerprint) {
  const std::vector<std::function<void(TaskSpec&)>> changes = {
      [](TaskSpec& spec) { spec.prompt = "x"; },
      [](TaskSpec& spec) { spec.payload = "x"; },
      [](TaskSpec& spec) { spec.model = "x"; },
      [](TaskSpec& spec) { spec.timeout = absl::Seconds(1); },
      [](TaskSpec& spec) { spec.session_id = "x"; },
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
      [](TaskSpec& spec) { spec.source = TaskSource::kCli; },
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
      [](TaskSpec& spec) { spec.run_when = RunWhen::kQuiet; },
      [](TaskSpec& spec) { spec.time_sensitive = true; },
      [](TaskSpec& spec) { spec.earliest_start_at = absl::UnixEpoch(); },
      [](TaskSpec& spec) { spec.deadline_at = absl::UnixEpoch(); },
      [](TaskSpec& spec) { spec.expected_duration = absl::Seconds(1); },
      [](TaskSpec& spec) { spec.max_attempts = 1; },
      [](TaskSpec& spec) { spec.retry_on = {RetryRule()}; },
      [](TaskSpec& spec) { spec.on_agent_lost = OnAgentLost::kRequeue; },
      [](TaskSpec& spec) { spec.overlap = Overlap(); },
      [](TaskSpec& spec) { spec.overlap = {.key = "x", .policy = std::nullopt, .n = 0}; },
      [](TaskSpec& spec) { spec.overlap = {.key = "", .policy = std::nullopt, .n = 2}; },
      [](TaskSpec& spec) { spec.overlap = {.key = "", .policy = OverlapPolicy::kAllow, .n = 0}; },
  };
  std::set<Fingerprint> seen = {ComputeFingerprint(TaskSpec())};
  for (size_t i = 0; i < changes.size(); ++i) {
    TaskSpec spec;
    changes[i](spec);
    EXPECT_TRUE(seen.insert(ComputeFingerprint(spec)).second) << "change " << i;
  }
}

}  // namespace
}  // namespace callboard::core
