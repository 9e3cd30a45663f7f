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
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "libs/core/record.h"
#include "libs/director/observer.h"
#include "libs/director/task_step.h"
#include "libs/telemetry/metrics.h"
#include "services/director/task_log.h"

namespace callboard {

// Counters and histograms of a director. docs/OPERATIONS.md describes each of them. Thread-safe.
class QueueMetrics {
 public:
  // The registry of the metrics, and the exemplars that link them to traces (null: no exemplars).
  // Both outlive the QueueMetrics.
  struct Registries {
    prometheus::Registry& metrics;
    telemetry::Exemplars* exemplars = nullptr;
  };

  explicit QueueMetrics(const Registries& registries);

  void Count(const core::TaskRecord& record, const director::TaskStep& step);
  // Counts a batch that is on disk.
  void CountCommit(size_t records, absl::Duration took);
  void CountRejectedSubmit(const absl::Status& why);
  void CountCancel(director::CancelPhase phase) { cancels_.at(phase)->Increment(); }
  // Counts an orphan result without a record; Count() counts those with one.
  void CountOrphan() { orphan_results_.Increment(); }

 private:
  // A histogram of durations.
  class DurationHistogram {
   public:
    DurationHistogram(const Registries& registries, const std::string& name,
                      const std::string& help,
                      const prometheus::Histogram::BucketBoundaries& buckets);

    // Adds `time` and, if `trace` is sampled, an exemplar for it. Does nothing if `time` is absent.
    void Observe(const std::optional<absl::Duration>& time, absl::Time at,
                 const core::SpanContext& trace);

   private:
    const std::string name_;
    // Owned by the registry.
    prometheus::Histogram& histogram_;
    telemetry::Exemplars* const exemplars_;
  };

  using TaskEnd = std::pair<core::LifecycleState, std::optional<core::FailureReason>>;

  // Owned by the registry. Counters whose labels are known in advance exist from the start, at 0.
  std::map<TaskEnd, prometheus::Counter*> tasks_;
  std::map<DispatchOutcome, prometheus::Counter*> dispatches_;
  std::map<director::CancelPhase, prometheus::Counter*> cancels_;
  prometheus::Family<prometheus::Counter>& rejected_submits_;
  DurationHistogram wait_seconds_;
  DurationHistogram waiting_seconds_;
  DurationHistogram pending_seconds_;
  DurationHistogram dispatch_seconds_;
  DurationHistogram run_seconds_;
  telemetry::CommitMetrics commits_;
  prometheus::Counter& orphan_results_;
};

// Returns the state of the queue and its agents as callboard_queue_* and callboard_agents{state}.
std::vector<prometheus::MetricFamily> QueueGauges(const director::QueueLevels& levels,
                                                  const director::AgentCounts& agents,
                                                  absl::Time now);

// Returns the state of the store, with the names that the log uses: open, full or away.
prometheus::MetricFamily StoreGauge(director::Service service);

}  // namespace callboard

#endif  // CALLBOARD_SERVICES_DIRECTOR_QUEUE_METRICS_H_
