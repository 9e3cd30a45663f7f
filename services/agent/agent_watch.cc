#include "services/agent/agent_watch.h"

#include "libs/agent/run_end_name.h"
#include "libs/server/gauge.h"

namespace callboard {

using core::RunResult;

AgentWatch::AgentWatch(prometheus::Registry& metrics) {
  auto& runs = prometheus::BuildCounter()
                   .Name("callboard_agent_runs_total")
                   .Help("Runs that have ended, by how.")
                   .Register(metrics);
  for (const RunResult::End end :
       {RunResult::End::kCompleted, RunResult::End::kFailed, RunResult::End::kTimedOut,
        RunResult::End::kCancelled, RunResult::End::kNotStarted}) {
    runs_[end] = &runs.Add({{"outcome", agent::Name(end)}});
  }
}

void AgentWatch::OnRunEnded(RunResult::End end) { runs_.at(end)->Increment(); }

void AgentWatch::OnLevels(const agent::AgentLevels& levels) {
  base::MutexLock lock(mutex_);
  levels_ = levels;
}

std::vector<prometheus::MetricFamily> AgentWatch::Gauges() const {
  agent::AgentLevels levels;
  {
    base::MutexLock lock(mutex_);
    levels = levels_;
  }
  prometheus::MetricFamily slots =
      server::Gauges("callboard_agent_slots", "Tasks that may run at once, by lane.");
  prometheus::MetricFamily used =
      server::Gauges("callboard_agent_slots_used", "Tasks that run, by lane.");
  for (const auto& [lane, load] : levels.lanes) {
    server::AddGauge("lane", lane, load.slots, slots);
    server::AddGauge("lane", lane, load.used, used);
  }
  return {slots, used,
          server::Gauge("callboard_agent_unacknowledged_results",
                        "Results that no director has acknowledged.",
                        static_cast<double>(levels.unacknowledged_results)),
          server::Gauge("callboard_agent_connected", "Whether a director has a Session with it.",
                        levels.connected ? 1 : 0),
          server::Gauge("callboard_agent_draining", "Whether it takes no more tasks.",
                        levels.draining ? 1 : 0)};
}

}  // namespace callboard
