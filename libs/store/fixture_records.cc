#include "libs/store/fixture_records.h"

#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "absl/time/time.h"

namespace callboard::store {
namespace {

constexpr core::QueueId kTask = core::QueueId(core::Ulid(0x018c'2f3a'0000'1234, 0x5678));
constexpr core::QueueId kOtherTask = core::QueueId(core::Ulid(0x018c'2f3a'0000'1234, 0x9abc));
const absl::Time kStart = absl::FromUnixNanos(1'700'000'000'123'456'789);

core::TaskSpec Spec() {
  core::TaskSpec spec;
  spec.prompt = std::string("line\n\0bytes", 11);
  spec.payload = "payload";
  spec.model = "model";
  spec.timeout = absl::Seconds(30);
  spec.session_id = "session";
  spec.project = core::Project{"name", "path"};
  spec.env = {{"A", "1"}, {"B", ""}};
  spec.thinking = false;
  spec.request_id = "request";
  spec.source = core::TaskSource::kScheduler;
  spec.source_job = "job";
  spec.job_type = "type";
  spec.labels = {{"team", "a"}};
  spec.required_labels = {{"os", "linux"}};
  spec.lane = "gpu";
  spec.priority = core::Priority::kHigh;
  spec.fairness_key = "key";
  spec.cost_units = 7;
  spec.constraints = {core::Constraint::kNetworkHeavy, core::Constraint::kCpuHeavy};
  spec.run_when = core::RunWhen::kQuiet;
  spec.time_sensitive = true;
  spec.earliest_start_at = absl::FromUnixSeconds(-30'000'000'000);
  spec.deadline_at = absl::FromUnixSeconds(30'000'000'000) + absl::Nanoseconds(1);
  spec.expected_duration = absl::Seconds(9);
  spec.max_attempts = 4;
  spec.retry_on = {{core::RetryRule::Kind::kExitCode, 3, ""},
                   {core::RetryRule::Kind::kAnyExit, 0, ""},
                   {core::RetryRule::Kind::kSignal, 0, "SIGKILL"},
                   {core::RetryRule::Kind::kTimeout, 0, ""}};
  spec.on_agent_lost = core::OnAgentLost::kRequeue;
  spec.overlap = core::Overlap{"overlap", core::OverlapPolicy::kQueueOne, 2};
  return spec;
}

std::vector<core::TaskChange> Changes() {
  const core::TaskDispatched dispatched = {core::DispatchNumber(1), 2, "instance", "grpc://a:1"};
  const core::RunResult run = {.end = core::RunResult::End::kFailed,
                               .exit_code = -1,
                               .signal = "SIGTERM",
                               .result = std::string("\0\xff", 2),
                               .result_truncated = true,
                               .error = "run error"};
  return {core::TaskAdmitted{.spec = std::make_shared<const core::TaskSpec>(Spec()),
                             .fingerprint = {1, ~uint64_t{0}},
                             .policy = core::QueuePolicy::kBlock,
                             .identity = "me",
                             .submitted_at = kStart,
                             .sequence = uint64_t{1} << 40,
                             .redrive_of = kOtherTask},
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

// Returns the records that both formats have, with the event numbers that format 1 derives from the
// keys.
std::vector<core::Record> CommonRecords() {
  std::vector<core::Record> records = {
      core::EpochBegan{3}, core::LeasesExtended{3, absl::Minutes(5)},
      core::AgentMarked{"agent-1", true, "instance"},
      core::RequestRemembered{.identity = "me",
                              .request_id = "request",
                              .fingerprint = {5, 6},
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
  return records;
}

}  // namespace

std::vector<core::Record> Format1Records() {
  std::vector<core::Record> records = CommonRecords();
  records.emplace_back(core::QueueSwitched{true, true});
  return records;
}

std::vector<core::Record> Format2Records() {
  std::vector<core::Record> records = CommonRecords();
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
