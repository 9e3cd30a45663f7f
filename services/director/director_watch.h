#ifndef CALLBOARD_SERVICES_DIRECTOR_DIRECTOR_WATCH_H_
#define CALLBOARD_SERVICES_DIRECTOR_DIRECTOR_WATCH_H_

#include <prometheus/metric_family.h>
#include <prometheus/registry.h>

#include <optional>
#include <utility>
#include <vector>

#include "libs/base/mutex.h"
#include "libs/director/observer.h"
#include "libs/server/readiness.h"
#include "services/director/queue_metrics.h"

namespace callboard {

// Shows how a director fares and what it does: in logs, in the server's health, and in metrics.
// docs/OPERATIONS.md lists them.
//
// Thread-safe.
class DirectorWatch final : public director::Observer {
 public:
  // All outlive it.
  DirectorWatch(const QueueMetrics::Registries& registries, server::Readiness& readiness);

  void OnService(director::Service service, const absl::Status& why) override;
  void OnCommit(size_t records, absl::Duration took) override;
  void OnTurn(absl::Span<const core::Record> records,
              absl::Span<const director::TaskStep> steps) override;
  void OnOrphans(absl::Span<const director::OrphanResult> orphans) override;
  void OnDispatch(const core::TaskRecord& record, const director::TaskStep& step) override;
  void OnReject(const absl::Status& why, const director::SubmitOrigin& origin) override;
  void OnCancel(const director::CancelledTask& task) override;
  void OnStateChange(const director::QueueLevels& levels) override;
  void OnAgents(const director::AgentCounts& agents) override;

  // What is not counted but looked at, as it was last seen; only the state of the store while
  // the director knows nothing else.
  std::vector<prometheus::MetricFamily> Gauges(absl::Time now) const;

 private:
  server::Readiness& readiness_;
  QueueMetrics metrics_;
  mutable base::Mutex mutex_;
  // What was said last, so that it is said once and not with every attempt.
  std::optional<std::pair<director::Service, absl::StatusCode>> said_ ABSL_GUARDED_BY(mutex_);
  std::optional<director::QueueLevels> levels_ ABSL_GUARDED_BY(mutex_);
  director::AgentCounts agents_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace callboard

#endif  // CALLBOARD_SERVICES_DIRECTOR_DIRECTOR_WATCH_H_
