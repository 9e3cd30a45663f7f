#include "libs/core/fingerprint.h"

#include <map>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "libs/base/check.h"
#include "libs/core/dispatch_rules.h"
#include "libs/core/hash.h"

namespace callboard::core {
namespace {

void Add(const std::map<std::string, std::string>& entries, StableHash& hash) {
  hash.Add(entries.size());
  for (const auto& [key, value] : entries) hash.Add(key).Add(value);
}

// Hashes an absent value as 0 and a present one as its number + 1.
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

// Version 0: hashes all fields, including absent ones, in a fixed order.
Fingerprint UnversionedFingerprint(const TaskSpec& spec) {
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

// Hashes fields with their numbers in SubmitTaskRequest. Callers add fields in ascending order of
// the numbers. Default values add nothing.
class FieldHash {
 public:
  explicit FieldHash(uint32_t version) { hash_.Add(version); }

  void Text(int number, absl::string_view text, absl::string_view by_default = "") {
    if (!text.empty() && text != by_default) hash_.Add(number).Add(text);
  }
  void Number(int number, uint64_t value, uint64_t by_default = 0) {
    if (value != 0 && value != by_default) hash_.Add(number).Add(value);
  }
  // Hashes the number of the value in the API, which is 1 + the number in libs/core.
  template <class T>
  void Enum(int number, const std::optional<T>& value, std::optional<T> by_default) {
    if (value.has_value() && value != by_default) {
      hash_.Add(number).Add(1 + static_cast<uint64_t>(*value));
    }
  }
  void Seconds(int number, absl::Duration value, absl::Duration by_default = {}) {
    Number(number, static_cast<uint64_t>(absl::ToInt64Seconds(value)),
           static_cast<uint64_t>(absl::ToInt64Seconds(by_default)));
  }
  void Time(int number, const std::optional<absl::Time>& value) {
    if (value.has_value()) {
      hash_.Add(number).Add(static_cast<uint64_t>(absl::ToUnixNanos(*value)));
    }
  }
  void Map(int number, const std::map<std::string, std::string>& entries) {
    if (entries.empty()) return;
    hash_.Add(number).Add(entries.size());
    for (const auto& [key, value] : entries) hash_.Add(key).Add(value);
  }
  // `add` hashes one element.
  template <class Values, class AddValue>
  void List(int number, const Values& values, AddValue add) {
    if (values.empty()) return;
    hash_.Add(number).Add(values.size());
    for (const auto& value : values) add(hash_, value);
  }
  // Enclose the fields of the submessage `number`.
  void Begin(int number) { hash_.Add(number); }
  void End() { hash_.Add(uint64_t{0}); }

  StableHash& hash() { return hash_; }

 private:
  StableHash hash_;
};

void AddWork(const TaskSpec& spec, FieldHash& fields) {
  fields.Text(1, spec.prompt);
  fields.Text(2, spec.payload);
  fields.Text(3, spec.model);
  fields.Seconds(4, spec.timeout, kDefaultTimeout);
  fields.Text(5, spec.session_id);
  if (spec.project.has_value() && *spec.project != Project()) {
    fields.Begin(6);
    fields.Text(1, spec.project->name);
    fields.Text(2, spec.project->path);
    fields.End();
  }
  fields.Map(7, spec.env);
  if (spec.thinking.has_value()) fields.Number(8, *spec.thinking ? 2 : 1);
}

void AddOriginAndPlacement(const TaskSpec& spec, FieldHash& fields) {
  if (spec.source.has_value()) fields.Text(10, Name(*spec.source), Name(TaskSource::kApi));
  fields.Text(11, spec.source_job);
  fields.Text(12, spec.job_type);
  fields.Map(13, spec.labels);
  fields.Map(14, spec.required_labels);
  fields.Text(15, spec.lane, kDefaultLane);
  fields.Enum<Priority>(16, spec.priority, Priority::kNormal);
  fields.Text(17, spec.fairness_key);
  fields.Number(18, spec.cost_units);
  fields.List(19, spec.constraints, [](StableHash& hash, Constraint constraint) {
    hash.Add(1 + static_cast<uint64_t>(constraint));
  });
  fields.Enum<RunWhen>(20, spec.run_when, RunWhen::kAnytime);
  fields.Number(21, spec.time_sensitive ? 1 : 0);
  fields.Time(22, spec.earliest_start_at);
  fields.Time(23, spec.deadline_at);
  fields.Seconds(24, spec.expected_duration);
  // The default of max_attempts comes from a setting.
  fields.Number(25, spec.max_attempts);
  fields.List(26, spec.retry_on,
              [](StableHash& hash, const RetryRule& rule) { hash.Add(RetryRuleText(rule)); });
  fields.Enum<OnAgentLost>(27, spec.on_agent_lost, OnAgentLost::kFail);
  if (spec.overlap.has_value()) {
    fields.Begin(29);
    fields.Text(1, spec.overlap->key);
    fields.Enum<OverlapPolicy>(2, spec.overlap->policy, OverlapPolicy::kSkip);
    fields.Number(3, spec.overlap->n, 1);
    fields.End();
  }
}

}  // namespace

Fingerprint ComputeFingerprint(const TaskSpec& spec, uint32_t version) {
  CHECK(version <= kFingerprintVersion) << version;
  if (version == 0) return UnversionedFingerprint(spec);
  FieldHash fields(version);
  AddWork(spec, fields);
  AddOriginAndPlacement(spec, fields);
  return {fields.hash().value(), fields.hash().second_value(), version};
}

bool IsSameSubmit(const Fingerprint& known, const Fingerprint& sent, const TaskSpec& spec) {
  if (known.version == sent.version) return known == sent;
  // A later version of this program made `known` by rules that are unknown here. Trust the equal
  // request ids.
  if (known.version > kFingerprintVersion) return true;
  return known == ComputeFingerprint(spec, known.version);
}

}  // namespace callboard::core
