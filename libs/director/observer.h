#ifndef CALLBOARD_LIBS_DIRECTOR_OBSERVER_H_
#define CALLBOARD_LIBS_DIRECTOR_OBSERVER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "libs/core/ids.h"
#include "libs/core/record.h"
#include "libs/core/trace.h"
#include "libs/director/fleet.h"
#include "libs/director/task_step.h"

namespace callboard::director {

// Service level of a director: none while the store is unavailable, reads only on a full disk.
enum class Service { kNone, kReadOnly, kFull };

// Fill levels of the queue.
struct QueueLevels {
  uint64_t pending = 0;
  uint64_t in_flight = 0;
  // Callers that wait for a place.
  uint64_t waiting = 0;
  // 0: unbounded.
  uint64_t max_size = 0;
  // Request ids that outlive their task.
  uint64_t remembered_requests = 0;
  // Admission time of the oldest pending task; the infinite future when no task is pending.
  absl::Time oldest = absl::InfiniteFuture();

  friend bool operator==(const QueueLevels&, const QueueLevels&) = default;
};

// Origin of a submit, restricted to what may be logged: never a prompt or an environment.
struct SubmitOrigin {
  // As the caller sent it, without validation.
  std::string source = {};
  std::string source_job = {};
  std::string identity = {};
  absl::Time arrived = absl::InfinitePast();
  // Span of the caller, or of the call; none without tracing.
  core::SpanContext trace = {};
};

// A cancel, and the state of the task at that time.
struct CancelledTask {
  CancelPhase phase = CancelPhase::kWaiting;
  // None when the caller still waited for a place.
  core::QueueId queue_id = {};
  std::string who = {};
  // The current dispatch and its agent; empty before the first dispatch.
  core::DispatchNumber dispatch = {};
  std::string agent = {};
  absl::Time at = absl::InfinitePast();
  // Complete while the caller waits; later only the time and the trace are known.
  SubmitOrigin origin = {};
};

// Number of agents by state. States without agents may be missing.
using AgentCounts = std::map<AgentState, size_t>;

// Receives events of a director, on the director's threads, which it must not block.
class Observer {
 public:
  virtual ~Observer() = default;

  // After every attempt to open the store, and when the store fails. `why` is an error unless the
  // level is kFull.
  virtual void OnService(Service service, const absl::Status& why) = 0;
  // A batch is on disk.
  virtual void OnCommit(size_t records, absl::Duration took) = 0;
  // The turn is flushed: replies and messages are sent. `steps` has every change of a task.
  virtual void OnTurn(absl::Span<const core::Record> records, absl::Span<const TaskStep> steps) = 0;
  // Results that were discarded without a record, and unknown runs.
  virtual void OnOrphans(absl::Span<const OrphanResult> orphans) = 0;

  // ---- Per task, for counters, histograms and spans ----

  // A task was dispatched. Called before OnTurn().
  virtual void OnDispatch(const core::TaskRecord& /*record*/, const TaskStep& /*step*/) {}
  // A submit was rejected, or its outcome is unknown.
  virtual void OnReject(const absl::Status& /*why*/, const SubmitOrigin& /*origin*/) {}
  // A task was cancelled, or its caller left while it waited for a place. Called once per task,
  // when the cancel is requested; a run may end later. Called before OnTurn().
  virtual void OnCancel(const CancelledTask& /*task*/) {}

  // ---- Counts only, for gauges ----

  // Called in every turn before anything is sent, and when a caller starts or stops waiting.
  virtual void OnStateChange(const QueueLevels& levels) = 0;
  // Called about once per second.
  virtual void OnAgents(const AgentCounts& agents) = 0;
};

}  // namespace callboard::director

#endif  // CALLBOARD_LIBS_DIRECTOR_OBSERVER_H_
