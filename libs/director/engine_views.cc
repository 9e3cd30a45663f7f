// What can be seen of the queue.
#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "libs/base/error.h"
#include "libs/director/engine.h"

namespace callboard::director {
namespace {

constexpr absl::Duration kEstimateMax = absl::Hours(24 * 30);
// Tasks that a page looks at, so that no list holds up the queue.
constexpr int kLookedAtMax = 10'000;

}  // namespace

absl::Status TaskNotFound(core::QueueId id) {
  return base::WithReason(
      absl::NotFoundError(absl::StrCat("no task ", ToString(id),
                                       " is known; ended tasks are forgotten after a while")),
      "TASK_NOT_FOUND", {{"queue_id", ToString(id)}});
}

core::QueueStatus DirectorEngine::Status(Moment now) const {
  core::QueueStatus status;
  status.options = options_.queue;
  status.counts = book_.counts();
  status.ready = dispatches() ? static_cast<uint32_t>(matcher_.served()) : 0;
  status.delayed = static_cast<uint32_t>(delayed_);
  status.waiting = static_cast<uint32_t>(line_.size());
  status.tickets = tickets_.size();
  status.max_in_flight = fleet_.SlotsInAll();
  status.dispatches_total = book_.dispatches();
  status.pause = book_.switched().pause;
  status.drain = book_.switched().drain;
  if (const Entry* oldest = book_.OldestPending()) {
    status.oldest_age = std::max(absl::ZeroDuration(), now.wall - oldest->life.created_at);
  }
  status.paused = book_.switched().paused;
  status.draining = is_draining();
  status.drain_rate_per_second = drain_rate_.PerSecond(now.monotonic);
  status.sources = book_.sources();
  status.fairness_keys = book_.fairness_keys();
  return status;
}

absl::StatusOr<Glance> DirectorEngine::Look(core::QueueId id) const {
  const Entry* entry = book_.Find(id);
  if (entry == nullptr) return TaskNotFound(id);
  return GlanceAt(*entry);
}

Glance DirectorEngine::GlanceAt(const Entry& entry) const {
  return {.queue_id = entry.life.queue_id,
          .state = entry.life.state,
          .dispatch = entry.life.dispatch,
          .position = book_.Position(entry.life),
          .redriven_as = book_.RedrivenAs(entry.life.queue_id)};
}

bool DirectorEngine::IsListed(const Entry& entry, const ListQuery& query) const {
  const core::Life& life = entry.life;
  const core::Terms& terms = *life.terms;
  if (!query.states.empty() && !query.states.contains(life.state)) return false;
  if (query.source.has_value() && *query.source != terms.source) return false;
  if (!query.source_job.empty() && query.source_job != terms.source_job) return false;
  if (!query.job_type.empty() && query.job_type != terms.job_type) return false;
  if (!query.session_id.empty() && query.session_id != life.session_id) return false;
  if (!query.label.empty()) {
    const auto label = terms.labels.find(query.label);
    if (label == terms.labels.end()) return false;
    if (query.label_value.has_value() && *query.label_value != label->second) return false;
  }
  return !query.ready.has_value() || *query.ready == (dispatches() && matcher_.IsServed(entry));
}

ListPage DirectorEngine::List(const ListQuery& query) const {
  ListPage page;
  int looked_at = 0;
  // Whether the page goes on after this one.
  const auto look = [&](const Entry& entry, const ListCursor& here) {
    if (IsListed(entry, query)) page.tasks.push_back({GlanceAt(entry), here});
    if (++looked_at < kLookedAtMax && page.tasks.size() < query.page_size) return true;
    page.next = here;
    return false;
  };
  const bool from_live = !query.after.has_value() || query.after->live.has_value();
  if (from_live) {
    const auto& line = book_.line();
    auto live = query.after.has_value() ? line.upper_bound(*query.after->live) : line.begin();
    for (; live != line.end(); ++live) {
      if (!look(*live->second, {.live = live->first})) return page;
    }
  }
  const auto& ended = book_.ended();
  auto behind = from_live ? ended.end() : ended.lower_bound(query.after->ended);
  while (behind != ended.begin()) {
    --behind;
    if (!look(*behind->second, {.ended = behind->first})) return page;
  }
  return page;
}

absl::StatusOr<Explanation> DirectorEngine::Explain(core::QueueId id, Moment now) const {
  const Entry* found = book_.Find(id);
  if (found == nullptr) return TaskNotFound(id);
  const Entry& entry = *found;
  const core::Life& life = entry.life;
  Explanation explanation;
  explanation.state = life.state;
  explanation.position = book_.Position(life);
  if (!entry.life.is_pending()) {
    explanation.summary = entry.life.is_in_flight()
                              ? absl::StrCat("it is with ", entry.life.tries->agent)
                              : "it is over";
    return explanation;
  }
  if (dispatches()) explanation.ready_ahead = matcher_.ServedBefore(entry.life.sequence);
  bool is_served = false;
  const Demand demand = DemandOf(entry);
  for (const auto& [name, agent] : fleet_.agents()) {
    const std::string why_not = fleet_.WhyNot(agent, demand, now);
    is_served = is_served || (agent.keeps_sessions() && fleet_.Serves(agent, demand));
    explanation.agents.push_back({name, why_not.empty(), why_not});
  }
  const double rate = drain_rate_.PerSecond(now.monotonic);
  absl::Duration wait = absl::ZeroDuration();
  if (entry.clocks.not_before > now.monotonic) wait = entry.clocks.not_before - now.monotonic;
  wait = std::max(wait, life.earliest_start_at - now.wall);
  if (wait > absl::ZeroDuration()) explanation.not_before = now.wall + wait;
  if (rate > 0 && dispatches() && is_served) {
    wait = std::max(wait, absl::Seconds(static_cast<double>(explanation.ready_ahead + 1) / rate));
    // Beyond that it is not an estimate but a queue that stands still.
    if (wait < kEstimateMax) explanation.estimated_start_at = now.wall + wait;
  }
  explanation.summary = WhyPending(entry, explanation, now);
  return explanation;
}

std::string DirectorEngine::WhyPending(const Entry& entry, const Explanation& explanation,
                                       Moment now) const {
  const core::Life& life = entry.life;
  if (book_.switched().paused) return "the queue is paused";
  if (is_going_away()) return "the director is about to stop";
  if (explanation.not_before.has_value()) {
    return entry.clocks.not_before > now.monotonic
               ? absl::StrCat("it is tried again after: ", life.tries->last_error)
               : "it is not to start before its earliest_start_at";
  }
  const Entry* first = life.session_id.empty() ? nullptr : book_.FirstOfSession(life.session_id);
  if (first != nullptr && first != &entry) {
    return absl::StrCat("it waits for an earlier task of its session, ",
                        ToString(first->life.queue_id));
  }
  if (book_.WaitsForOverlap(life)) {
    return absl::StrCat("it waits until fewer than ", life.terms->overlap->most_at_once(),
                        " tasks of its overlap key run");
  }
  if (entry.group != nullptr && !Matcher::IsServed(entry)) {
    return fleet_.WhyNobody(entry.group->served_by, now);
  }
  if (explanation.ready_ahead > 0) {
    return absl::StrCat(explanation.ready_ahead, " tasks are ahead of it");
  }
  const bool fits = std::any_of(explanation.agents.begin(), explanation.agents.end(),
                                [](const auto& agent) { return agent.fits; });
  return fits ? "it is next" : "it is next, and no agent can take it now";
}

SessionPage DirectorEngine::ListSessions(const SessionQuery& query) const {
  SessionPage page;
  int looked_at = 0;
  const auto& sessions = book_.sessions();
  for (auto session = sessions.upper_bound(query.after); session != sessions.end(); ++session) {
    if (++looked_at > kLookedAtMax || page.sessions.size() == query.page_size) {
      page.next = std::prev(session)->first;
      break;
    }
    const auto& [name, tasks] = *session;
    if (tasks.live.empty()) continue;
    // Of a session no other than the first runs.
    const core::Life& first = tasks.live.begin()->second->life;
    SessionView& view = page.sessions.emplace_back(
        SessionView{.session_id = name,
                    .agent = book_.AgentOfSession(name),
                    .queued = tasks.live.size() - (first.is_in_flight() ? 1 : 0),
                    .active_at = tasks.active_at});
    if (!first.is_in_flight()) continue;
    view.agent = first.tries->agent;
    view.running = first.queue_id;
  }
  return page;
}

absl::StatusOr<AgentView> DirectorEngine::LookAtAgent(const std::string& name, Moment now) const {
  const auto found = fleet_.agents().find(name);
  if (found == fleet_.agents().end()) return AgentNotFound(name);
  return ViewOf(found->second, options_.lease, now);
}

AgentPage DirectorEngine::ListAgents(const AgentQuery& query, Moment now) const {
  AgentPage page;
  auto agent = fleet_.agents().upper_bound(query.after);
  for (; agent != fleet_.agents().end() && page.agents.size() < query.page_size; ++agent) {
    page.agents.push_back(ViewOf(agent->second, options_.lease, now));
  }
  page.has_more = agent != fleet_.agents().end();
  return page;
}

}  // namespace callboard::director
