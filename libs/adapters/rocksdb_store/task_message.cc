#include "libs/adapters/rocksdb_store/task_message.h"

#include <google/protobuf/repeated_field.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "libs/adapters/rocksdb_store/big_endian.h"
#include "libs/base/text.h"
#include "libs/wire/time.h"

namespace callboard::adapters {

namespace disk = storage::v1;

namespace {

using google::protobuf::RepeatedPtrField;
using Entries = std::map<std::string, std::string>;

// ---- Single fields ------------------------------------------------------------------------------

// Leaves an empty one alone: setting it would allocate.
template <class Message>
void SetText(Message& message, std::string* (Message::*field)(), const std::string& text) {
  if (!text.empty()) *(message.*field)() = text;
}

// Unspecified when absent.
template <class Core, class Proto, size_t N>
Proto OptionalToProto(const EnumPair<Core, Proto> (&table)[N], std::optional<Core> value) {
  return value.has_value() ? wire::ToProto(table, *value) : Proto{};
}

// Absent when unspecified.
template <class Core, class Proto, size_t N>
std::optional<Core> ReadOptionalEnum(absl::string_view field,
                                     const EnumPair<Core, Proto> (&table)[N], Proto value,
                                     Doubts& doubts) {
  if (value == Proto{}) return std::nullopt;
  return ReadEnum(field, table, value, doubts);
}

void WriteEntries(const Entries& entries, RepeatedPtrField<disk::Entry>& proto) {
  for (const auto& [key, value] : entries) {
    disk::Entry& entry = *proto.Add();
    entry.set_key(key);
    entry.set_value(value);
  }
}

Entries ReadEntries(absl::string_view field, const RepeatedPtrField<disk::Entry>& proto,
                    Doubts& doubts) {
  Entries entries;
  for (const disk::Entry& entry : proto) {
    std::string key = base::ValidUtf8(entry.key());
    // Broken keys may be the same once they are repaired.
    const bool is_broken = key != entry.key();
    const size_t before = entries.size();
    entries.emplace_hint(entries.end(), std::move(key), base::ValidUtf8(entry.value()));
    if (entries.size() == before && !is_broken) doubts.About(field);
  }
  return entries;
}

std::optional<absl::Time> ReadTime(absl::string_view field, bool present,
                                   const google::protobuf::Timestamp& proto, Doubts& doubts) {
  if (!present) return std::nullopt;
  const std::optional<absl::Time> time = wire::FromProto(proto);
  if (!time.has_value()) doubts.About(field);
  return time;
}

// ---- What was asked for -------------------------------------------------------------------------

void WriteWork(const core::TaskSpec& spec, disk::TaskSpec& proto) {
  SetText(proto, &disk::TaskSpec::mutable_prompt, spec.prompt);
  SetText(proto, &disk::TaskSpec::mutable_payload, spec.payload);
  SetText(proto, &disk::TaskSpec::mutable_model, spec.model);
  proto.set_timeout_ns(absl::ToInt64Nanoseconds(spec.timeout));
  SetText(proto, &disk::TaskSpec::mutable_session_id, spec.session_id);
  if (spec.project.has_value()) {
    proto.mutable_project()->set_name(spec.project->name);
    proto.mutable_project()->set_path(spec.project->path);
  }
  WriteEntries(spec.env, *proto.mutable_env());
  if (spec.thinking.has_value()) proto.set_thinking(*spec.thinking);
  SetText(proto, &disk::TaskSpec::mutable_request_id, spec.request_id);
  proto.set_source(OptionalToProto(kTaskSources, spec.source));
  SetText(proto, &disk::TaskSpec::mutable_source_job, spec.source_job);
  SetText(proto, &disk::TaskSpec::mutable_job_type, spec.job_type);
  WriteEntries(spec.labels, *proto.mutable_labels());
}

void WritePlacement(const core::TaskSpec& spec, disk::TaskSpec& proto) {
  WriteEntries(spec.required_labels, *proto.mutable_required_labels());
  SetText(proto, &disk::TaskSpec::mutable_lane, spec.lane);
  proto.set_priority(OptionalToProto(kPriorities, spec.priority));
  SetText(proto, &disk::TaskSpec::mutable_fairness_key, spec.fairness_key);
  proto.set_cost_units(spec.cost_units);
  for (const core::Constraint constraint : spec.constraints) {
    proto.add_constraints(wire::ToProto(kConstraints, constraint));
  }
  proto.set_run_when(OptionalToProto(kRunWhens, spec.run_when));
  proto.set_time_sensitive(spec.time_sensitive);
  if (spec.earliest_start_at.has_value()) {
    *proto.mutable_earliest_start_at() = wire::ToProto(*spec.earliest_start_at);
  }
  if (spec.deadline_at.has_value()) {
    *proto.mutable_deadline_at() = wire::ToProto(*spec.deadline_at);
  }
  proto.set_expected_duration_ns(absl::ToInt64Nanoseconds(spec.expected_duration));
  proto.set_max_attempts(spec.max_attempts);
  for (const core::RetryRule& rule : spec.retry_on) proto.add_retry_on(core::RetryRuleText(rule));
  proto.set_on_agent_lost(OptionalToProto(kOnAgentLosts, spec.on_agent_lost));
  if (spec.overlap.has_value()) {
    proto.mutable_overlap()->set_key(spec.overlap->key);
    proto.mutable_overlap()->set_policy(OptionalToProto(kOverlapPolicies, spec.overlap->policy));
    proto.mutable_overlap()->set_n(spec.overlap->n);
  }
}

// Texts are stored as bytes: versions before this one cut them inside a character. What is not
// UTF-8 could not be sent to anybody, so that it is repaired.
void ReadWork(const disk::TaskSpec& proto, core::TaskSpec& spec, Doubts& doubts) {
  spec.prompt = base::ValidUtf8(proto.prompt());
  spec.payload = proto.payload();
  spec.model = base::ValidUtf8(proto.model());
  spec.timeout = absl::Nanoseconds(proto.timeout_ns());
  spec.session_id = base::ValidUtf8(proto.session_id());
  if (proto.has_project())
    spec.project = {base::ValidUtf8(proto.project().name()),
                    base::ValidUtf8(proto.project().path())};
  spec.env = ReadEntries("env", proto.env(), doubts);
  if (proto.has_thinking()) spec.thinking = proto.thinking();
  spec.request_id = base::ValidUtf8(proto.request_id());
  spec.source = ReadOptionalEnum("source", kTaskSources, proto.source(), doubts);
  spec.source_job = base::ValidUtf8(proto.source_job());
  spec.job_type = base::ValidUtf8(proto.job_type());
  spec.labels = ReadEntries("labels", proto.labels(), doubts);
}

void ReadPlacement(const disk::TaskSpec& proto, core::TaskSpec& spec, Doubts& doubts) {
  spec.required_labels = ReadEntries("required_labels", proto.required_labels(), doubts);
  spec.lane = base::ValidUtf8(proto.lane());
  spec.priority = ReadOptionalEnum("priority", kPriorities, proto.priority(), doubts);
  spec.fairness_key = base::ValidUtf8(proto.fairness_key());
  spec.cost_units = proto.cost_units();
  for (const int constraint : proto.constraints()) {
    spec.constraints.push_back(
        ReadEnum("constraints", kConstraints, static_cast<disk::Constraint>(constraint), doubts));
  }
  spec.run_when = ReadOptionalEnum("run_when", kRunWhens, proto.run_when(), doubts);
  spec.time_sensitive = proto.time_sensitive();
  spec.earliest_start_at = ReadTime("earliest_start_at", proto.has_earliest_start_at(),
                                    proto.earliest_start_at(), doubts);
  spec.deadline_at = ReadTime("deadline_at", proto.has_deadline_at(), proto.deadline_at(), doubts);
  spec.expected_duration = absl::Nanoseconds(proto.expected_duration_ns());
  spec.max_attempts = proto.max_attempts();
  for (const std::string& text : proto.retry_on()) {
    const std::optional<core::RetryRule> rule = core::ParseRetryRule(text);
    if (!rule.has_value()) doubts.About("retry_on");
    spec.retry_on.push_back(rule.value_or(core::RetryRule()));
  }
  spec.on_agent_lost =
      ReadOptionalEnum("on_agent_lost", kOnAgentLosts, proto.on_agent_lost(), doubts);
  if (proto.has_overlap()) {
    spec.overlap = {
        base::ValidUtf8(proto.overlap().key()),
        ReadOptionalEnum("overlap.policy", kOverlapPolicies, proto.overlap().policy(), doubts),
        proto.overlap().n()};
  }
}

// ---- Changes ------------------------------------------------------------------------------------

void Write(const core::Dispatched& dispatched, disk::Dispatched& proto) {
  proto.set_dispatch(dispatched.dispatch.value());
  proto.set_director_epoch(dispatched.director_epoch);
  SetText(proto, &disk::Dispatched::mutable_instance_id, dispatched.instance_id);
  SetText(proto, &disk::Dispatched::mutable_agent_url, dispatched.agent_url);
}

void Write(const core::RunResult& run, disk::RunResult& proto) {
  proto.set_end(wire::ToProto(kRunEnds, run.end));
  if (run.exit_code.has_value()) proto.set_exit_code(*run.exit_code);
  SetText(proto, &disk::RunResult::mutable_signal, run.signal);
  SetText(proto, &disk::RunResult::mutable_result, run.result);
  proto.set_result_truncated(run.result_truncated);
  SetText(proto, &disk::RunResult::mutable_error, run.error);
}

void Write(const core::SpanContext& trace, std::string& bytes) {
  bytes.append(trace.trace_id.value().begin(), trace.trace_id.value().end());
  bytes.append(trace.span_id.value().begin(), trace.span_id.value().end());
  bytes.push_back(trace.sampled ? 1 : 0);
}

core::SpanContext ReadTrace(absl::string_view bytes, Doubts& doubts) {
  std::array<uint8_t, 16> trace_id;
  std::array<uint8_t, 8> span_id;
  const bool has_flags = bytes.size() == trace_id.size() + span_id.size() + 1;
  if (!has_flags || static_cast<uint8_t>(bytes.back()) > 1) {
    doubts.About("trace");
    return {};
  }
  std::copy_n(bytes.begin(), trace_id.size(), trace_id.begin());
  std::copy_n(bytes.begin() + trace_id.size(), span_id.size(), span_id.begin());
  return {.trace_id = core::TraceId(trace_id),
          .span_id = core::SpanId(span_id),
          .sampled = bytes.back() != 0};
}

// Writes a change into the message it belongs to.
struct ChangeWriter {
  disk::TaskRecord& message;

