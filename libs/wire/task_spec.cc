#include "libs/wire/task_spec.h"

#include <google/protobuf/map.h>

#include <map>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/core/limits.h"
#include "libs/wire/field_values.h"

namespace callboard::wire {
namespace {

using google::protobuf::Map;

std::map<std::string, std::string> ReadMap(const Map<std::string, std::string>& proto) {
  return {proto.begin(), proto.end()};
}

void WriteMap(const std::map<std::string, std::string>& entries,
              Map<std::string, std::string>& proto) {
  proto.insert(entries.begin(), entries.end());
}

std::map<std::string, std::string> ReadLabels(absl::string_view field,
                                              const Map<std::string, std::string>& proto,
                                              FieldChecks& checks) {
  if (!checks.AtMost(field, proto.size(), core::kLabelsMax, "entries")) return {};
  for (const auto& [key, value] : proto) {
    if (key.empty()) checks.Refuse(field, "has an entry without a key");
    CheckName(field, key, checks);
    CheckName(field, value, checks);
    checks.AtMost(field, key.size(), core::kNameBytesMax, "bytes in a key");
    checks.AtMost(field, value.size(), core::kNameBytesMax, "bytes in a value");
  }
  return ReadMap(proto);
}

std::map<std::string, std::string> ReadEnv(const Map<std::string, std::string>& proto,
                                           FieldChecks& checks) {
  if (!checks.AtMost("env", proto.size(), core::kEnvEntriesMax, "entries")) return {};
  size_t bytes = 0;
  for (const auto& [name, value] : proto) {
    bytes += name.size() + value.size();
    if (name.empty() || absl::StrContains(name, '=')) {
      checks.Refuse("env", "has a name that is empty or contains '='");
    }
    if (absl::StrContains(name, '\0') || absl::StrContains(value, '\0')) {
      checks.Refuse("env", "contains a NUL byte");
    }
    if (absl::StartsWith(name, "CALLBOARD_") || name == "TRACEPARENT") {
      checks.Refuse("env", "sets CALLBOARD_… or TRACEPARENT, which the agent sets");
    }
  }
  checks.AtMost("env", bytes, core::kEnvBytesMax, "bytes");
  return ReadMap(proto);
}

absl::Duration ReadSeconds(absl::string_view field, uint32_t seconds, FieldChecks& checks) {
  checks.AtMost(field, seconds, core::kRunSecondsMax, "seconds");
  return absl::Seconds(seconds);
}

uint32_t ReadNumber(absl::string_view field, uint32_t number, uint32_t max, FieldChecks& checks) {
  if (number > max) checks.Refuse(field, absl::StrCat("is ", number, ", at most ", max));
  return number;
}

std::optional<core::Overlap> ReadOverlap(const v1::Overlap& proto, FieldChecks& checks) {
  if (proto.key().empty()) checks.Refuse("overlap.key", "is required");
  return core::Overlap{
      .key = ReadName("overlap.key", proto.key(), core::kNameBytesMax, checks),
      .policy = ReadEnum("overlap.policy", kOverlapPolicies, proto.policy(), checks),
      .n = ReadNumber("overlap.n", proto.n(), core::kOverlapMax, checks),
  };
}

std::vector<core::Constraint> ReadConstraints(const google::protobuf::RepeatedField<int>& proto,
                                              FieldChecks& checks) {
  if (!checks.AtMost("constraints", proto.size(), core::kConstraintsMax, "entries")) return {};
  std::vector<core::Constraint> constraints;
  for (int i = 0; i < proto.size(); ++i) {
    if (const auto constraint = FromProto(kConstraints, static_cast<v1::Constraint>(proto[i]))) {
      constraints.push_back(*constraint);
    } else {
      checks.Refuse(absl::StrCat("constraints[", i, "]"), "is no constraint of this version");
    }
  }
  return constraints;
}

std::vector<core::RetryRule> ReadRetryRules(
    const google::protobuf::RepeatedPtrField<std::string>& proto, FieldChecks& checks) {
  if (!checks.AtMost("retry_on", proto.size(), core::kRetryRulesMax, "entries")) return {};
  std::vector<core::RetryRule> rules;
  for (int i = 0; i < proto.size(); ++i) {
    if (const auto rule = core::ParseRetryRule(proto[i])) {
      rules.push_back(*rule);
    } else {
      checks.Refuse(absl::StrCat("retry_on[", i, "]"),
                    "is none of exit:<1..255>, exit:*, signal:<name as in SIGKILL>, timeout");
    }
  }
  return rules;
}

// What to do, and with what.
template <class Proto>
void ReadWork(const Proto& proto, core::TaskSpec& spec, FieldChecks& checks) {
  if (proto.prompt().empty()) checks.Refuse("prompt", "is required");
  checks.AtMost(proto.prompt().size() >= proto.payload().size() ? "prompt" : "payload",
                proto.prompt().size() + proto.payload().size(), core::kBodyBytesMax,
                "bytes, prompt and payload together");
  spec.prompt = proto.prompt();
  spec.payload = proto.payload();
  spec.model = ReadName("model", proto.model(), core::kNameBytesMax, checks);
  spec.timeout = ReadSeconds("timeout_seconds", proto.timeout_seconds(), checks);
  spec.session_id = ReadName("session_id", proto.session_id(), core::kNameBytesMax, checks);
  if (proto.has_project()) {
    spec.project = {
        .name = ReadName("project.name", proto.project().name(), core::kNameBytesMax, checks),
        .path = ReadText("project.path", proto.project().path(), core::kPathBytesMax, checks)};
  }
  spec.env = ReadEnv(proto.env(), checks);
  if (proto.has_thinking()) spec.thinking = proto.thinking();
}

// Who it comes from, and what people call it.
template <class Proto>
void ReadOrigin(const Proto& proto, core::TaskSpec& spec, FieldChecks& checks) {
  spec.request_id = ReadText("request_id", proto.request_id(), core::kRequestIdBytesMax, checks);
  spec.source = ReadSource(proto.source(), checks);
  spec.source_job = ReadName("source_job", proto.source_job(), core::kNameBytesMax, checks);
  spec.job_type = ReadName("job_type", proto.job_type(), core::kNameBytesMax, checks);
  spec.labels = ReadLabels("labels", proto.labels(), checks);
  if (proto.has_overlap()) spec.overlap = ReadOverlap(proto.overlap(), checks);
}

// Where and when it may run, and how often.
template <class Proto>
void ReadPlacement(const Proto& proto, core::TaskSpec& spec, FieldChecks& checks) {
  spec.required_labels = ReadLabels("required_labels", proto.required_labels(), checks);
  spec.lane = ReadName("lane", proto.lane(), core::kNameBytesMax, checks);
  spec.priority = ReadEnum("priority", kPriorities, proto.priority(), checks);
  spec.fairness_key = ReadName("fairness_key", proto.fairness_key(), core::kNameBytesMax, checks);
  spec.cost_units = ReadNumber("cost_units", proto.cost_units(), core::kCostUnitsMax, checks);
  spec.constraints = ReadConstraints(proto.constraints(), checks);
  spec.run_when = ReadEnum("run_when", kRunWhens, proto.run_when(), checks);
  spec.time_sensitive = proto.time_sensitive();
  spec.earliest_start_at = ReadTime("earliest_start_at", proto.has_earliest_start_at(),
                                    proto.earliest_start_at(), checks);
  spec.deadline_at = ReadTime("deadline_at", proto.has_deadline_at(), proto.deadline_at(), checks);
  if (spec.earliest_start_at.has_value() && spec.deadline_at.has_value() &&
      *spec.deadline_at < *spec.earliest_start_at) {
    checks.Refuse("deadline_at", "is before earliest_start_at");
  }
  spec.expected_duration =
      ReadSeconds("expected_duration_sec", proto.expected_duration_sec(), checks);
  spec.max_attempts =
      ReadNumber("max_attempts", proto.max_attempts(), core::kMaxAttemptsMax, checks);
  spec.retry_on = ReadRetryRules(proto.retry_on(), checks);
  spec.on_agent_lost = ReadEnum("on_agent_lost", kOnAgentLosts, proto.on_agent_lost(), checks);
}

template <class Proto>
core::TaskSpec Read(const Proto& proto, FieldChecks& checks) {
  core::TaskSpec spec;
  ReadWork(proto, spec, checks);
  ReadOrigin(proto, spec, checks);
  ReadPlacement(proto, spec, checks);
  return spec;
}

template <class Proto>
void WriteWork(const core::TaskSpec& spec, Proto& proto) {
  proto.set_prompt(spec.prompt);
  proto.set_payload(spec.payload);
  proto.set_model(spec.model);
  proto.set_timeout_seconds(static_cast<uint32_t>(absl::ToInt64Seconds(spec.timeout)));
  proto.set_session_id(spec.session_id);
  if (spec.project.has_value()) {
    proto.mutable_project()->set_name(spec.project->name);
    proto.mutable_project()->set_path(spec.project->path);
  }
  WriteMap(spec.env, *proto.mutable_env());
  if (spec.thinking.has_value()) proto.set_thinking(*spec.thinking);
}

template <class Proto>
void WriteOrigin(const core::TaskSpec& spec, Proto& proto) {
  proto.set_request_id(spec.request_id);
  if (spec.source.has_value()) proto.set_source(std::string(core::Name(*spec.source)));
  proto.set_source_job(spec.source_job);
  proto.set_job_type(spec.job_type);
  WriteMap(spec.labels, *proto.mutable_labels());
  if (spec.overlap.has_value()) {
    v1::Overlap& overlap = *proto.mutable_overlap();
    overlap.set_key(spec.overlap->key);
    if (spec.overlap->policy.has_value()) {
      overlap.set_policy(ToProto(kOverlapPolicies, *spec.overlap->policy));
    }
    overlap.set_n(spec.overlap->n);
  }
}

template <class Proto>
void WritePlacement(const core::TaskSpec& spec, Proto& proto) {
  WriteMap(spec.required_labels, *proto.mutable_required_labels());
  proto.set_lane(spec.lane);
  if (spec.priority.has_value()) proto.set_priority(ToProto(kPriorities, *spec.priority));
  proto.set_fairness_key(spec.fairness_key);
  proto.set_cost_units(spec.cost_units);
  for (const core::Constraint constraint : spec.constraints) {
    proto.add_constraints(ToProto(kConstraints, constraint));
  }
  if (spec.run_when.has_value()) proto.set_run_when(ToProto(kRunWhens, *spec.run_when));
  proto.set_time_sensitive(spec.time_sensitive);
  if (spec.earliest_start_at.has_value()) {
    *proto.mutable_earliest_start_at() = ToProto(*spec.earliest_start_at);
  }
  if (spec.deadline_at.has_value()) *proto.mutable_deadline_at() = ToProto(*spec.deadline_at);
  proto.set_expected_duration_sec(
      static_cast<uint32_t>(absl::ToInt64Seconds(spec.expected_duration)));
  proto.set_max_attempts(spec.max_attempts);
  for (const core::RetryRule& rule : spec.retry_on) proto.add_retry_on(core::RetryRuleText(rule));
  if (spec.on_agent_lost.has_value()) {
    proto.set_on_agent_lost(ToProto(kOnAgentLosts, *spec.on_agent_lost));
  }
}

template <class Proto>
void Write(const core::TaskSpec& spec, Proto& proto) {
  WriteWork(spec, proto);
  WriteOrigin(spec, proto);
  WritePlacement(spec, proto);
}

}  // namespace

core::TaskSpec ReadSpec(const v1::SubmitTaskRequest& proto, FieldChecks& checks) {
  return Read(proto, checks);
}
core::TaskSpec ReadSpec(const v1::Task& proto, FieldChecks& checks) { return Read(proto, checks); }

void WriteSpec(const core::TaskSpec& spec, v1::SubmitTaskRequest& proto) { Write(spec, proto); }
void WriteSpec(const core::TaskSpec& spec, v1::Task& proto) { Write(spec, proto); }

}  // namespace callboard::wire
