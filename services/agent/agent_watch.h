#ifndef CALLBOARD_SERVICES_AGENT_AGENT_WATCH_H_
#define CALLBOARD_SERVICES_AGENT_AGENT_WATCH_H_

#include <prometheus/counter.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>

#include <map>
#include <vector>

#include "libs/agent/observer.h"
#include "libs/base/mutex.h"

namespace callboard {

// Shows in metrics and log what an agent does. docs/OPERATIONS.md lists both.
//
// Thread-safe.
class AgentWatch final : public agent::Observer {
 public:
  // `metrics` outlives it.
  explicit AgentWatch(prometheus::Registry& metrics);

  void OnRunAccepted(const ports::RunOrder& order) override;
  void OnRunStarted(const core::FenceToken& token, int64_t pid) override;
  void OnRunEnded(const core::FenceToken& token, const core::RunResult& result) override;
  void OnCannotRun(const absl::Status& why) override;
  void OnLevels(const agent::AgentLevels& levels) override;

  // What is not counted but looked at, as it was last seen.
  std::vector<prometheus::MetricFamily> Gauges() const;

 private:
  // All the registry's, and there from the start.
  std::map<core::RunResult::End, prometheus::Counter*> runs_;
  mutable base::Mutex mutex_;
  agent::AgentLevels levels_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace callboard

#endif  // CALLBOARD_SERVICES_AGENT_AGENT_WATCH_H_
