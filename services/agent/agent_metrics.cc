#include "services/agent/agent_metrics.h"

#include <string>
#include <vector>

#include "libs/agent/observer.h"
#include "libs/base/error.h"
#include "libs/base/log.h"
#include "libs/telemetry/metrics.h"

namespace callboard {

namespace {

using base::LogField;
using base::LogLevel;
using core::RunResult;

// Returns the fields that identify a run in the logs of agent and director.
std::vector<LogField> TokenFields(const core::FenceToken& token) {
  return {{"task_id", core::TaskIdText(token.queue_id, token.dispatch)},
          {"queue_id", core::ToString(token.queue_id)}};
}

}  // namespace

AgentMetrics::AgentMetrics(prometheus::Registry& metrics) {
  auto& runs = prometheus::BuildCounter()
                   .Name("callboard_agent_runs_total")
                   .Help("Runs that have ended, by outcome.")
                   .Register(metrics);
  for (const RunResult::End end :
       {RunResult::End::kCompleted, RunResult::End::kFailed, RunResult::End::kTimedOut,
        RunResult::End::kCancelled, RunResult::End::kNotStarted}) {
    runs_[end] = &runs.Add({{"outcome", core::Name(end)}});
  }
}

void AgentMetrics::OnRunAccepted(const ports::RunRequest& request) {
  base::LogAt(LogLevel::kInfo, "agent", "run_accepted", [&request] {
    std::vector<LogField> fields = TokenFields(request.token);
    fields.push_back({"direct", request.token.director_epoch == 0});
    if (request.trace != core::SpanContext()) {
      fields.push_back({"trace_id", core::ToString(request.trace.trace_id)});
    }
    return fields;
  });
}

void AgentMetrics::OnRunStarted(const core::FenceToken& token, int64_t pid) {
  base::LogAt(LogLevel::kInfo, "agent", "run_started", [&token, pid] {
    std::vector<LogField> fields = TokenFields(token);
    fields.push_back({"pid", pid});
    return fields;
  });
}

void AgentMetrics::OnRunEnded(const core::FenceToken& token, const RunResult& result) {
  runs_.at(result.end)->Increment();
  const auto fields = [&] {
    std::vector<LogField> fields = TokenFields(token);
    fields.push_back({"outcome", core::Name(result.end)});
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

void AgentMetrics::OnCannotRun(const absl::Status& why) {
  base::LogWarning("agent", "cannot_run",
                   {{"reason", base::GetErrorDetails(why).reason}, {"error", why.message()}});
}

void AgentMetrics::OnTurnEnd(const agent::AgentGauges& gauges) {
  base::MutexLock lock(mutex_);
  gauges_ = gauges;
}

std::vector<prometheus::MetricFamily> AgentMetrics::Gauges() const {
  agent::AgentGauges gauges;
  {
    base::MutexLock lock(mutex_);
    gauges = gauges_;
  }
  prometheus::MetricFamily slots =
      telemetry::MakeGaugeFamily("callboard_agent_slots", "Slots for tasks, by lane.");
  prometheus::MetricFamily used =
      telemetry::MakeGaugeFamily("callboard_agent_slots_used", "Slots in use, by lane.");
  for (const auto& [lane, load] : gauges.lanes) {
    telemetry::AddGaugeValue("lane", lane, load.slots, slots);
    telemetry::AddGaugeValue("lane", lane, load.used, used);
  }
  return {
      slots,
      used,
      telemetry::MakeGauge("callboard_agent_unacknowledged_results",
                           "Results that no director has acknowledged.",
                           static_cast<double>(gauges.unacknowledged_results)),
      telemetry::MakeGauge("callboard_agent_unknown_items",
                           "Items from directors that were ignored because this version does not "
                           "know them.",
                           static_cast<double>(gauges.unknown_items)),
      telemetry::MakeGauge("callboard_agent_connected",
                           "Whether a director has a Session with the agent.",
                           gauges.connected ? 1 : 0),
      telemetry::MakeGauge("callboard_agent_draining",
                           "Whether the agent is draining and takes no more tasks.",
                           gauges.draining ? 1 : 0)};
}

}  // namespace callboard
