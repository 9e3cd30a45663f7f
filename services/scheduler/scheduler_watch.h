#ifndef CALLBOARD_SERVICES_SCHEDULER_SCHEDULER_WATCH_H_
#define CALLBOARD_SERVICES_SCHEDULER_SCHEDULER_WATCH_H_

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
#include "libs/core/firing.h"
#include "libs/core/job.h"
#include "libs/scheduler/scheduler.h"
#include "libs/server/commit_metrics.h"
#include "libs/server/readiness.h"

namespace callboard {

// Shows how a scheduler fares and what it does: in logs, in the server's health, and in metrics.
// docs/OPERATIONS.md lists them.
//
// Thread-safe.
class SchedulerWatch final : public scheduler::Observer {
 public:
  // Both outlive it.
  SchedulerWatch(prometheus::Registry& metrics, server::Readiness& readiness);

  // These can be fired from now on.
  void OnJobs(absl::Span<const core::Job> jobs);
  void OnService(const absl::Status& why) override;
  void OnCommit(absl::Span<const scheduler::LedgerChange> changes, absl::Duration took) override;
  void OnNotice(const scheduler::Notice& notice) override;
  void OnStatus(const scheduler::StatusView& status) override;

  // What is not counted but looked at, as it was last seen. `file_refused`: whether the newest
  // version of the jobs file is not in use.
  std::vector<prometheus::MetricFamily> Gauges(absl::Time now, bool file_refused) const;

 private:
  prometheus::Counter& Fires(const std::string& job, core::FiringOutcome outcome);
  void Show(const core::Firing& firing);

  server::Readiness& readiness_;
  prometheus::Family<prometheus::Counter>& fires_;
  server::CommitMetrics commits_;
  mutable base::Mutex mutex_;
  // What was said last, so that it is said once and not with every attempt.
  std::optional<absl::StatusCode> said_ ABSL_GUARDED_BY(mutex_);
  std::optional<scheduler::StatusView> status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace callboard

#endif  // CALLBOARD_SERVICES_SCHEDULER_SCHEDULER_WATCH_H_
