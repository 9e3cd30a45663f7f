#ifndef CALLBOARD_SERVICES_AGENT_AGENT_METRICS_H_
#define CALLBOARD_SERVICES_AGENT_AGENT_METRICS_H_

#include <prometheus/counter.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>

#include <map>
#include <vector>

#include "libs/agent/observer.h"
#include "libs/base/mutex.h"

namespace callboard {

// Exports an agent's metrics and logs its events. docs/OPERATIONS.md lists both.
//
// Thread-safe.
class AgentMetrics final : public agent::Observer {
 public:
  // `metrics` outlives it.
  explicit AgentMetrics(prometheus::Registry& metrics);

  void OnRunAccepted(const ports::RunRequest& request) override;
  void OnRunStarted(const core::FenceToken& token, int64_t pid) override;
  void OnRunEnded(const core::FenceToken& token, const core::RunResult& result) override;
  void OnCannotRun(const absl::Status& why) override;
  void OnTurnEnd(const agent::AgentGauges& gauges) override;

  // Returns the gauges, as of the end of the last turn.
  std::vector<prometheus::MetricFamily> Gauges() const;

 private:
  // Owned by the registry. Contains every outcome from the start, so that counters begin at zero.
  std::map<core::RunResult::End, prometheus::Counter*> runs_;
  mutable base::Mutex mutex_;
  agent::AgentGauges gauges_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace callboard

#endif  // CALLBOARD_SERVICES_AGENT_AGENT_METRICS_H_
