#include "libs/wire/task.h"

#include <google/protobuf/map.h>

#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/base/error.h"
#include "libs/base/text.h"
#include "libs/core/limits.h"
#include "libs/wire/enums.h"
#include "libs/wire/fields.h"
#include "libs/wire/time.h"

namespace callboard::wire {

// ---- The spec of a task -------------------------------------------------------------------------

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
  if (!checks.CheckLimit(field, proto.size(), core::kLabelsMax, "entries")) return {};
  for (const auto& [key, value] : proto) {
    if (key.empty()) checks.AddViolation(field, "has an entry without a key");
    CheckName(field, key, checks);
    CheckName(field, value, checks);
    checks.CheckLimit(field, key.size(), core::kNameBytesMax, "bytes in a key");
    checks.CheckLimit(field, value.size(), core::kNameBytesMax, "bytes in a value");
  }
  return ReadMap(proto);
}

std::map<std::string, std::string> ReadEnv(const Map<std::string, std::string>& proto,
                                           FieldChecks& checks) {
  if (!checks.CheckLimit("env", proto.size(), core::kEnvEntriesMax, "entries")) return {};
  size_t bytes = 0;
  for (const auto& [name, value] : proto) {
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
  return ReadMap(proto);
}

absl::Duration ReadSeconds(absl::string_view field, uint32_t seconds, FieldChecks& checks) {
  checks.CheckLimit(field, seconds, core::kRunSecondsMax, "seconds");
  return absl::Seconds(seconds);
}

uint32_t ReadNumber(absl::string_view field, uint32_t number, uint32_t max, FieldChecks& checks) {
  if (number > max) checks.AddViolation(field, absl::StrCat("is ", number, ", at most ", max));
  return number;
}

std::optional<core::Overlap> ReadOverlap(const v1::Overlap& proto, FieldChecks& checks) {
  if (proto.key().empty()) checks.AddViolation("overlap.key", "is required");
  return core::Overlap{
      .key = ReadName("overlap.key", proto.key(), core::kNameBytesMax, checks),
      .policy = ReadEnum("overlap.policy", kOverlapPolicies, proto.policy(), checks),
      .n = ReadNumber("overlap.n", proto.n(), core::kOverlapMax, checks),
  };
}

std::vector<core::Constraint> ReadConstraints(const google::protobuf::RepeatedField<int>& proto,
                                              FieldChecks& checks) {
  if (!checks.CheckLimit("constraints", proto.size(), core::kConstraintsMax, "entries")) return {};
  std::vector<core::Constraint> constraints;
  for (int i = 0; i < proto.size(); ++i) {
    if (const auto constraint = FromProto(kConstraints, static_cast<v1::Constraint>(proto[i]))) {
      constraints.push_back(*constraint);
    } else {
      checks.AddViolation(absl::StrCat("constraints[", i, "]"),
                          "is not a constraint of this version");
    }
  }
  return constraints;
}

std::vector<core::RetryRule> ReadRetryRules(
    const google::protobuf::RepeatedPtrField<std::string>& proto, FieldChecks& checks) {
  if (!checks.CheckLimit("retry_on", proto.size(), core::kRetryRulesMax, "entries")) return {};
  std::vector<core::RetryRule> rules;
  for (int i = 0; i < proto.size(); ++i) {
    if (const auto rule = core::ParseRetryRule(proto[i])) {
      rules.push_back(*rule);
    } else {
      checks.AddViolation(
          absl::StrCat("retry_on[", i, "]"),
          "must be one of exit:<1..255>, exit:*, signal:<name such as SIGKILL>, timeout");
    }
  }
  return rules;
}

// Reads the work of the task and its inputs.
template <class Proto>
void ReadWork(const Proto& proto, core::TaskSpec& spec, FieldChecks& checks) {
  if (proto.prompt().empty()) checks.AddViolation("prompt", "is required");
  checks.CheckLimit(proto.prompt().size() >= proto.payload().size() ? "prompt" : "payload",
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

// Reads the origin of the task and its labels.
template <class Proto>
void ReadOrigin(const Proto& proto, core::TaskSpec& spec, FieldChecks& checks) {
  spec.request_id = ReadText("request_id", proto.request_id(), core::kRequestIdBytesMax, checks);
  spec.source = ReadSource(proto.source(), checks);
  spec.source_job = ReadName("source_job", proto.source_job(), core::kNameBytesMax, checks);
  spec.job_type = ReadName("job_type", proto.job_type(), core::kNameBytesMax, checks);
  spec.labels = ReadLabels("labels", proto.labels(), checks);
  if (proto.has_overlap()) spec.overlap = ReadOverlap(proto.overlap(), checks);
}

// Reads the constraints on where, when and how often the task may run.
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
    checks.AddViolation("deadline_at", "is before earliest_start_at");
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

// ---- Tasks, their events and fence tokens -------------------------------------------------------

namespace {

std::optional<core::TraceId> ReadTraceId(const std::string& text, FieldChecks& checks) {
  const std::optional<core::TraceId> id = core::ParseTraceId(text);
  if (!text.empty() && !id.has_value()) {
    checks.AddViolation("trace_id", "is not 32 lower-case hex digits with one above 0");
  }
  return id;
}

std::string FormatTaskId(core::QueueId id, core::DispatchNumber dispatch) {
  return dispatch.value() == 0 ? "" : core::TaskIdText(id, dispatch);
}

void ReadTimes(const v1::Task& proto, core::Task& task, FieldChecks& checks) {
  const auto read = [&](absl::string_view field, bool present, const auto& time) {
    return ReadTime(field, present, time, checks);
  };
  task.submitted_at = read("submitted_at", proto.has_submitted_at(), proto.submitted_at());
  task.created_at = read("created_at", proto.has_created_at(), proto.created_at());
  task.dispatched_at = read("dispatched_at", proto.has_dispatched_at(), proto.dispatched_at());
  task.finished_at = read("finished_at", proto.has_finished_at(), proto.finished_at());
  task.not_before = read("not_before", proto.has_not_before(), proto.not_before());
  task.cancel_requested_at =
      read("cancel_requested_at", proto.has_cancel_requested_at(), proto.cancel_requested_at());
}

void WriteTimes(const core::Task& task, v1::Task& proto) {
  if (task.submitted_at) *proto.mutable_submitted_at() = ToProto(*task.submitted_at);
  if (task.created_at) *proto.mutable_created_at() = ToProto(*task.created_at);
  if (task.dispatched_at) *proto.mutable_dispatched_at() = ToProto(*task.dispatched_at);
  if (task.finished_at) *proto.mutable_finished_at() = ToProto(*task.finished_at);
  if (task.not_before) *proto.mutable_not_before() = ToProto(*task.not_before);
  if (task.cancel_requested_at) {
    *proto.mutable_cancel_requested_at() = ToProto(*task.cancel_requested_at);
  }
}

}  // namespace

absl::StatusOr<core::Submission> FromProto(const v1::SubmitTaskRequest& proto) {
  FieldChecks checks;
  core::Submission submission;
  submission.spec = ReadSpec(proto, checks);
  submission.policy = ReadEnum("policy", kQueuePolicies, proto.policy(), checks);
  submission.ticket = ReadText("ticket", proto.ticket(), core::kNameBytesMax, checks);
  submission.validate_only = proto.validate_only();
  RETURN_IF_ERROR(checks.status());
  return submission;
}

v1::SubmitTaskRequest ToProto(const core::Submission& submission) {
  v1::SubmitTaskRequest proto;
  WriteSpec(submission.spec, proto);
  if (submission.policy.has_value()) proto.set_policy(ToProto(kQueuePolicies, *submission.policy));
  proto.set_ticket(submission.ticket);
  proto.set_validate_only(submission.validate_only);
  return proto;
}

absl::StatusOr<core::Task> FromProto(const v1::Task& proto) {
  FieldChecks checks;
  core::Task task;
  task.spec = ReadSpec(proto, checks);
  task.policy = ReadEnum("policy", kQueuePolicies, proto.policy(), checks);
  task.queue_id = ReadRequiredQueueId(proto.queue_id(), checks);
  const auto state = ReadEnum("state", kTaskStates, proto.state(), checks);
  if (proto.state() == v1::Task::STATE_UNSPECIFIED) checks.AddViolation("state", "is required");
  task.state = state.value_or(core::LifecycleState::kPending);
  task.reason = ReadEnum("reason", kFailureReasons, proto.reason(), checks);
  task.position = proto.position();
  ReadTimes(proto, task, checks);
  task.dispatch = core::DispatchNumber(proto.dispatch());
  if (proto.task_id() != FormatTaskId(task.queue_id, task.dispatch)) {
    checks.AddViolation("task_id", "does not match queue_id and dispatch");
  }
  task.agent_url = ReadText("agent_url", proto.agent_url(), core::kNameBytesMax, checks);
  task.attempts = proto.attempts();
  task.busy_rejections = proto.busy_rejections();
  task.last_error = ReadText("last_error", proto.last_error(), core::kErrorBytesMax, checks);
  if (proto.has_exit_code()) task.exit_code = proto.exit_code();
  task.signal = ReadText("signal", proto.signal(), core::kNameBytesMax, checks);
  task.result = ReadText("result", proto.result(), core::kResultBytesMax, checks);
  task.result_truncated = proto.result_truncated();
  task.trace_id = ReadTraceId(proto.trace_id(), checks);
  task.redrive_of = ReadQueueId("redrive_of", proto.redrive_of(), checks);
  task.redriven_as = ReadQueueId("redriven_as", proto.redriven_as(), checks);
  if (proto.prompt_truncated()) checks.AddViolation("prompt_truncated", "must not be set");
  RETURN_IF_ERROR(checks.status());
  return task;
}

v1::Task ToProto(const core::Task& task) {
  v1::Task proto;
  WriteSpec(task.spec, proto);
  if (task.policy.has_value()) proto.set_policy(ToProto(kQueuePolicies, *task.policy));
  proto.set_queue_id(core::ToString(task.queue_id));
  proto.set_state(ToProto(kTaskStates, task.state));
  if (task.reason.has_value()) proto.set_reason(ToProto(kFailureReasons, *task.reason));
  proto.set_position(task.position);
  WriteTimes(task, proto);
  proto.set_task_id(FormatTaskId(task.queue_id, task.dispatch));
  proto.set_agent_url(task.agent_url);
  proto.set_dispatch(task.dispatch.value());
  proto.set_attempts(task.attempts);
  proto.set_busy_rejections(task.busy_rejections);
  proto.set_last_error(task.last_error);
  if (task.exit_code.has_value()) proto.set_exit_code(*task.exit_code);
  proto.set_signal(task.signal);
  proto.set_result(task.result);
  proto.set_result_truncated(task.result_truncated);
  if (task.trace_id.has_value()) proto.set_trace_id(core::ToString(*task.trace_id));
  if (task.redrive_of.has_value()) proto.set_redrive_of(core::ToString(*task.redrive_of));
  if (task.redriven_as.has_value()) proto.set_redriven_as(core::ToString(*task.redriven_as));
  return proto;
}

absl::StatusOr<core::TaskEvent> FromProto(const v1::TaskEvent& proto) {
  FieldChecks checks;
  core::TaskEvent event;
  event.number = proto.number();
  const auto kind = ReadEnum("kind", kTaskEventKinds, proto.kind(), checks);
  if (proto.kind() == v1::TaskEvent::KIND_UNSPECIFIED) checks.AddViolation("kind", "is required");
  event.kind = kind.value_or(core::TaskEventKind::kSubmitted);
  if (!proto.has_at()) checks.AddViolation("at", "is required");
  event.at = ReadTime("at", proto.has_at(), proto.at(), checks).value_or(absl::Time());
  event.who = ReadText("who", proto.who(), core::kNameBytesMax, checks);
  event.why = ReadText("why", proto.why(), core::kErrorBytesMax, checks);
  event.fault = ReadEnum("fault", kFaults, proto.fault(), checks);
  event.place_before = proto.place_before();
  event.place_after = proto.place_after();
  event.dispatch = core::DispatchNumber(proto.dispatch());
  event.agent = ReadText("agent", proto.agent(), core::kNameBytesMax, checks);
  RETURN_IF_ERROR(checks.status());
  return event;
}

v1::TaskEvent ToProto(const core::TaskEvent& event) {
  v1::TaskEvent proto;
  proto.set_number(event.number);
  proto.set_kind(ToProto(kTaskEventKinds, event.kind));
  *proto.mutable_at() = ToProto(event.at);
  proto.set_who(event.who);
  proto.set_why(event.why);
  if (event.fault.has_value()) proto.set_fault(ToProto(kFaults, *event.fault));
  proto.set_place_before(event.place_before);
  proto.set_place_after(event.place_after);
  proto.set_dispatch(event.dispatch.value());
  proto.set_agent(event.agent);
  return proto;
}

absl::StatusOr<core::FenceToken> FromProto(const v1::FenceToken& proto) {
  FieldChecks checks;
  const core::FenceToken token = {.queue_id = ReadRequiredQueueId(proto.queue_id(), checks),
                                  .dispatch = core::DispatchNumber(proto.dispatch()),
                                  .director_epoch = proto.director_epoch()};
  if (proto.dispatch() == 0) checks.AddViolation("dispatch", "is required");
  if (proto.director_epoch() == 0) checks.AddViolation("director_epoch", "is required");
  RETURN_IF_ERROR(checks.status());
  return token;
}

v1::FenceToken ToProto(const core::FenceToken& token) {
  v1::FenceToken proto;
  proto.set_queue_id(core::ToString(token.queue_id));
  proto.set_dispatch(token.dispatch.value());
  proto.set_director_epoch(token.director_epoch);
  return proto;
}

// ---- Smaller views of a task --------------------------------------------------------------------

namespace {

constexpr size_t kListedPromptBytes = 1024;

}  // namespace

void ReduceToBasicView(v1::Task& task) {
  task.clear_payload();
  task.clear_result();
  for (auto& [name, value] : *task.mutable_env()) value.clear();
}

void ReduceToListView(v1::Task& task) {
  ReduceToBasicView(task);
  if (task.prompt().size() <= kListedPromptBytes) return;
  task.mutable_prompt()->resize(base::Utf8Prefix(task.prompt(), kListedPromptBytes).size());
  task.set_prompt_truncated(true);
}

// ---- The status of the queue --------------------------------------------------------------------

namespace {

void AddLiveCounts(const std::map<std::string, core::LiveCount>& counts,
                   google::protobuf::RepeatedPtrField<v1::LiveCount>& proto) {
  for (const auto& [key, count] : counts) {
    v1::LiveCount& entry = *proto.Add();
    entry.set_key(key);
    entry.set_queued(count.queued);
    entry.set_running(count.running);
  }
}

v1::QueueSwitch SwitchToProto(const core::SwitchCause& cause) {
  v1::QueueSwitch proto;
  proto.set_who(cause.who);
  proto.set_why(cause.why);
  *proto.mutable_at() = ToProto(cause.at);
  return proto;
}

}  // namespace

v1::QueueStatus ToProto(const core::QueueStatus& status) {
  v1::QueueStatus proto;
  proto.set_depth(static_cast<uint32_t>(status.counts.pending));
  proto.set_max_size(status.options.max_size);
  proto.set_policy(ToProto(kQueuePolicies, status.options.policy));
  proto.set_ready(status.ready);
  proto.set_delayed(status.delayed);
  proto.set_waiting(status.waiting);
  proto.set_tickets(status.tickets);
  proto.set_in_flight(static_cast<uint32_t>(status.in_flight()));
  proto.set_max_in_flight(status.max_in_flight);
  proto.set_dispatched_count(status.in_flight());
  proto.set_dispatches_total(status.dispatches_total);
  proto.set_idle(status.is_idle());
  proto.set_oldest_age_seconds(absl::ToDoubleSeconds(status.oldest_age));
  proto.set_paused(status.paused);
  proto.set_draining(status.draining);
  if (status.pause.has_value()) *proto.mutable_pause() = SwitchToProto(*status.pause);
  if (status.drain.has_value()) *proto.mutable_drain() = SwitchToProto(*status.drain);
  proto.set_drain_rate_per_second(status.drain_rate_per_second);
  v1::StateCounts& counts = *proto.mutable_counts();
  counts.set_pending(status.counts.pending);
  counts.set_dispatching(status.counts.dispatching);
  counts.set_working(status.counts.working);
  counts.set_completed(status.counts.completed);
  counts.set_failed(status.counts.failed);
  counts.set_cancelled(status.counts.cancelled);
  AddLiveCounts(status.sources, *proto.mutable_sources());
  AddLiveCounts(status.fairness_keys, *proto.mutable_fairness_keys());
  return proto;
}

}  // namespace callboard::wire
