#ifndef CALLBOARD_SERVICES_DIRECTOR_DIRECTOR_METRICS_H_
#define CALLBOARD_SERVICES_DIRECTOR_DIRECTOR_METRICS_H_

#include <prometheus/metric_family.h>
#include <prometheus/registry.h>

#include <optional>
#include <utility>
#include <vector>

#include "libs/base/mutex.h"
#include "libs/director/observer.h"
#include "libs/ports/telemetry.h"
#include "libs/server/server.h"
#include "services/director/queue_metrics.h"

namespace callboard {

// Observes a director and reports its state and its work in logs, in the server's readiness, in
// metrics and in spans. docs/OPERATIONS.md lists all of them.
//
// Thread-safe.
class DirectorMetrics final : public director::Observer {
 public:
  // `telemetry` receives the spans of tasks; null: there are no spans. All arguments outlive this
  // object.
  DirectorMetrics(const QueueMetrics::Registries& registries, server::Readiness& readiness,
                  ports::Telemetry* telemetry = nullptr);

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

  // Returns the gauges as of the last observation. While the store is away, only its state is known
  // and returned.
  std::vector<prometheus::MetricFamily> Gauges(absl::Time now) const;

 private:
  server::Readiness& readiness_;
  ports::Telemetry* const telemetry_;
  QueueMetrics metrics_;
  mutable base::Mutex mutex_;
  // The last logged state of the store. A state is logged once, not with every attempt to open it.
  std::optional<std::pair<director::Service, absl::StatusCode>> last_logged_
      ABSL_GUARDED_BY(mutex_);
  std::optional<director::QueueLevels> levels_ ABSL_GUARDED_BY(mutex_);
  director::AgentCounts agents_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace callboard

#endif  // CALLBOARD_SERVICES_DIRECTOR_DIRECTOR_METRICS_H_
