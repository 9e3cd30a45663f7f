// What can be seen of the queue.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "libs/base/error.h"
#include "libs/base/status_macros.h"
#include "libs/director/engine.h"

namespace callboard::director {
namespace {

constexpr absl::Duration kEstimateMax = absl::Hours(24 * 30);

}  // namespace

absl::Status DirectorEngine::TaskNotFound(core::QueueId id) {
  return base::WithReason(
      absl::NotFoundError(absl::StrCat("no task ", ToString(id),
                                       " is known; ended tasks are forgotten after a while")),
      "TASK_NOT_FOUND", {{"queue_id", ToString(id)}});
}

core::QueueStatus DirectorEngine::Status(Moment now) const {
  core::QueueStatus status;
  status.options = options_.queue;
  status.counts = book_.counts();
  status.ready = static_cast<uint32_t>(matcher_.ready());
  status.delayed = static_cast<uint32_t>(book_.counts().pending - matcher_.ready());
  status.waiting = static_cast<uint32_t>(line_.size());
  status.tickets = tickets_.size();
  status.max_in_flight = fleet_.SlotsInAll();
  status.dispatched_count = dispatched_count_;
  if (const Entry* oldest = book_.OldestPending()) {
    status.oldest_age = std::max(absl::ZeroDuration(), now.wall - *oldest->life.task.created_at);
  }
  status.paused = book_.switched().paused;
  status.draining = is_draining();
  status.drain_rate_per_second = drain_rate_.PerSecond(now.monotonic);
  status.sources = book_.sources();
  status.fairness_keys = book_.fairness_keys();
  return status;
}

absl::StatusOr<core::Task> DirectorEngine::GetTask(core::QueueId id) const {
  const Entry* entry = book_.Find(id);
  if (entry == nullptr) return TaskNotFound(id);
  return book_.TaskOf(entry->life);
}

absl::StatusOr<Explanation> DirectorEngine::Explain(core::QueueId id, Moment now) const {
  ASSIGN_OR_RETURN(core::Task task, GetTask(id));
  const Entry& entry = *book_.Find(id);
  Explanation explanation;
  explanation.task = task;
  if (!entry.life.is_pending()) {
    explanation.summary =
        entry.life.is_in_flight() ? absl::StrCat("it is with ", entry.life.agent) : "it is over";
    return explanation;
  }
  explanation.ready_ahead = matcher_.ReadyBefore(entry.life.sequence);
  bool fits = false;
  const Demand demand = DemandOf(entry);
  for (const auto& [name, agent] : fleet_.agents()) {
    const std::string why_not = fleet_.WhyNot(agent, demand, now);
    fits = fits || why_not.empty();
    explanation.agents.push_back({name, why_not.empty(), why_not});
  }
  const double rate = drain_rate_.PerSecond(now.monotonic);
  absl::Duration wait = absl::ZeroDuration();
  if (entry.clocks.not_before > now.monotonic) wait = entry.clocks.not_before - now.monotonic;
  if (task.spec.earliest_start_at.has_value()) {
    wait = std::max(wait, *task.spec.earliest_start_at - now.wall);
  }
  if (wait > absl::ZeroDuration()) explanation.not_before = now.wall + wait;
  if (rate > 0) {
    wait = std::max(wait, absl::Seconds(static_cast<double>(explanation.ready_ahead + 1) / rate));
    // Beyond that it is not an estimate but a queue that stands still.
    if (wait < kEstimateMax) explanation.estimated_start_at = now.wall + wait;
  }

  const Entry* first =
      task.spec.session_id.empty() ? nullptr : book_.FirstOfSession(task.spec.session_id);
  if (book_.switched().paused) {
    explanation.summary = "the queue is paused";
  } else if (explanation.not_before.has_value()) {
    explanation.summary = entry.clocks.not_before > now.monotonic
                              ? absl::StrCat("it is tried again after: ", task.last_error)
                              : "it is not to start before its earliest_start_at";
  } else if (first != nullptr && first != &entry) {
    explanation.summary = absl::StrCat("it waits for an earlier task of its session, ",
                                       ToString(first->life.task.queue_id));
  } else if (explanation.ready_ahead > 0) {
    explanation.summary = absl::StrCat(explanation.ready_ahead, " tasks are ahead of it");
  } else if (fits) {
    explanation.summary = "it is next";
  } else {
    explanation.summary = "it is next, and no agent can take it now";
  }
  return explanation;
}

}  // namespace callboard::director
