#include "services/agent/agent_watch.h"

#include <string>
#include <vector>

#include "libs/agent/run_end_name.h"
#include "libs/base/error.h"
#include "libs/base/log.h"
#include "libs/server/gauge.h"

namespace callboard {

namespace {

using base::LogField;
using base::LogLevel;
using core::RunResult;

// The names by which a run is found in the logs of agent and director.
std::vector<LogField> Names(const core::FenceToken& token) {
  return {{"task_id", core::TaskIdText(token.queue_id, token.dispatch)},
          {"queue_id", core::ToString(token.queue_id)}};
}

}  // namespace

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

void AgentWatch::OnRunAccepted(const ports::RunOrder& order) {
  base::LogAt(LogLevel::kInfo, "agent", "run_accepted", [&order] {
    std::vector<LogField> fields = Names(order.token);
    fields.push_back({"direct", order.token.director_epoch == 0});
    if (order.trace != core::SpanContext()) {
      fields.push_back({"trace_id", core::ToString(order.trace.trace_id)});
    }
    return fields;
  });
}

void AgentWatch::OnRunStarted(const core::FenceToken& token, int64_t pid) {
  base::LogAt(LogLevel::kInfo, "agent", "run_started", [&token, pid] {
    std::vector<LogField> fields = Names(token);
    fields.push_back({"pid", pid});
    return fields;
  });
}

void AgentWatch::OnRunEnded(const core::FenceToken& token, const RunResult& result) {
  runs_.at(result.end)->Increment();
  const auto fields = [&] {
    std::vector<LogField> fields = Names(token);
    fields.push_back({"outcome", agent::Name(result.end)});
    if (result.exit_code.has_value()) fields.push_back({"exit_code", *result.exit_code});
    if (!result.signal.empty()) fields.push_back({"signal", result.signal});
    if (!result.error.empty()) fields.push_back({"error", result.error});
    return fields;
  };
  if (result.end == RunResult::End::kTimedOut || result.end == RunResult::End::kCancelled) {
    base::LogAt(LogLevel::kInfo, "agent", "run_killed", fields);
  } else {
    base::LogAt(LogLevel::kInfo, "agent", "run_ended", fields);
  }
}

void AgentWatch::OnCannotRun(const absl::Status& why) {
  base::LogWarning("agent", "cannot_run",
                   {{"reason", base::DetailsOf(why).reason}, {"error", why.message()}});
}

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
  return {slots,
          used,
          server::Gauge("callboard_agent_unacknowledged_results",
                        "Results that no director has acknowledged.",
                        static_cast<double>(levels.unacknowledged_results)),
          server::Gauge("callboard_agent_unknown_items",
                        "Items from directors that were ignored because this version does not "
                        "know them.",
                        static_cast<double>(levels.unknown_items)),
          server::Gauge("callboard_agent_connected", "Whether a director has a Session with it.",
                        levels.connected ? 1 : 0),
          server::Gauge("callboard_agent_draining", "Whether it takes no more tasks.",
                        levels.draining ? 1 : 0)};
}

}  // namespace callboard