  void operator()(const core::Admitted& admitted) const {
    disk::Admitted& proto = *message.mutable_admitted();
    WriteWork(*admitted.spec, *proto.mutable_spec());
    WritePlacement(*admitted.spec, *proto.mutable_spec());
    proto.set_fingerprint_high(admitted.fingerprint.high);
    proto.set_fingerprint_low(admitted.fingerprint.low);
    proto.set_fingerprint_version(admitted.fingerprint.version);
    proto.set_policy(OptionalToProto(kQueuePolicies, admitted.policy));
    SetText(proto, &disk::Admitted::mutable_identity, admitted.identity);
    proto.set_submitted_at_ns(absl::ToUnixNanos(admitted.submitted_at));
    proto.set_sequence(admitted.sequence);
    if (admitted.redrive_of.has_value()) {
      AppendQueueId(*admitted.redrive_of, *proto.mutable_redrive_of());
    }
    if (admitted.trace != core::SpanContext()) Write(admitted.trace, *proto.mutable_trace());
  }
  void operator()(const core::Dispatched& dispatched) const {
    Write(dispatched, *message.mutable_dispatched());
  }
  void operator()(const core::Accepted&) const { message.mutable_accepted(); }
  void operator()(const core::Bounced& bounced) const {
    disk::Bounced& proto = *message.mutable_bounced();
    Write(bounced.dispatched, *proto.mutable_dispatched());
    proto.set_dispatched_at_ns(absl::ToUnixNanos(bounced.dispatched_at));
    proto.set_sequence(bounced.sequence);
    proto.set_busy_rejections(bounced.busy_rejections);
  }
  void operator()(const core::Returned& returned) const {
    disk::Returned& proto = *message.mutable_returned();
    proto.set_sequence(returned.sequence);
    proto.set_counts(returned.counts);
    proto.set_blame(wire::ToProto(kBlames, returned.blame));
    proto.set_reported(returned.reported);
    proto.set_backoff_ns(absl::ToInt64Nanoseconds(returned.backoff));
    SetText(proto, &disk::Returned::mutable_error, returned.error);
  }
  void operator()(const core::CancelRequested&) const { message.mutable_cancel_requested(); }
  void operator()(const core::Ended& ended) const {
    disk::Ended& proto = *message.mutable_ended();
    proto.set_state(wire::ToProto(kTaskStates, ended.state));
    proto.set_reason(OptionalToProto(kFailureReasons, ended.reason));
    proto.set_counts(ended.counts);
    proto.set_blame(wire::ToProto(kBlames, ended.blame));
    if (ended.run.has_value()) Write(*ended.run, *proto.mutable_run());
    SetText(proto, &disk::Ended::mutable_error, ended.error);
  }
  void operator()(const core::Noted&) const { message.mutable_noted(); }
};

core::Admitted Read(const disk::Admitted& proto, Doubts& doubts) {
  if (!proto.has_spec()) doubts.About("spec");
  auto spec = std::make_shared<core::TaskSpec>();
  ReadWork(proto.spec(), *spec, doubts);
  ReadPlacement(proto.spec(), *spec, doubts);
  core::Admitted admitted = {
      .spec = std::move(spec),
      .fingerprint = {proto.fingerprint_high(), proto.fingerprint_low(),
                      proto.fingerprint_version()},
      .policy = ReadOptionalEnum("policy", kQueuePolicies, proto.policy(), doubts),
      .identity = base::ValidUtf8(proto.identity()),
      .submitted_at = absl::FromUnixNanos(proto.submitted_at_ns()),
      .sequence = proto.sequence()};
  if (!proto.redrive_of().empty()) {
    admitted.redrive_of = ReadQueueId("redrive_of", proto.redrive_of(), doubts);
  }
  if (!proto.trace().empty()) admitted.trace = ReadTrace(proto.trace(), doubts);
  return admitted;
}

core::Dispatched Read(const disk::Dispatched& proto) {
  return {.dispatch = core::DispatchNumber(proto.dispatch()),
          .director_epoch = proto.director_epoch(),
          .instance_id = base::ValidUtf8(proto.instance_id()),
          .agent_url = base::ValidUtf8(proto.agent_url())};
}

core::Bounced Read(const disk::Bounced& proto, Doubts& doubts) {
  if (!proto.has_dispatched()) doubts.About("dispatched");
  return {.dispatched = Read(proto.dispatched()),
          .dispatched_at = absl::FromUnixNanos(proto.dispatched_at_ns()),
          .sequence = proto.sequence(),
          .busy_rejections = proto.busy_rejections()};
}

core::Returned Read(const disk::Returned& proto, Doubts& doubts) {
  return {.sequence = proto.sequence(),
          .counts = proto.counts(),
          .blame = ReadEnum("blame", kBlames, proto.blame(), doubts),
          .reported = proto.reported(),
          .backoff = absl::Nanoseconds(proto.backoff_ns()),
          .error = base::ValidUtf8(proto.error())};
}

core::RunResult Read(const disk::RunResult& proto, Doubts& doubts) {
  core::RunResult run = {.end = ReadEnum("run.end", kRunEnds, proto.end(), doubts),
                         .signal = base::ValidUtf8(proto.signal()),
                         .result = proto.result(),
                         .result_truncated = proto.result_truncated(),
                         .error = base::ValidUtf8(proto.error())};
  if (proto.has_exit_code()) run.exit_code = proto.exit_code();
  return run;
}

core::Ended Read(const disk::Ended& proto, Doubts& doubts) {
  core::Ended ended = {
      .state = ReadEnum("state", kTaskStates, proto.state(), doubts),
      .reason = ReadOptionalEnum("reason", kFailureReasons, proto.reason(), doubts),
      .counts = proto.counts(),
      .blame = ReadEnum("blame", kBlames, proto.blame(), doubts),
      .error = base::ValidUtf8(proto.error())};
  if (proto.has_run()) ended.run = Read(proto.run(), doubts);
  return ended;
}

void ReadChange(const disk::TaskRecord& message, core::TaskChange& change, Doubts& doubts) {
  using Message = disk::TaskRecord;
  switch (message.change_case()) {
    case Message::kAdmitted:
      change = Read(message.admitted(), doubts);
      return;
    case Message::kDispatched:
      change = Read(message.dispatched());
      return;
    case Message::kAccepted:
      change = core::Accepted();
      return;
    case Message::kBounced:
      change = Read(message.bounced(), doubts);
      return;
    case Message::kReturned:
      change = Read(message.returned(), doubts);
      return;
    case Message::kCancelRequested:
      change = core::CancelRequested();
      return;
    case Message::kEnded:
      change = Read(message.ended(), doubts);
      return;
    case Message::kNoted:
      change = core::Noted();
      return;
    case Message::CHANGE_NOT_SET:
      doubts.About("change");
  }
}

}  // namespace

absl::Status Doubts::ToStatus() const {
  if (field_.empty()) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(field_, " is missing, or has a value that this version does not know"));
}

