#include "libs/wire/spec.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/map.h>

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "callboard/v1/options.pb.h"
#include "libs/base/check.h"
#include "libs/base/error.h"
#include "libs/base/text.h"
#include "libs/core/dispatch_rules.h"
#include "libs/core/hash.h"
#include "libs/core/limits.h"
#include "libs/wire/enums.h"
#include "libs/wire/time.h"

namespace callboard::wire {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Map;
using google::protobuf::Message;

// ---- Validation ---------------------------------------------------------------------------------

void CheckLabels(absl::string_view field, const Map<std::string, std::string>& labels,
                 FieldChecks& checks) {
  if (!checks.CheckLimit(field, labels.size(), core::kLabelsMax, "entries")) return;
  for (const auto& [key, value] : labels) {
    if (key.empty()) checks.AddViolation(field, "has an entry without a key");
    CheckName(field, key, checks);
    CheckName(field, value, checks);
    checks.CheckLimit(field, key.size(), core::kNameBytesMax, "bytes in a key");
    checks.CheckLimit(field, value.size(), core::kNameBytesMax, "bytes in a value");
  }
}

void CheckEnv(const Map<std::string, std::string>& env, FieldChecks& checks) {
  if (!checks.CheckLimit("env", env.size(), core::kEnvEntriesMax, "entries")) return;
  size_t bytes = 0;
  for (const auto& [name, value] : env) {
    bytes += name.size() + value.size();
    if (name.empty() || absl::StrContains(name, '=')) {
      checks.AddViolation("env", "has a name that is empty or contains '='");
    }
    if (absl::StrContains(name, '\0') || absl::StrContains(value, '\0')) {
      checks.AddViolation("env", "contains a NUL byte");
    }
    if (absl::StartsWith(name, "CALLBOARD_") || name == "TRACEPARENT") {
      checks.AddViolation("env", "sets CALLBOARD_… or TRACEPARENT, which the agent sets");
    }
  }
  checks.CheckLimit("env", bytes, core::kEnvBytesMax, "bytes");
}

void CheckNumber(absl::string_view field, uint32_t number, uint32_t max, FieldChecks& checks) {
  if (number > max) checks.AddViolation(field, absl::StrCat("is ", number, ", at most ", max));
}

void CheckShortName(absl::string_view field, const std::string& text, FieldChecks& checks) {
  CheckName(field, text, checks);
  checks.CheckLimit(field, text.size(), core::kNameBytesMax, "bytes");
}

// Checks that this version knows the value of an enum field.
template <class IsValid, class Enum>
void CheckEnum(absl::string_view field, IsValid is_valid, Enum value, FieldChecks& checks) {
  if (!is_valid(value)) checks.AddViolation(field, "has a value that this version does not know");
}

void CheckConstraints(const google::protobuf::RepeatedField<int>& constraints,
                      FieldChecks& checks) {
  if (!checks.CheckLimit("constraints", constraints.size(), core::kConstraintsMax, "entries")) {
    return;
  }
  for (int i = 0; i < constraints.size(); ++i) {
    if (!v1::Constraint_IsValid(constraints[i]) || constraints[i] == v1::CONSTRAINT_UNSPECIFIED) {
      checks.AddViolation(absl::StrCat("constraints[", i, "]"),
                          "is not a constraint of this version");
    }
  }
}

// Checks the limits and the form of the fields that ReadTerms() does not check.
void CheckSpec(const v1::SubmitTaskRequest& request, FieldChecks& checks) {
  if (request.prompt().empty()) checks.AddViolation("prompt", "is required");
  checks.CheckLimit(request.prompt().size() >= request.payload().size() ? "prompt" : "payload",
                    request.prompt().size() + request.payload().size(), core::kBodyBytesMax,
                    "bytes, prompt and payload together");
  CheckShortName("model", request.model(), checks);
  checks.CheckLimit("timeout_seconds", request.timeout_seconds(), core::kRunSecondsMax, "seconds");
  CheckShortName("session_id", request.session_id(), checks);
  CheckShortName("project.name", request.project().name(), checks);
  checks.CheckLimit("project.path", request.project().path().size(), core::kPathBytesMax, "bytes");
  CheckEnv(request.env(), checks);
  checks.CheckLimit("request_id", request.request_id().size(), core::kRequestIdBytesMax, "bytes");
  CheckShortName("source_job", request.source_job(), checks);
  CheckShortName("job_type", request.job_type(), checks);
  CheckLabels("labels", request.labels(), checks);
  CheckLabels("required_labels", request.required_labels(), checks);
  CheckShortName("lane", request.lane(), checks);
  CheckEnum("priority", v1::Priority_IsValid, request.priority(), checks);
  CheckShortName("fairness_key", request.fairness_key(), checks);
  CheckNumber("cost_units", request.cost_units(), core::kCostUnitsMax, checks);
  CheckConstraints(request.constraints(), checks);
  CheckEnum("run_when", v1::RunWhen_IsValid, request.run_when(), checks);
  checks.CheckLimit("expected_duration_sec", request.expected_duration_sec(), core::kRunSecondsMax,
                    "seconds");
  CheckNumber("max_attempts", request.max_attempts(), core::kMaxAttemptsMax, checks);
  checks.CheckLimit("retry_on", request.retry_on_size(), core::kRetryRulesMax, "entries");
  if (request.has_overlap()) {
    if (request.overlap().key().empty()) checks.AddViolation("overlap.key", "is required");
    CheckShortName("overlap.key", request.overlap().key(), checks);
    CheckNumber("overlap.n", request.overlap().n(), core::kOverlapMax, checks);
  }
}

// Fields of later versions, accepted only with their default.
absl::Status CheckSupported(const v1::SubmitTaskRequest& request) {
  absl::string_view field;
  if (request.priority() == v1::PRIORITY_LOW || request.priority() == v1::PRIORITY_HIGH)
    field = "priority";
  if (!request.fairness_key().empty()) field = "fairness_key";
  if (request.cost_units() != 0) field = "cost_units";
  if (request.constraints_size() > 0) field = "constraints";
  if (request.run_when() == v1::RUN_WHEN_QUIET) field = "run_when";
  if (request.time_sensitive()) field = "time_sensitive";
  if (field.empty()) return absl::OkStatus();
  return base::WithReason(absl::UnimplementedError(absl::StrCat(
                              field, " is not supported by this version; leave it out")),
                          "FIELD_NOT_SUPPORTED", {{"field", std::string(field)}});
}

// ---- What the director decides by ---------------------------------------------------------------

std::map<std::string, std::string> ReadMap(const Map<std::string, std::string>& proto) {
  return {proto.begin(), proto.end()};
}

std::vector<core::RetryRule> ReadRetryRules(
    const google::protobuf::RepeatedPtrField<std::string>& texts, FieldChecks& checks) {
  std::vector<core::RetryRule> rules;
  for (int i = 0; i < texts.size(); ++i) {
    if (const auto rule = core::ParseRetryRule(texts[i])) {
      rules.push_back(*rule);
    } else {
      checks.AddViolation(
          absl::StrCat("retry_on[", i, "]"),
          "must be one of exit:<1..255>, exit:*, signal:<name such as SIGKILL>, timeout");
    }
  }
  return rules;
}

// `Proto` is SubmitTaskRequest or TaskSpec. Fields without a value get their default.
template <class Proto>
core::PlacementTerms ReadTerms(const Proto& proto, FieldChecks& checks) {
  core::PlacementTerms terms;
  terms.source = ReadSource(proto.source(), checks).value_or(core::TaskSource::kApi);
  terms.source_job = proto.source_job();
  terms.job_type = proto.job_type();
  terms.labels = ReadMap(proto.labels());
  terms.required_labels = ReadMap(proto.required_labels());
  if (!proto.lane().empty()) terms.lane = proto.lane();
  terms.fairness_key = proto.fairness_key();
  if (proto.timeout_seconds() != 0) terms.timeout = absl::Seconds(proto.timeout_seconds());
  terms.max_attempts = proto.max_attempts();
  terms.retry_on = ReadRetryRules(proto.retry_on(), checks);
  terms.on_agent_lost = ReadEnum("on_agent_lost", kOnAgentLosts, proto.on_agent_lost(), checks)
                            .value_or(core::OnAgentLost::kFail);
  if (proto.has_overlap()) {
    const auto policy =
        ReadEnum("overlap.policy", kOverlapPolicies, proto.overlap().policy(), checks);
    terms.overlap = {.key = proto.overlap().key(),
                     .policy = policy.value_or(core::OverlapPolicy::kSkip),
                     .n = proto.overlap().n()};
  }
  return terms;
}

// Reads everything but `bytes`.
template <class Proto>
core::TaskSpec ReadDecidedFields(const Proto& proto, FieldChecks& checks) {
  core::TaskSpec spec;
  spec.request_id = proto.request_id();
  spec.session_id = proto.session_id();
  spec.earliest_start_at = ReadTime("earliest_start_at", proto.has_earliest_start_at(),
                                    proto.earliest_start_at(), checks)
                               .value_or(absl::InfinitePast());
  spec.deadline_at = ReadTime("deadline_at", proto.has_deadline_at(), proto.deadline_at(), checks)
                         .value_or(absl::InfiniteFuture());
  spec.terms = ReadTerms(proto, checks);
  return spec;
}

// ---- The bytes ----------------------------------------------------------------------------------

// Appends `message` so that equal messages give equal bytes: the entries of maps are sorted.
//
// Stored fingerprints are hashes of these bytes. Protobuf does not promise that other versions of
// it write fields in the same order; FingerprintTest.StoredValueNeverChanges would notice.
void AppendSorted(const Message& message, std::string& bytes) {
  google::protobuf::io::StringOutputStream output(&bytes);
  google::protobuf::io::CodedOutputStream coded(&output);
  coded.SetSerializationDeterministic(true);
  CHECK(message.SerializeToCodedStream(&coded));
}

// Moves the request id, and all fields that have their default value or none, from `request` to a
// spec of their own, with the default filled in. What is left in `request` is the content of the
// submit, by which repeated submits are compared.
v1::TaskSpec TakeDefaults(v1::SubmitTaskRequest& request, uint32_t max_attempts) {
  v1::TaskSpec defaults;
  defaults.set_request_id(std::move(*request.mutable_request_id()));
  request.clear_request_id();
  defaults.set_max_attempts(request.max_attempts() == 0 ? max_attempts : request.max_attempts());
  request.clear_max_attempts();
  const auto seconds = static_cast<uint32_t>(absl::ToInt64Seconds(core::kDefaultTimeout));
  if (request.timeout_seconds() == 0 || request.timeout_seconds() == seconds) {
    request.clear_timeout_seconds();
    defaults.set_timeout_seconds(seconds);
  }
  if (request.lane().empty() || request.lane() == core::kDefaultLane) {
    request.clear_lane();
    defaults.set_lane(std::string(core::kDefaultLane));
  }
  if (request.source().empty() || request.source() == Name(core::TaskSource::kApi)) {
    request.clear_source();
    defaults.set_source(std::string(Name(core::TaskSource::kApi)));
  }
  // An unspecified value stays so: it means the same.
  if (request.priority() == v1::PRIORITY_NORMAL) {
    request.clear_priority();
    defaults.set_priority(v1::PRIORITY_NORMAL);
  }
  if (request.run_when() == v1::RUN_WHEN_ANYTIME) {
    request.clear_run_when();
    defaults.set_run_when(v1::RUN_WHEN_ANYTIME);
  }
  if (request.on_agent_lost() == v1::ON_AGENT_LOST_FAIL) {
    request.clear_on_agent_lost();
    defaults.set_on_agent_lost(v1::ON_AGENT_LOST_FAIL);
  }
  if (request.has_project() && request.project().ByteSizeLong() == 0) request.clear_project();
  if (request.overlap().policy() == v1::Overlap::POLICY_SKIP) {
    request.mutable_overlap()->clear_policy();
    defaults.mutable_overlap()->set_policy(v1::Overlap::POLICY_SKIP);
  }
  if (request.overlap().n() == 1) {
    request.mutable_overlap()->clear_n();
    defaults.mutable_overlap()->set_n(1);
  }
  return defaults;
}

}  // namespace

