// Reads.
#include <algorithm>
#include <utility>

#include "libs/scheduler/engine.h"

namespace callboard::scheduler {

const core::Job* SchedulerEngine::FindJob(const std::string& name) const {
  const auto found = jobs_.find(name);
  if (found == jobs_.end() || !found->second.job.has_value()) return nullptr;
  return &*found->second.job;
}

absl::StatusOr<JobView> SchedulerEngine::GetJob(const std::string& name, size_t next,
                                                ports::Moment now) const {
  const auto found = jobs_.find(name);
  if (found == jobs_.end() || !found->second.job.has_value()) return JobNotFound(name);
  return View(found->second, next, now);
}

std::vector<JobView> SchedulerEngine::ListJobs(const std::string& after, size_t page_size,
                                               ports::Moment now) const {
  std::vector<JobView> views;
  for (auto entry = jobs_.upper_bound(after); entry != jobs_.end() && views.size() < page_size;
       ++entry) {
    if (entry->second.job.has_value()) views.push_back(View(entry->second, 1, now));
  }
  return views;
}

JobView SchedulerEngine::View(const Entry& entry, size_t next, ports::Moment now) const {
  JobView view = {.job = *entry.job, .state = entry.state};
  view.overdue = now.wall - std::min(now.wall, OldestUndecidedAt(entry));
  if (entry.state.cursor > now.wall) view.waits_until = entry.state.cursor;
  for (const auto& [id, backfill] : backfills_) {
    if (backfill.job == entry.job->name && !backfill.ended_at.has_value()) ++view.active_backfills;
  }
  if (entry.state.finished) return view;
  absl::Time after = std::max(now.wall, entry.state.cursor);
  if (entry.state.pause.has_value()) {
    after = std::max(after, entry.state.pause->until - absl::Nanoseconds(1));
  }
  if (after == absl::InfiniteFuture()) return view;
  for (auto occurrence = core::NextOccurrence(*entry.job, after);
       occurrence.has_value() && view.next.size() < next;
       occurrence = core::NextOccurrence(*entry.job, occurrence->at)) {
    if (occurrence->Fires()) view.next.push_back(*occurrence);
  }
  return view;
}

absl::Time SchedulerEngine::OldestUndecidedAt(const Entry& entry) {
  if (entry.attempts.empty()) return entry.timer_at;
  return std::min(entry.timer_at, entry.attempts.begin()->first);
}

StatusView SchedulerEngine::Status(ports::Moment now) const {
  StatusView status = {.director_reachable = link_state_.reachable, .calls = director_calls_};
  for (const auto& [name, entry] : jobs_) {
    status.open += entry.attempts.size();
    if (!entry.job.has_value()) continue;
    ++status.jobs;
    if (entry.state.pause.has_value()) ++status.paused_jobs;
    status.oldest_due = std::min(status.oldest_due, OldestUndecidedAt(entry));
    const bool may_fire = !entry.state.pause.has_value();
    if (may_fire) status.next_fire_at = std::min(status.next_fire_at, entry.timer_at);
  }
  status.overdue = now.wall - std::min(now.wall, status.oldest_due);
  return status;
}

}  // namespace callboard::scheduler