void AppendQueueId(core::QueueId id, std::string& bytes) {
  AppendBigEndian(id.value().high(), bytes);
  AppendBigEndian(id.value().low(), bytes);
}

core::QueueId ReadQueueId(absl::string_view field, absl::string_view bytes, Doubts& doubts) {
  if (bytes.size() != kQueueIdBytes) {
    doubts.About(field);
    return {};
  }
  return core::QueueId(core::Ulid(ReadBigEndian(bytes), ReadBigEndian(bytes.substr(kNumberBytes))));
}

void Write(const core::TaskRecord& record, disk::TaskRecord& message) {
  const core::TaskEvent& event = record.event;
  message.set_kind(wire::ToProto(kTaskEventKinds, event.kind));
  message.set_at_ns(absl::ToUnixNanos(event.at));
  SetText(message, &disk::TaskRecord::mutable_who, event.who);
  SetText(message, &disk::TaskRecord::mutable_why, event.why);
  message.set_fault(OptionalToProto(kFaults, event.fault));
  message.set_place_before(event.place_before);
  message.set_place_after(event.place_after);
  message.set_dispatch(event.dispatch.value());
  SetText(message, &disk::TaskRecord::mutable_agent, event.agent);
  message.set_replaces(record.replaces);
  message.set_event_number(event.number);
  std::visit(ChangeWriter{message}, record.change);
}

void Read(const disk::TaskRecord& message, core::TaskRecord& record, Doubts& doubts) {
  core::TaskEvent& event = record.event;
  event.kind = ReadEnum("kind", kTaskEventKinds, message.kind(), doubts);
  event.at = absl::FromUnixNanos(message.at_ns());
  event.who = base::ValidUtf8(message.who());
  event.why = base::ValidUtf8(message.why());
  event.fault = ReadOptionalEnum("fault", kFaults, message.fault(), doubts);
  event.place_before = message.place_before();
  event.place_after = message.place_after();
  event.dispatch = core::DispatchNumber(message.dispatch());
  event.agent = base::ValidUtf8(message.agent());
  record.replaces = message.replaces();
  // Format 1 had no number of the event: its first record is two events, the others one each.
  event.number = message.event_number() == 0 ? record.number + 1 : message.event_number();
  ReadChange(message, record.change, doubts);
}

}  // namespace callboard::adapters