core::Submission ReadSubmit(v1::SubmitTaskRequest&& request, uint32_t max_attempts,
                            FieldChecks& checks) {
  core::Submission submission;
  request.DiscardUnknownFields();
  CheckSpec(request, checks);
  submission.spec = ReadDecidedFields(request, checks);
  if (submission.spec.deadline_at < submission.spec.earliest_start_at) {
    checks.AddViolation("deadline_at", "is before earliest_start_at");
  }
  submission.policy = ReadEnum("policy", kQueuePolicies, request.policy(), checks);
  submission.ticket = ReadText("ticket", request.ticket(), core::kNameBytesMax, checks);
  submission.validate_only = request.validate_only();
  if (!checks.status().ok()) return submission;

  submission.fingerprint.max_attempts = request.max_attempts();
  if (request.max_attempts() == 0) submission.spec.terms.max_attempts = max_attempts;
  request.clear_policy();
  request.clear_ticket();
  request.clear_validate_only();
  const v1::TaskSpec defaults = TakeDefaults(request, max_attempts);
  auto bytes = std::make_shared<std::string>();
  bytes->reserve(request.ByteSizeLong() + defaults.ByteSizeLong());
  AppendSorted(request, *bytes);
  if (!defaults.request_id().empty()) {
    core::StableHash hash;
    hash.Add(*bytes);
    submission.fingerprint.high = hash.value();
    submission.fingerprint.low = hash.second_value();
  }
  // Serialized messages that follow each other are one message with the fields of both.
  AppendSorted(defaults, *bytes);
  submission.spec.bytes = std::move(bytes);
  return submission;
}

