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
#include "libs/core/trace_context.h"
#include "libs/director/agent_view.h"
#include "libs/director/task_step.h"

namespace callboard::director {

// What a director does for who asks: nothing while its store is away, only reads on a full disk.
enum class Service { kNone, kReadOnly, kFull };

// How full the queue is.
struct QueueLevels {
  uint64_t pending = 0;
  uint64_t in_flight = 0;
  // Callers at the door.
  uint64_t waiting = 0;
  // 0 when there is no bound.
  uint64_t max_size = 0;
  // Request ids that outlive their task.
  uint64_t remembered_requests = 0;
  // When the pending task that was accepted first was; the future when none is pending.
  absl::Time oldest = absl::InfiniteFuture();

  friend bool operator==(const QueueLevels&, const QueueLevels&) = default;
};

// Who submits, as far as it may be shown: never a prompt or an environment.
struct SubmitOrigin {
  // As it was sent: nobody has checked it.
  std::string source = {};
  std::string source_job = {};
  std::string identity = {};
  absl::Time arrived = absl::InfinitePast();
  // Its caller's, or the call's own; none when nobody traces it.
  core::SpanContext trace = {};
};

// A cancel, and where the task was when it came.
struct CancelledTask {
  CancelPhase phase = CancelPhase::kWaiting;
  // None of a caller that still waited for a place.
  core::QueueId queue_id = {};
  std::string who = {};
  // The dispatch under way, and its agent; none before.
  core::DispatchNumber dispatch = {};
  std::string agent = {};
  absl::Time at = absl::InfinitePast();
  // Complete while it waits; later only the time and the trace are known.
  SubmitOrigin origin = {};
};

// How many agents there are of each state; those of which there are none may be left out.
using AgentCounts = std::map<AgentState, size_t>;

// Hears how a director fares and what it does, on its threads, of which it must block none.
class Observer {
 public:
  virtual ~Observer() = default;

  // After every opening of the store, and when it fails; `why` when it is less than kFull.
  virtual void OnService(Service service, const absl::Status& why) = 0;
  // A batch is on disk.
  virtual void OnCommit(size_t records, absl::Duration took) = 0;
  // What was in it, once everybody concerned was told: `steps` has every change of a task.
  virtual void OnTurn(absl::Span<const core::Record> records, absl::Span<const TaskStep> steps) = 0;
  // Results that were thrown away, beside those of which a record says so; and unknown runs.
  virtual void OnOrphans(absl::Span<const OrphanResult> orphans) = 0;

  // ---- Hooks with the task, for counters, histograms and spans ----

  // A task was given to an agent. Before OnTurn().
  virtual void OnDispatch(const core::TaskRecord& /*record*/, const TaskStep& /*step*/) {}
  // A submit was refused, or nobody knows what became of it.
  virtual void OnReject(const absl::Status& /*why*/, const SubmitOrigin& /*origin*/) {}
  // A task was cancelled, or its caller left while it waited for a place. Once per task, when the
  // cancel is asked for: a run may end later. Before OnTurn().
  virtual void OnCancel(const CancelledTask& /*task*/) {}

  // ---- With counts only, for gauges ----

  // With every turn, before anybody hears of it, and when somebody begins to wait or leaves.
  virtual void OnStateChange(const QueueLevels& levels) = 0;
  // About every second.
  virtual void OnAgents(const AgentCounts& agents) = 0;
};

}  // namespace callboard::director

#endif  // CALLBOARD_LIBS_DIRECTOR_OBSERVER_H_
