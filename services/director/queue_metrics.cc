#include "services/director/queue_metrics.h"

#include <algorithm>
#include <string>
#include <variant>

#include "absl/strings/str_cat.h"
#include "libs/telemetry/metrics.h"
#include "libs/wire/enums.h"
#include "services/director/query_messages.h"

namespace callboard {
namespace {

using core::LifecycleState;
using prometheus::Counter;
using prometheus::Histogram;

// In seconds: from an idle queue to one that is hours behind.
const Histogram::BucketBoundaries kWaitBuckets = {0.001, 0.01, 0.1, 0.5, 1,    5,
                                                  15,    60,   300, 900, 3600, 14400};
// In seconds: from an agent in the same rack to one that never answers.
const Histogram::BucketBoundaries kAnswerBuckets = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                                    0.1,    0.5,   1,      5,     30,   75};
const Histogram::BucketBoundaries kRunBuckets = {0.01, 0.1, 0.5, 1,    5,    15,
                                                 60,   300, 900, 1800, 3600, 14400};
prometheus::Family<Counter>& NewCounters(prometheus::Registry& metrics, const std::string& name,
                                         const std::string& help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(metrics);
}

}  // namespace

QueueMetrics::DurationHistogram::DurationHistogram(const Registries& registries,
                                                   const std::string& name, const std::string& help,
                                                   const Histogram::BucketBoundaries& buckets)
    : name_(name),
      histogram_(prometheus::BuildHistogram()
                     .Name(name)
                     .Help(help)
                     .Register(registries.metrics)
                     .Add({}, buckets)),
      exemplars_(registries.exemplars) {
  if (exemplars_ != nullptr) exemplars_->AddHistogram(name, buckets);
}

void QueueMetrics::DurationHistogram::Observe(const std::optional<absl::Duration>& time,
                                              absl::Time at, const core::SpanContext& trace) {
  if (!time.has_value()) return;
  const double seconds = absl::ToDoubleSeconds(*time);
  histogram_.Observe(seconds);
  if (exemplars_ == nullptr || !trace.sampled) return;
  exemplars_->Update(name_, {trace.trace_id, seconds, at});
}

QueueMetrics::QueueMetrics(const Registries& registries)
    : rejected_submits_(NewCounters(registries.metrics, "callboard_submit_rejected_total",
                                    "Submits that were rejected, by reason.")),
      wait_seconds_(registries, "callboard_queue_wait_seconds",
                    "From the arrival of a submit, or the return of a task to the "
                    "queue, until its dispatch.",
                    kWaitBuckets),
      waiting_seconds_(registries, "callboard_queue_waiting_seconds",
                       "From the arrival of a submit until it was accepted.", kWaitBuckets),
      pending_seconds_(registries, "callboard_queue_pending_seconds",
                       "From entering the queue until the dispatch.", kWaitBuckets),
      dispatch_seconds_(registries, "callboard_dispatch_seconds",
                        "From the dispatch until it was answered or abandoned.", kAnswerBuckets),
      run_seconds_(registries, "callboard_run_seconds",
                   "From the agent's acceptance until the run ended.", kRunBuckets),
      commits_(registries.metrics),
      orphan_results_(NewCounters(registries.metrics, "callboard_orphan_results_total",
                                  "Discarded results of dispatches that no longer counted.")
                          .Add({})) {
  for (const absl::string_view reason : kRejectReasons)
    rejected_submits_.Add({{"reason", std::string(reason)}});
  auto& tasks = NewCounters(registries.metrics, "callboard_tasks_total",
                            "Tasks that have ended, by state and reason.");
  const auto add = [&](LifecycleState state, std::optional<core::FailureReason> reason) {
    tasks_[{state, reason}] =
        &tasks.Add({{"state", Name(state)}, {"reason", reason.has_value() ? Name(*reason) : ""}});
  };
  add(LifecycleState::kCompleted, std::nullopt);
  add(LifecycleState::kCancelled, std::nullopt);
  for (const auto& [reason, proto] : wire::kFailureReasons) add(LifecycleState::kFailed, reason);
  auto& cancels = NewCounters(registries.metrics, "callboard_cancels_total",
                              "Cancels, by the phase of the task when they arrived.");
  for (const director::CancelPhase phase : kCancelPhases) {
    cancels_[phase] = &cancels.Add({{"phase", std::string(Name(phase))}});
  }
  auto& dispatches = NewCounters(registries.metrics, "callboard_dispatch_total",
                                 "Dispatches that were answered or abandoned, by outcome.");
  for (const DispatchOutcome outcome : kDispatchOutcomes) {
    dispatches_[outcome] = &dispatches.Add({{"outcome", std::string(Name(outcome))}});
  }
}

