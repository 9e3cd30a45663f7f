#include "libs/core/fingerprint.h"

#include <map>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "libs/core/retry_rule.h"
#include "libs/core/stable_hash.h"

namespace callboard::core {
namespace {

void Add(const std::map<std::string, std::string>& entries, StableHash& hash) {
  hash.Add(entries.size());
  for (const auto& [key, value] : entries) hash.Add(key).Add(value);
}

// An absent value is 0, and a present one never is.
template <class Enum>
void Add(const std::optional<Enum>& value, StableHash& hash) {
  hash.Add(value.has_value() ? 1 + static_cast<uint64_t>(*value) : 0);
}

void Add(const std::optional<absl::Time>& time, StableHash& hash) {
  hash.Add(time.has_value() ? 1 : 0);
  if (time.has_value()) hash.Add(static_cast<uint64_t>(absl::ToUnixNanos(*time)));
}

void Add(absl::Duration duration, StableHash& hash) {
  hash.Add(static_cast<uint64_t>(absl::ToInt64Nanoseconds(duration)));
}

}  // namespace

Fingerprint FingerprintOf(const TaskSpec& spec) {
  StableHash hash;
  hash.Add(spec.prompt).Add(spec.payload).Add(spec.model).Add(spec.session_id);
  hash.Add(spec.source_job).Add(spec.job_type).Add(spec.lane).Add(spec.fairness_key);
  hash.Add(spec.cost_units).Add(spec.max_attempts).Add(spec.time_sensitive ? 1 : 0);
  Add(spec.timeout, hash);
  Add(spec.expected_duration, hash);
  Add(spec.env, hash);
  Add(spec.labels, hash);
  Add(spec.required_labels, hash);
  Add(spec.thinking, hash);
  Add(spec.source, hash);
  Add(spec.priority, hash);
  Add(spec.run_when, hash);
  Add(spec.on_agent_lost, hash);
  Add(spec.earliest_start_at, hash);
  Add(spec.deadline_at, hash);
  hash.Add(spec.project.has_value() ? 1 : 0);
  if (spec.project.has_value()) hash.Add(spec.project->name).Add(spec.project->path);
  hash.Add(spec.overlap.has_value() ? 1 : 0);
  if (spec.overlap.has_value()) {
    hash.Add(spec.overlap->key).Add(spec.overlap->n);
    Add(spec.overlap->policy, hash);
  }
  hash.Add(spec.constraints.size());
  for (const Constraint constraint : spec.constraints) hash.Add(static_cast<uint64_t>(constraint));
  hash.Add(spec.retry_on.size());
  for (const RetryRule& rule : spec.retry_on) hash.Add(RetryRuleText(rule));
  return {hash.value(), hash.second_value()};
}

}  // namespace callboard::core
