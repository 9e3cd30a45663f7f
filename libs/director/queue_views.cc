#include "libs/director/queue_views.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "absl/strings/str_cat.h"
#include "libs/base/error.h"
#include "libs/base/text.h"

namespace callboard::director {
namespace {

constexpr absl::Duration kEstimateMax = absl::Hours(24 * 30);
// Maximum of tasks that a page examines, so that a list does not delay the queue.
constexpr int kExaminedMax = 10'000;

}  // namespace

core::QueueStatus QueueViews::Status(Moment now) const {
  core::QueueStatus status;
  status.options = state_.options.queue;
  status.counts = state_.tasks.counts();
  status.ready = state_.can_dispatch ? static_cast<uint32_t>(state_.matcher.served()) : 0;
  status.delayed = static_cast<uint32_t>(state_.delayed);
  status.waiting = static_cast<uint32_t>(state_.waiter_queue.size());
  status.tickets = state_.tickets.size();
  status.max_in_flight = state_.fleet.TotalSlots();
  status.dispatches_total = state_.tasks.dispatches();
  status.pause = state_.tasks.switches().pause;
  status.drain = state_.tasks.switches().drain;
  if (const Entry* oldest = state_.tasks.OldestPending()) {
    status.oldest_age = std::max(absl::ZeroDuration(), now.wall - oldest->task.created_at);
  }
  status.paused = state_.tasks.switches().paused;
  status.draining = state_.is_draining;
  status.drain_rate_per_second = state_.drain_rate.PerSecond(now.monotonic);
  status.sources = state_.tasks.sources();
  status.fairness_keys = state_.tasks.fairness_keys();
  return status;
}

bool QueueViews::IsReady(core::QueueId id) const {
  const Entry* entry = state_.tasks.Find(id);
  return entry != nullptr && IsReady(*entry);
}

absl::StatusOr<TaskSummary> QueueViews::Summarize(core::QueueId id) const {
  const Entry* entry = state_.tasks.Find(id);
  if (entry == nullptr) return TaskNotFound(id);
  return SummaryOf(*entry);
}

absl::StatusOr<TaskSummary> QueueViews::FindByRequestId(const std::string& identity,
                                                        const std::string& request_id,
                                                        Moment now) const {
  const std::optional<KnownRequest> known =
      state_.tasks.FindRequest(identity, request_id, now.wall);
  if (!known.has_value()) {
    if (state_.waiter_queue.FindByRequestId(identity, request_id).empty()) {
      return TaskNotFound(request_id);
    }
    return base::WithRetryAfter(
        base::WithReason(absl::FailedPreconditionError(absl::StrCat(
                             "the submit with request_id ", base::EscapeForError(request_id),
                             " waits for a place in the queue; retry later")),
                         "WAITING", {{"request_id", request_id}}),
        state_.drain_rate.RetryAfter(now.monotonic));
  }
  if (const Entry* entry = state_.tasks.Find(known->queue_id)) return SummaryOf(*entry);
  return TaskSummary{
      .queue_id = known->queue_id, .state = known->state, .dispatch = {}, .redriven_as = {}};
}

TaskSummary QueueViews::SummaryOf(const Entry& entry) const {
  return {.queue_id = entry.task.queue_id,
          .state = entry.task.state,
          .dispatch = entry.task.dispatch,
          .position = state_.tasks.Position(entry.task),
          .redriven_as = state_.tasks.RedrivenAs(entry.task.queue_id)};
}

bool QueueViews::IsListed(const Entry& entry, const ListQuery& query) const {
  const core::TaskState& task = entry.task;
  const core::PlacementTerms& terms = *task.terms;
  if (!query.states.empty() && !query.states.contains(task.state)) return false;
  if (query.source.has_value() && *query.source != terms.source) return false;
  if (!query.source_job.empty() && query.source_job != terms.source_job) return false;
  if (!query.job_type.empty() && query.job_type != terms.job_type) return false;
  if (!query.session_id.empty() && query.session_id != task.session_id) return false;
  if (!query.label.empty()) {
    const auto label = terms.labels.find(query.label);
    if (label == terms.labels.end()) return false;
    if (query.label_value.has_value() && *query.label_value != label->second) return false;
  }
  return !query.ready.has_value() || *query.ready == IsReady(entry);
}

ListPage QueueViews::List(const ListQuery& query) const {
  ListPage page;
  int examined = 0;
  // Examines one task. Returns whether the page continues after it.
  const auto examine = [&](const Entry& entry, const ListCursor& cursor) {
    if (IsListed(entry, query)) page.tasks.push_back({SummaryOf(entry), cursor});
    if (++examined < kExaminedMax && page.tasks.size() < query.page_size) return true;
    page.next = cursor;
    return false;
  };
  const bool from_live = !query.after.has_value() || query.after->live.has_value();
  if (from_live) {
    const auto& live = state_.tasks.live_tasks();
    auto next = query.after.has_value() ? live.upper_bound(*query.after->live) : live.begin();
    for (; next != live.end(); ++next) {
      if (!examine(*next->second, {.live = next->first})) return page;
    }
  }
  const auto& ended = state_.tasks.ended();
  auto behind = from_live ? ended.end() : ended.lower_bound(query.after->ended);
  while (behind != ended.begin()) {
    --behind;
    if (!examine(*behind->second, {.ended = behind->first})) return page;
  }
  return page;
}

absl::StatusOr<Explanation> QueueViews::Explain(core::QueueId id, Moment now) const {
  const Entry* found = state_.tasks.Find(id);
  if (found == nullptr) return TaskNotFound(id);
  const Entry& entry = *found;
  const core::TaskState& task = entry.task;
  Explanation explanation;
  explanation.state = task.state;
  explanation.position = state_.tasks.Position(task);
  if (!entry.task.is_pending()) {
    explanation.summary = entry.task.is_in_flight() ? absl::StrCat("the task was dispatched to ",
                                                                   entry.task.history->agent)
                                                    : "the task has already finished";
    return explanation;
  }
  if (state_.can_dispatch)
    explanation.ready_ahead = state_.matcher.ServedBefore(entry.task.sequence);
  bool is_served = false;
  const Demand demand = MakeDemand(entry, state_.tasks);
  for (const auto& [name, agent] : state_.fleet.agents()) {
    const std::string why_not = state_.fleet.WhyNot(agent, demand, now);
    is_served = is_served || (agent.keeps_sessions() && state_.fleet.Serves(agent, demand));
    explanation.agents.push_back({name, why_not.empty(), why_not});
  }
  const double rate = state_.drain_rate.PerSecond(now.monotonic);
  absl::Duration wait = absl::ZeroDuration();
  if (entry.timers.not_before > now.monotonic) wait = entry.timers.not_before - now.monotonic;
  wait = std::max(wait, task.earliest_start_at - now.wall);
  if (wait > absl::ZeroDuration()) explanation.not_before = now.wall + wait;
  if (rate > 0 && state_.can_dispatch && is_served) {
    wait = std::max(wait, absl::Seconds(static_cast<double>(explanation.ready_ahead + 1) / rate));
    // A longer wait is not an estimate but a sign that the queue stands still.
    if (wait < kEstimateMax) explanation.estimated_start_at = now.wall + wait;
  }
  explanation.summary = WhyPending(entry, explanation, now);
  return explanation;
}

std::string QueueViews::WhyPending(const Entry& entry, const Explanation& explanation,
                                   Moment now) const {
  const core::TaskState& task = entry.task;
  if (state_.tasks.switches().paused) return "the queue is paused";
  if (!state_.can_dispatch) return "the director is about to stop";
  if (explanation.not_before.has_value()) {
    return entry.timers.not_before > now.monotonic
               ? absl::StrCat("waiting for a retry after: ", task.history->last_error)
               : "waiting for earliest_start_at";
  }
  const Entry* first =
      task.session_id.empty() ? nullptr : state_.tasks.FirstTaskOfSession(task.session_id);
  if (first != nullptr && first != &entry) {
    return absl::StrCat("waiting for an earlier task of the same session, ",
                        ToString(first->task.queue_id));
  }
  if (state_.tasks.WaitsForOverlap(task)) {
    return absl::StrCat("waiting until fewer than ", task.terms->overlap->live_tasks_max(),
                        " tasks with the same overlap key are running");
  }
  if (entry.group != nullptr && !Matcher::IsServed(entry)) {
    return state_.fleet.WhyNoAgent(entry.group->served_by, now);
  }
  if (explanation.ready_ahead > 0) {
    return absl::StrCat(explanation.ready_ahead, " tasks are ahead in the queue");
  }
  const bool fits = std::any_of(explanation.agents.begin(), explanation.agents.end(),
                                [](const auto& agent) { return agent.fits; });
  return fits ? "next in the queue" : "next in the queue, but no agent can take the task now";
}

TaskSessionPage QueueViews::ListTaskSessions(const TaskSessionQuery& query) const {
  TaskSessionPage page;
  int examined = 0;
  const auto& sessions = state_.tasks.sessions();
  for (auto session = sessions.upper_bound(query.after); session != sessions.end(); ++session) {
    if (++examined > kExaminedMax || page.sessions.size() == query.page_size) {
      page.next = std::prev(session)->first;
      break;
    }
    const auto& [name, tasks] = *session;
    if (tasks.live.empty()) continue;
    // Only the first live task of a session can run.
    const core::TaskState& first = tasks.live.begin()->second->task;
    TaskSessionView& view = page.sessions.emplace_back(
        TaskSessionView{.session_id = name,
                        .agent = state_.tasks.OwnerOfSession(name),
                        .queued = tasks.live.size() - (first.is_in_flight() ? 1 : 0),
                        .active_at = tasks.active_at});
    if (!first.is_in_flight()) continue;
    view.agent = first.history->agent;
    view.running = first.queue_id;
  }
  return page;
}

absl::StatusOr<AgentView> QueueViews::FindAgent(const std::string& name, Moment now) const {
  const auto found = state_.fleet.agents().find(name);
  if (found == state_.fleet.agents().end()) return AgentNotFound(name);
  return ViewOf(found->second, state_.options.lease, now);
}

AgentPage QueueViews::ListAgents(const AgentQuery& query, Moment now) const {
  AgentPage page;
  auto agent = state_.fleet.agents().upper_bound(query.after);
  for (; agent != state_.fleet.agents().end() && page.agents.size() < query.page_size; ++agent) {
    page.agents.push_back(ViewOf(agent->second, state_.options.lease, now));
  }
  page.has_more = agent != state_.fleet.agents().end();
  return page;
}

}  // namespace callboard::director
