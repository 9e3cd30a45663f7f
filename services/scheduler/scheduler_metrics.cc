#include "services/scheduler/scheduler_metrics.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "libs/base/log.h"
#include "libs/telemetry/metrics.h"

namespace callboard {
namespace {

// Returns whether an operator may have to investigate.
bool IsWarning(core::FiringOutcome outcome) {
  switch (outcome) {
    case core::FiringOutcome::kSkippedQueueFull:
    case core::FiringOutcome::kSkippedDirectorDown:
    case core::FiringOutcome::kMissedWindow:
    case core::FiringOutcome::kRejected:
      return true;
    case core::FiringOutcome::kFired:
    case core::FiringOutcome::kSkippedOverlap:
    case core::FiringOutcome::kCoalesced:
    case core::FiringOutcome::kPaused:
    case core::FiringOutcome::kDstGapMoved:
    case core::FiringOutcome::kDstFoldSuppressed:
    case core::FiringOutcome::kSkippedCalendar:
      return false;
  }
  return true;
}

}  // namespace

SchedulerMetrics::SchedulerMetrics(prometheus::Registry& metrics, server::Readiness& readiness)
    : readiness_(readiness),
      fires_(prometheus::BuildCounter()
                 .Name("callboard_schedule_fires_total")
                 .Help("Decided occurrences of jobs, by outcome.")
                 .Register(metrics)),
      commits_(metrics) {}

void SchedulerMetrics::OnJobs(absl::Span<const core::Job> jobs) {
  for (const core::Job& job : jobs) {
    for (const core::FiringOutcome outcome : core::kFiringOutcomes) {
      if (outcome == core::FiringOutcome::kFired || IsWarning(outcome))
        FireCounter(job.name, outcome);
    }
  }
}

void SchedulerMetrics::OnService(const absl::Status& why) {
  const std::string error(why.message());
  {
    base::MutexLock lock(mutex_);
    readiness_.Set(why.ok() ? "" : absl::StrCat("the ledger is away: ", error));
    if (std::exchange(reported_status_, why.code()) == why.code()) return;
  }
  if (why.ok()) return base::LogInfo("ledger", "open");
  base::LogError("ledger", "away",
                 {{"error", error}, {"next", "the scheduler tries to reopen it every second"}});
}

void SchedulerMetrics::OnCommit(absl::Span<const scheduler::LedgerChange> changes,
                                absl::Duration took) {
  commits_.Observe(changes.size(), took);
  for (const scheduler::LedgerChange& change : changes) {
    if (const auto* firing = std::get_if<core::Firing>(&change)) ReportFiring(*firing);
  }
}

prometheus::Counter& SchedulerMetrics::FireCounter(const std::string& job,
                                                   core::FiringOutcome outcome) {
  return fires_.Add({{"job", job}, {"outcome", std::string(core::Name(outcome))}});
}

void SchedulerMetrics::ReportFiring(const core::Firing& firing) {
  FireCounter(firing.job, firing.outcome).Increment(static_cast<double>(1 + firing.more));
  base::LogAt(IsWarning(firing.outcome) ? base::LogLevel::kWarning : base::LogLevel::kInfo,
              "schedule", core::Name(firing.outcome), [&firing] {
                std::vector<base::LogField> fields = {
                    {"job", firing.job},
                    {"nominal",
                     absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", firing.nominal, absl::UTCTimeZone())}};
                if (!firing.queue_id.empty()) fields.push_back({"queue_id", firing.queue_id});
                if (firing.more > 0) fields.push_back({"more", firing.more});
                if (!firing.detail.empty()) fields.push_back({"detail", firing.detail});
                return fields;
              });
}

void SchedulerMetrics::OnNotice(const scheduler::Notice& notice) {
  base::LogAt(base::LogLevel::kWarning, "scheduler", notice.event, [&notice] {
    std::vector<base::LogField> fields;
    if (!notice.job.empty()) fields.push_back({"job", notice.job});
    if (!notice.text.empty()) fields.push_back({"detail", notice.text});
    if (notice.event == "director_unreachable") {
      fields.push_back(
          {"next", "check that the director runs and that director.address is its gRPC port"});
    }
    return fields;
  });
}

void SchedulerMetrics::OnStatus(const scheduler::StatusView& status) {
  base::MutexLock lock(mutex_);
  status_ = status;
}

std::vector<prometheus::MetricFamily> SchedulerMetrics::Gauges(absl::Time now,
                                                               bool file_refused) const {
  std::optional<scheduler::StatusView> status;
  bool is_open = false;
  {
    base::MutexLock lock(mutex_);
    status = status_;
    is_open = reported_status_ == absl::StatusCode::kOk;
  }
  std::vector<prometheus::MetricFamily> families;
  const auto add = [&families](const std::string& name, const std::string& help, double value) {
    families.push_back(
        telemetry::MakeGauge(absl::StrCat("callboard_schedule_", name), help, value));
  };
  add("file_refused", "Whether the newest version of the jobs file is not in use.",
      file_refused ? 1 : 0);
  add("ledger_open", "Whether the ledger can be read and written.", is_open ? 1 : 0);
  if (!status.has_value()) return families;
  add("overdue_seconds", "How late the oldest undecided occurrence is.",
      absl::ToDoubleSeconds(now - std::min(now, status->oldest_due)));
  add("jobs", "Jobs in the file.", status->jobs);
  add("paused_jobs", "Jobs in the file that are paused.", status->paused_jobs);
  add("director_reachable", "Whether the director answers.", status->director_reachable ? 1 : 0);
  return families;
}

}  // namespace callboard