absl::StatusOr<core::Submission> ReadSubmit(v1::SubmitTaskRequest&& request,
                                            uint32_t max_attempts) {
  const absl::Status supported = CheckSupported(request);
  FieldChecks checks;
  core::Submission submission = ReadSubmit(std::move(request), max_attempts, checks);
  RETURN_IF_ERROR(checks.status());
  RETURN_IF_ERROR(supported);
  return submission;
}

absl::StatusOr<core::Submission> MakeRedrive(const std::string& spec, core::QueueId old) {
  // A spec has a subset of the fields of a submit, under the same numbers.
  v1::SubmitTaskRequest request;
  if (!request.ParseFromString(spec)) {
    return absl::DataLossError(absl::StrCat("the spec of ", ToString(old), " cannot be read"));
  }
  request.clear_overlap();
  request.clear_deadline_at();
  request.clear_earliest_start_at();
  request.set_request_id(absl::StrCat("redrive/", ToString(old)));
  request.set_policy(v1::QUEUE_POLICY_REJECT);
  return ReadSubmit(std::move(request), /*max_attempts=*/0);
}

absl::StatusOr<core::TaskSpec> ReadSpec(std::string bytes) {
  v1::TaskSpec proto;
  if (!proto.ParseFromString(bytes)) return absl::DataLossError("spec cannot be parsed");
  FieldChecks checks;
  core::TaskSpec spec = ReadDecidedFields(proto, checks);
  if (!checks.status().ok()) {
    return absl::DataLossError(absl::StrCat("spec: ", checks.status().message()));
  }
  spec.bytes = std::make_shared<const std::string>(std::move(bytes));
  return spec;
}

