#include "services/director/director_metrics.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "libs/base/log.h"
#include "services/director/task_log.h"
#include "services/director/task_spans.h"

namespace callboard {

namespace {

std::vector<base::LogField> FieldsOf(const core::QueueSwitched& switched) {
  std::vector<base::LogField> fields = {{"paused", switched.paused},
                                        {"draining", switched.draining}};
  if (switched.pause.has_value()) {
    fields.push_back({"paused_by", switched.pause->who});
    fields.push_back({"pause_why", switched.pause->why});
  }
  if (switched.drain.has_value()) {
    fields.push_back({"drained_by", switched.drain->who});
    fields.push_back({"drain_why", switched.drain->why});
  }
  return fields;
}

}  // namespace

DirectorMetrics::DirectorMetrics(const QueueMetrics::Registries& registries,
                                 server::Readiness& readiness, ports::Telemetry* telemetry)
    : readiness_(readiness), telemetry_(telemetry), metrics_(registries) {}

void DirectorMetrics::OnService(director::Service service, const absl::Status& why) {
  const std::string error(why.message());
  {
    base::MutexLock lock(mutex_);
    const bool is_away = service == director::Service::kNone;
    readiness_.Set(is_away ? absl::StrCat("the store is away: ", error) : "");
    if (is_away) {
      levels_.reset();
      agents_.clear();
    }
    // Compares codes, not messages: messages of the same problem may differ in a file number.
    const std::pair<director::Service, absl::StatusCode> current = {service, why.code()};
    if (std::exchange(last_logged_, current) == current) return;
  }
  switch (service) {
    case director::Service::kNone:
      return base::LogError("store", "away",
                            {{"error", error}, {"next", "retrying to open it every second"}});
    case director::Service::kReadOnly:
      return base::LogError("store", "full",
                            {{"error", error}, {"next", "read-only until there is space"}});
    case director::Service::kFull:
      return base::LogInfo("store", "open");
  }
}

void DirectorMetrics::OnCommit(size_t records, absl::Duration took) {
  metrics_.CountCommit(records, took);
}

void DirectorMetrics::OnTurn(absl::Span<const core::Record> records,
                             absl::Span<const director::TaskStep> steps) {
  for (const director::TaskStep& step : steps) {
    const auto& record = std::get<core::TaskRecord>(records[step.record]);
    // OnDispatch() has counted the dispatch already.
    if (!std::holds_alternative<core::TaskDispatched>(record.change)) metrics_.Count(record, step);
    for (const QueueLogLine& line : LogLinesOf(record, step)) {
      base::LogAt(line.level, "queue", Name(line.event),
                  [&] { return FieldsOf(line.event, record, step); });
    }
  }
  for (const core::Record& record : records) {
    if (const auto* switched = std::get_if<core::QueueSwitched>(&record)) {
      base::LogAt(base::LogLevel::kInfo, "queue", "switched",
                  [switched] { return FieldsOf(*switched); });
    } else if (const auto* marked = std::get_if<core::AgentMarked>(&record)) {
      base::LogWarning("agent", "marked",
                       {{"name", marked->name},
                        {"draining", marked->draining},
                        {"cordoned", !marked->cordoned_instance.empty()},
                        {"why", marked->why}});
    }
  }
  if (telemetry_ != nullptr) EmitSpans(records, steps, *telemetry_);
}

void DirectorMetrics::OnOrphans(absl::Span<const director::OrphanResult> orphans) {
  for (const director::OrphanResult& orphan : orphans) {
    if (!orphan.is_run) metrics_.CountOrphan();
    const QueueEvent event = orphan.is_run ? QueueEvent::kUnknownRun : QueueEvent::kOrphanResult;
    base::LogAt(base::LogLevel::kWarning, "queue", Name(event), [&] { return FieldsOf(orphan); });
  }
}

void DirectorMetrics::OnDispatch(const core::TaskRecord& record, const director::TaskStep& step) {
  metrics_.Count(record, step);
}

void DirectorMetrics::OnReject(const absl::Status& why, const director::SubmitOrigin& origin) {
  metrics_.CountRejectedSubmit(why);
  base::LogAt(base::LogLevel::kWarning, "queue", Name(QueueEvent::kSubmitRejected),
              [&] { return FieldsOf(why, origin); });
}

void DirectorMetrics::OnCancel(const director::CancelledTask& task) {
  metrics_.CountCancel(task.phase);
  base::LogAt(base::LogLevel::kInfo, "queue", Name(QueueEvent::kCancelRequested),
              [&] { return FieldsOf(task); });
  if (telemetry_ != nullptr) EmitSpan(task, *telemetry_);
}

void DirectorMetrics::OnStateChange(const director::QueueLevels& levels) {
  base::MutexLock lock(mutex_);
  levels_ = levels;
}

void DirectorMetrics::OnAgents(const director::AgentCounts& agents) {
  base::MutexLock lock(mutex_);
  agents_ = agents;
}

std::vector<prometheus::MetricFamily> DirectorMetrics::Gauges(absl::Time now) const {
  std::optional<director::QueueLevels> levels;
  director::AgentCounts agents;
  director::Service service = director::Service::kNone;
  {
    base::MutexLock lock(mutex_);
    levels = levels_;
    agents = agents_;
    if (last_logged_.has_value()) service = last_logged_->first;
  }
  std::vector<prometheus::MetricFamily> families;
  if (levels.has_value()) families = QueueGauges(*levels, agents, now);
  families.push_back(StoreGauge(service));
  return families;
}

}  // namespace callboard
