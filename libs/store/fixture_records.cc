#include "libs/store/fixture_records.h"

#include <google/protobuf/text_format.h>

#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "callboard/v1/task.pb.h"
#include "libs/base/check.h"
#include "libs/wire/spec.h"

namespace callboard::store {
namespace {

constexpr core::QueueId kTask = core::QueueId(core::Ulid(0x018c'2f3a'0000'1234, 0x5678));
constexpr core::QueueId kOtherTask = core::QueueId(core::Ulid(0x018c'2f3a'0000'1234, 0x9abc));
const absl::Time kStart = absl::FromUnixNanos(1'700'000'000'123'456'789);

// A spec with a value in every field, as text, because it must never change.
constexpr char kSpec[] = R"(
  prompt: "line\n\000bytes" payload: "\377payload" model: "model" timeout_seconds: 30
  session_id: "session" project { name: "name" path: "/path" }
  env { key: "A" value: "1" } thinking: false
  request_id: "request" source: "scheduler" source_job: "job" job_type: "type"
  labels { key: "team" value: "a" } required_labels { key: "os" value: "linux" } lane: "gpu"
  priority: PRIORITY_HIGH fairness_key: "key" cost_units: 7
  constraints: [CONSTRAINT_NETWORK_HEAVY, CONSTRAINT_CPU_HEAVY] run_when: RUN_WHEN_QUIET
  time_sensitive: true earliest_start_at { seconds: -30000000000 }
  deadline_at { seconds: 30000000000 nanos: 1 } expected_duration_sec: 9 max_attempts: 4
  retry_on: ["exit:3", "exit:*", "signal:SIGKILL", "timeout"]
  on_agent_lost: ON_AGENT_LOST_REQUEUE
  overlap { key: "overlap" policy: POLICY_QUEUE_ONE n: 2 })";

core::SpecPtr Spec() {
  v1::TaskSpec proto;
  CHECK(google::protobuf::TextFormat::ParseFromString(kSpec, &proto));
  absl::StatusOr<core::TaskSpec> spec = wire::ReadSpec(proto.SerializeAsString());
  CHECK_OK(spec.status());
  return std::make_shared<const core::TaskSpec>(*std::move(spec));
}

std::vector<core::TaskChange> Changes() {
  const core::TaskDispatched dispatched = {core::DispatchNumber(1), 2, "instance", "grpc://a:1"};
  const core::RunResult run = {.end = core::RunResult::End::kFailed,
                               .exit_code = -1,
                               .signal = "SIGTERM",
                               .result = std::string("\0\xff", 2),
                               .result_truncated = true,
                               .error = "run error"};
  return {core::TaskAdmitted{.spec = Spec(),
                             .fingerprint = {1, ~uint64_t{0}, 4},
                             .policy = core::QueuePolicy::kBlock,
                             .identity = "me",
                             .submitted_at = kStart,
                             .sequence = uint64_t{1} << 40,
                             .redrive_of = kOtherTask,
                             .trace = core::SubmitSpan(kOtherTask)},
          dispatched,
          core::StartAnsweredBusy{dispatched, kStart + absl::Seconds(1), 6, 5},
          dispatched,
          core::StartAccepted(),
          core::TaskReturned{.sequence = 7,
                             .counts_as_attempt = true,
                             .failure = core::DispatchFailure::kAgentLost,
                             .reported = true,
                             .backoff = absl::Milliseconds(1500),
                             .error = "why"},
          core::CancelRequested(),
          core::TaskEnded{.state = core::LifecycleState::kFailed,
                          .reason = core::FailureReason::kPoison,
                          .counts_as_attempt = true,
                          .failure = core::DispatchFailure::kAgentFailed,
                          .run = run,
                          .error = "task error"},
          core::EventOnly()};
}

}  // namespace

std::vector<core::Record> Format3Records() {
  std::vector<core::Record> records = {
      core::EpochBegan{3}, core::LeasesExtended{3, absl::Minutes(5)},
      core::AgentMarked{"agent-1", true, "instance"},
      core::RequestRemembered{.identity = "me",
                              .request_id = "request",
                              .fingerprint = {5, 6, 7},
                              .queue_id = kTask,
                              .state = core::LifecycleState::kCancelled,
                              .forget_at = kStart + absl::Hours(24)}};
  uint64_t number = 0;
  for (core::TaskChange& change : Changes()) {
    core::TaskRecord record = {
        .queue_id = kTask, .number = number + 1, .change = std::move(change), .replaces = number};
    record.event = {.number = ++number + 1,
                    .kind = core::TaskEventKind::kOrphanResult,
                    .at = kStart + absl::Seconds(number),
                    .who = "agent-1",
                    .why = "because",
                    .fault = core::Fault::kCaller,
                    .place_before = 3,
                    .place_after = 4,
                    .dispatch = core::DispatchNumber(5),
                    .agent = "agent-1"};
    records.emplace_back(std::move(record));
  }
  // The events before the last one were replaced by it.
  auto& last = std::get<core::TaskRecord>(records.back());
  last.event.kind = core::TaskEventKind::kRedriven;
  last.event.number += 10;
  records.emplace_back(core::QueueSwitched{
      .paused = true,
      .draining = true,
      .pause = core::SwitchCause{"anna", "the disk is full", kStart + absl::Nanoseconds(1)},
      .drain = core::SwitchCause{"", "", kStart}});
  records.emplace_back(core::DispatchesForgotten{~uint64_t{0}});
  return records;
}

}  // namespace callboard::store
