#ifndef CALLBOARD_SERVICES_DIRECTOR_QUEUE_METRICS_H_
#define CALLBOARD_SERVICES_DIRECTOR_QUEUE_METRICS_H_

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/histogram.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>

#include <cstddef>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/core/record.h"
#include "libs/director/observer.h"
#include "libs/director/task_step.h"
#include "libs/server/commit_metrics.h"
#include "services/director/queue_events.h"

namespace callboard {

// Counts what a director does. docs/OPERATIONS.md says what each number means. Thread-safe.
class QueueMetrics {
 public:
  // `metrics` outlives it.
  explicit QueueMetrics(prometheus::Registry& metrics);

  void Count(const core::TaskRecord& record, const director::TaskStep& step);
  // The result of a dispatch that no longer counts was thrown away.
  void CountOrphanResult();
  // A batch is on disk.
  void CountCommit(size_t records, absl::Duration took);
  void CountRefused(const absl::Status& why);

 private:
  using End = std::pair<core::TaskState, std::optional<core::FailureReason>>;

  // All the registry's. What can be named beforehand is there from the start, at 0.
  std::map<End, prometheus::Counter*> tasks_;
  std::map<DispatchOutcome, prometheus::Counter*> dispatches_;
  prometheus::Family<prometheus::Counter>& refused_;
  prometheus::Histogram& wait_seconds_;
  prometheus::Histogram& waiting_seconds_;
  prometheus::Histogram& pending_seconds_;
  prometheus::Histogram& dispatch_seconds_;
  prometheus::Histogram& run_seconds_;
  server::CommitMetrics commits_;
  prometheus::Counter& orphan_results_;
};

// How the queue and its agents stand, as callboard_queue_* and callboard_agents{state}.
std::vector<prometheus::MetricFamily> QueueGauges(const director::QueueLevels& levels,
                                                  const director::AgentCounts& agents,
                                                  absl::Time now);

// What the store is, in the words of the log: open, full or away.
prometheus::MetricFamily StoreGauge(director::Service service);

}  // namespace callboard

#endif  // CALLBOARD_SERVICES_DIRECTOR_QUEUE_METRICS_H_