void QueueMetrics::Count(const core::TaskRecord& record, const director::TaskStep& step) {
  if (const auto outcome = OutcomeOf(record, step)) dispatches_.at(*outcome)->Increment();
  if (const auto* ended = std::get_if<core::TaskEnded>(&record.change)) {
    tasks_.at({ended->state, ended->reason})->Increment();
  }
  if (record.event.kind == core::TaskEventKind::kOrphanResult) CountOrphan();
  const QueueTimes times = TimesOf(record, step);
  wait_seconds_.Observe(times.wait, record.event.at, step.trace);
  waiting_seconds_.Observe(times.waiting, record.event.at, step.trace);
  pending_seconds_.Observe(times.pending, record.event.at, step.trace);
  dispatch_seconds_.Observe(times.dispatch, record.event.at, step.dispatch_trace);
  run_seconds_.Observe(times.run, record.event.at, step.dispatch_trace);
}

void QueueMetrics::CountCommit(size_t records, absl::Duration took) {
  commits_.Observe(records, took);
}

void QueueMetrics::CountRejectedSubmit(const absl::Status& why) {
  rejected_submits_.Add({{"reason", ReasonOf(why)}}).Increment();
}

std::vector<prometheus::MetricFamily> QueueGauges(const director::QueueLevels& levels,
                                                  const director::AgentCounts& agents,
                                                  absl::Time now) {
  std::vector<prometheus::MetricFamily> families;
  const auto add = [&families](const std::string& name, const std::string& help, double value) {
    families.push_back(telemetry::MakeGauge(absl::StrCat("callboard_queue_", name), help, value));
  };
  add("pending", "Pending tasks, including those that may not start yet.", levels.pending);
  add("in_flight", "Tasks that are dispatched to an agent.", levels.in_flight);
  add("waiting", "Callers that wait for a place in the queue.", levels.waiting);
  add("max_size", "Largest number of pending tasks; 0: unlimited.", levels.max_size);
  add("oldest_age_seconds", "Time since the oldest pending task was accepted.",
      absl::ToDoubleSeconds(std::max(absl::ZeroDuration(), now - levels.oldest)));
  add("remembered_requests", "Request ids that outlive their task.", levels.remembered_requests);
  families.push_back(telemetry::MakeGaugeFamily("callboard_agents", "Known agents, by state."));
  for (const auto& [state, proto] : kAgentStates) {
    const auto count = agents.find(state);
    telemetry::AddGaugeValue("state", wire::EnumText(*v1::Agent::State_descriptor(), proto),
                             count == agents.end() ? 0 : static_cast<double>(count->second),
                             families.back());
  }
  return families;
}

prometheus::MetricFamily StoreGauge(director::Service service) {
  prometheus::MetricFamily gauges = telemetry::MakeGaugeFamily(
      "callboard_store_state", "1 for the current state of the store, 0 for the others.");
  for (const auto& [state, name] : {std::pair(director::Service::kFull, "open"),
                                    std::pair(director::Service::kReadOnly, "full"),
                                    std::pair(director::Service::kNone, "away")}) {
    telemetry::AddGaugeValue("state", name, state == service ? 1 : 0, gauges);
  }
  return gauges;
}

}  // namespace callboard