core::RunSpec ReadRunSpec(const v1::TaskSpec& spec) {
  core::RunSpec run = {
      .prompt = spec.prompt(),
      .payload = spec.payload(),
      .model = spec.model(),
      .timeout = absl::Seconds(spec.timeout_seconds()),
      .session_id = spec.session_id(),
      .project = {.name = spec.project().name(), .path = spec.project().path()},
      .env = ReadMap(spec.env()),
      .thinking = spec.has_thinking() ? std::optional(spec.thinking()) : std::nullopt,
  };
  if (!spec.lane().empty()) run.lane = spec.lane();
  return run;
}

// ---- Views --------------------------------------------------------------------------------------

namespace {

constexpr size_t kListedPromptBytes = 1024;

std::vector<const FieldDescriptor*> SensitiveFields() {
  std::vector<const FieldDescriptor*> fields;
  for (int i = 0; i < v1::Task::descriptor()->field_count(); ++i) {
    const FieldDescriptor* field = v1::Task::descriptor()->field(i);
    if (field->options().GetExtension(v1::sensitive)) fields.push_back(field);
  }
  return fields;
}

}  // namespace

void ReduceToBasicView(v1::Task& task) {
  static const auto& fields = *new std::vector<const FieldDescriptor*>(SensitiveFields());
  const google::protobuf::Reflection& reflection = *task.GetReflection();
  for (const FieldDescriptor* field : fields) {
    if (!field->is_map()) {
      reflection.ClearField(&task, field);
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(task, field); ++i) {
      Message& entry = *reflection.MutableRepeatedMessage(&task, field, i);
      entry.GetReflection()->ClearField(&entry, field->message_type()->map_value());
    }
  }
}

void ReduceToListView(v1::Task& task) {
  ReduceToBasicView(task);
  if (task.prompt().size() <= kListedPromptBytes) return;
  task.mutable_prompt()->resize(base::Utf8Prefix(task.prompt(), kListedPromptBytes).size());
  task.set_prompt_truncated(true);
}

}  // namespace callboard::wire
