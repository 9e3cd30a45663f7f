#ifndef CALLBOARD_SERVICES_SCHEDULER_SCHEDULER_METRICS_H_
#define CALLBOARD_SERVICES_SCHEDULER_SCHEDULER_METRICS_H_

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "libs/base/mutex.h"
#include "libs/core/job.h"
#include "libs/scheduler/scheduler.h"
#include "libs/server/server.h"
#include "libs/telemetry/metrics.h"

namespace callboard {

// Exports a scheduler's metrics, logs its events, and sets the server's readiness.
// docs/OPERATIONS.md lists the metrics and events.
//
// Thread-safe.
class SchedulerMetrics final : public scheduler::Observer {
 public:
  // Both arguments outlive this object.
  SchedulerMetrics(prometheus::Registry& metrics, server::Readiness& readiness);

  // Called before the driver gets these jobs, so that their counters exist.
  void OnJobs(absl::Span<const core::Job> jobs);
  void OnService(const absl::Status& why) override;
  void OnCommit(absl::Span<const scheduler::LedgerChange> changes, absl::Duration took) override;
  void OnNotice(const scheduler::Notice& notice) override;
  void OnStatus(const scheduler::StatusView& status) override;

  // Returns the gauges, as of the last OnStatus(). `file_refused`: the newest version of the jobs
  // file is not in use.
  std::vector<prometheus::MetricFamily> Gauges(absl::Time now, bool file_refused) const;

 private:
  prometheus::Counter& FireCounter(const std::string& job, core::FiringOutcome outcome);
  void ReportFiring(const core::Firing& firing);

  server::Readiness& readiness_;
  prometheus::Family<prometheus::Counter>& fires_;
  telemetry::CommitMetrics commits_;
  mutable base::Mutex mutex_;
  // The last logged state of the ledger, so that repeated failures are logged once.
  std::optional<absl::StatusCode> reported_status_ ABSL_GUARDED_BY(mutex_);
  std::optional<scheduler::StatusView> status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace callboard

#endif  // CALLBOARD_SERVICES_SCHEDULER_SCHEDULER_METRICS_H_
