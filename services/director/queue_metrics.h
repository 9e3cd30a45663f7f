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
#include "libs/server/commit_metrics.h"
#include "libs/server/exemplars.h"
#include "services/director/queue_events.h"

namespace callboard {

// Counts what a director does. docs/OPERATIONS.md says what each number means. Thread-safe.
class QueueMetrics {
 public:
  // What shows the numbers, and which traces they come from: to nobody, when null. Both outlive it.
  struct Registries {
    prometheus::Registry& metrics;
    server::Exemplars* exemplars = nullptr;
  };

  explicit QueueMetrics(const Registries& registries);

  void Count(const core::TaskRecord& record, const director::TaskStep& step);
  // A batch is on disk.
  void CountCommit(size_t records, absl::Duration took);
  void CountRefused(const absl::Status& why);
  void CountCancel(director::CancelPhase phase) { cancels_.at(phase)->Increment(); }
  // Beside those of which Count() is told.
  void CountOrphan() { orphan_results_.Increment(); }

 private:
  // A histogram of how long something takes.
  class Times {
   public:
    Times(const Registries& registries, const std::string& name, const std::string& help,
          const prometheus::Histogram::BucketBoundaries& buckets);

    // Nothing, when there is no time.
    // `trace`: the one that shows how it came about.
    void Observe(const std::optional<absl::Duration>& time, absl::Time at,
                 const core::SpanContext& trace);

   private:
    const std::string name_;
    // The registry's.
    prometheus::Histogram& histogram_;
    server::Exemplars* const exemplars_;
  };

  using End = std::pair<core::TaskState, std::optional<core::FailureReason>>;

  // All the registry's. What can be named beforehand is there from the start, at 0.
  std::map<End, prometheus::Counter*> tasks_;
  std::map<DispatchOutcome, prometheus::Counter*> dispatches_;
  std::map<director::CancelPhase, prometheus::Counter*> cancels_;
  prometheus::Family<prometheus::Counter>& refused_;
  Times wait_seconds_;
  Times waiting_seconds_;
  Times pending_seconds_;
  Times dispatch_seconds_;
  Times run_seconds_;
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
