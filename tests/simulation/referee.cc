#include "tests/simulation/referee.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/base/check.h"
#include "libs/director/task_table.h"
#include "libs/testing/fake_environment.h"

namespace callboard::simulation {
namespace {

using core::LifecycleState;
using director::Moment;

// Turns between two comparisons of memory and disk, which are slow.
constexpr uint64_t kTurnsBetweenReloads = 40;
// Consecutive tasks that fail because of an agent before it is cordoned.
constexpr size_t kCordonTasks = 3;
// The shortest time for which a suspect agent gets no tasks.
constexpr absl::Duration kSuspicionMin = absl::Seconds(5);

// As in core::TaskEventKind.
constexpr absl::string_view kEventNames[] = {"SUBMITTED", "ADMITTED", "DENIED",   "DISPATCHING",
                                             "BUSY",      "RETRY",    "RUNNING",  "CANCEL",
                                             "DONE",      "FAILED",   "CANCELED", "TIMEOUT",
                                             "EVICTED",   "EXPIRED",  "ORPHAN",   "REDRIVEN"};
static_assert(std::size(kEventNames) == static_cast<size_t>(core::TaskEventKind::kRedriven) + 1);

bool Has(const std::map<std::string, std::string>& labels,
         const std::map<std::string, std::string>& required) {
  return std::all_of(required.begin(), required.end(), [&labels](const auto& label) {
    const auto found = labels.find(label.first);
    return found != labels.end() && found->second == label.second;
  });
}

}  // namespace

std::map<std::string, std::string> LabelsOfAgent(const std::string& name) {
  // Every second agent has the label that some tasks require.
  if ((name.back() - '0') % 2 == 0) return {{"os", "linux"}};
  return {};
}

void Referee::Log(absl::string_view what) const {
  if (log_ == nullptr) return;
  *log_ << absl::FormatDuration(timeline_.now()) << " " << what << "\n";
}

void Referee::Fail(const std::string& what) {
  Log(what);
  if (failure_.empty()) failure_ = what;
}

// ---- The disk ----

void Referee::OnWritten(const core::Record& record, Moment now) {
  ++counts_.records;
  hash_.Add(record.index()).Add(static_cast<uint64_t>(absl::ToInt64Microseconds(now.monotonic)));
  if (const auto* task = std::get_if<core::TaskRecord>(&record)) {
    hash_.Add(ToString(task->queue_id)).Add(task->event.number);
    hash_.Add(static_cast<uint64_t>(task->event.kind)).Add(task->event.why);
    const core::TaskEvent& event = task->event;
    if (log_ != nullptr) {
      Log(absl::StrCat(ToString(task->queue_id).substr(28), " ", event.number, " ",
                       kEventNames[static_cast<int>(event.kind)], " #", event.dispatch.value(),
                       " by ", event.who, ": ", event.why));
    }
    OnTask(*task, now);
  } else if (const auto* forgotten = std::get_if<core::TaskForgotten>(&record)) {
    const auto found = tasks_.find(forgotten->queue_id);
    if (found == tasks_.end() || found->second.is_live()) {
      return Fail(
          absl::StrCat("forgot a task that has not ended: ", ToString(forgotten->queue_id)));
    }
    forgotten_[found->first] = found->second.state;
    tasks_.erase(found);
  } else if (const auto* began = std::get_if<core::EpochBegan>(&record)) {
    if (began->epoch <= epoch_) Fail("an epoch came twice");
    // The disk may be slow.
    const int64_t at_least = absl::ToUnixSeconds(now.wall - absl::Minutes(1));
    if (epoch_ == 0 && static_cast<int64_t>(began->epoch) < at_least) {
      Fail("a new store begins at an epoch that agents of an earlier one reject");
    }
    epoch_ = began->epoch;
    epoch_began_at_ = now.monotonic;
    OnRestart(now);
  } else if (const auto* marked = std::get_if<core::AgentMarked>(&record)) {
    OnMarked(*marked);
  } else if (const auto* extended = std::get_if<core::LeasesExtended>(&record)) {
    lease_extension_ = extended->extension;
  }
}

void Referee::OnTask(const core::TaskRecord& record, Moment now) {
  StoredTask& stored = tasks_[record.queue_id];
  const uint64_t next = stored.number + 1;
  if (record.number != next && record.number + record.replaces != next) {
    return Fail(absl::StrCat("record ", record.number, " after ", stored.number));
  }
  stored.number = record.number;
  if (record.event.number <= std::exchange(stored.event_number, record.event.number)) {
    return Fail(absl::StrCat("the number of an event did not grow: ", record.event.number));
  }
  if (const auto* admitted = std::get_if<core::TaskAdmitted>(&record.change)) {
    OnAdmitted(record, *admitted, stored);
  } else if (const auto* dispatched = std::get_if<core::TaskDispatched>(&record.change)) {
    OnDispatched(record, *dispatched, stored, now);
  } else if (std::holds_alternative<core::StartAccepted>(record.change)) {
    if (stored.state != LifecycleState::kDispatching) return Fail("accepted without a dispatch");
    OnStartAnswered(stored, stored.agent);
    stored.state = LifecycleState::kWorking;
  } else if (const auto* busy = std::get_if<core::StartAnsweredBusy>(&record.change)) {
    OnStartAnswered(stored, stored.agent);
    OnAnsweredBusy(*busy, stored);
  } else if (const auto* returned = std::get_if<core::TaskReturned>(&record.change)) {
    OnReturned(record, *returned, stored, now);
  } else if (std::holds_alternative<core::CancelRequested>(record.change)) {
    if (!stored.is_in_flight())
      return Fail("a cancel was requested for a task that is not in flight");
    stored.cancel_requested = true;
  } else if (const auto* ended = std::get_if<core::TaskEnded>(&record.change)) {
    OnEnded(record, *ended, stored);
  }
}

void Referee::OnAdmitted(const core::TaskRecord& record, const core::TaskAdmitted& admitted,
                         StoredTask& stored) {
  ++counts_.tasks;
  const uint64_t bound = settings_.engine.queue.max_size;
  const uint64_t before = Pending() - 1 + std::exchange(dropped_for_next_, 0) + tickets_;
  stored.spec = *admitted.spec;
  stored.identity = admitted.identity;
  stored.created_at = record.event.at;
  stored.sequence = 0;
  if (admitted.sequence < BackOfQueue())
    return Fail("a submit did not go to the back of the queue");
  stored.sequence = stored.admitted = admitted.sequence;
  if (bound > 0 && Pending() > std::max(bound, before)) {
    return Fail(absl::StrCat("an admission raised pending to ", Pending(), " of ", bound));
  }
  if (admitted.spec->request_id.empty()) return;
  const auto [found, is_new] = by_request_.emplace(
      std::make_pair(admitted.identity, admitted.spec->request_id), record.queue_id);
  if (!is_new) Fail(absl::StrCat("two tasks for request ", admitted.spec->request_id));
}

void Referee::OnDispatched(const core::TaskRecord& record, const core::TaskDispatched& dispatched,
                           StoredTask& stored, Moment now) {
  if (stored.state != LifecycleState::kPending) return Fail("a second dispatch beside a live one");
  if (dispatched.dispatch.value() <= stored.dispatch) return Fail("a dispatch number came twice");
  const std::string& agent = record.event.agent;
  CheckFirstInLine(stored, agent, now);
  if (WaitsForOverlap(stored.spec.terms.overlap)) Fail("too many tasks of a key run side by side");
  stored.state = LifecycleState::kDispatching;
  stored.dispatch = dispatched.dispatch.value();
  stored.dispatched_at = now.monotonic;
  ++dispatches_;
  stored.agent = agent;
  stored.instance_id = dispatched.instance_id;
  if (agents_[agent].cordoned)
    Fail(absl::StrCat(agent, " was given a task although it is cordoned"));
  if (now.monotonic < agents_[agent].suspect_until &&
      kicked_at_ < agents_[agent].suspect_until - kSuspicionMin) {
    Fail(absl::StrCat(agent, " was given a task although it left a start without an answer"));
  }
  const auto held = std::count_if(tasks_.begin(), tasks_.end(), [&agent](const auto& task) {
    return task.second.is_in_flight() && task.second.agent == agent;
  });
  if (held > settings_.slots) Fail(absl::StrCat(agent, " was given more than it has slots"));
  if (!Has(LabelsOfAgent(agent), stored.spec.terms.required_labels)) Fail("labels were ignored");
}

void Referee::CheckFirstInLine(const StoredTask& stored, const std::string& agent, Moment now) {
  if (stored.spec.earliest_start_at > now.wall) {
    return Fail("a task started before its time");
  }
  if (stored.spec.deadline_at <= now.wall) {
    return Fail("a task started after its deadline");
  }
  for (const auto& [id, other] : tasks_) {
    if (!stored.spec.session_id.empty() && other.spec.session_id == stored.spec.session_id &&
        other.is_live() && other.admitted < stored.admitted) {
      return Fail("a task of a session started before an earlier one had ended");
    }
    if (other.state != LifecycleState::kPending) continue;
    if (other.sequence >= stored.sequence || !other.spec.session_id.empty()) continue;
    if (WaitsForOverlap(other.spec.terms.overlap)) continue;
    const bool is_ready = other.ready_at <= now.monotonic &&
                          other.spec.earliest_start_at <= now.wall &&
                          Has(LabelsOfAgent(agent), other.spec.terms.required_labels);
    if (is_ready) {
      return Fail(absl::StrCat("sequence ", stored.sequence, " overtook ", other.sequence, ", ",
                               ToString(id)));
    }
  }
}

bool Referee::WaitsForOverlap(const std::optional<core::Overlap>& overlap) const {
  if (!overlap.has_value() || overlap->policy != core::OverlapPolicy::kQueueOne) return false;
  return std::count_if(tasks_.begin(), tasks_.end(), [&overlap](const auto& task) {
           const StoredTask& stored = task.second;
           return stored.is_in_flight() && stored.spec.terms.overlap.has_value() &&
                  stored.spec.terms.overlap->key == overlap->key;
         }) >= std::max<int64_t>(1, overlap->n);
}

void Referee::OnAnsweredBusy(const core::StartAnsweredBusy& busy, StoredTask& stored) {
  if (stored.state != LifecycleState::kDispatching) return Fail("a busy answer without a dispatch");
  if (stored.cancel_requested) return Fail("a cancelled task was requeued");
  ++stored.busy_answers;
  if (busy.busy_rejections != stored.busy_answers) return Fail("busy answers were miscounted");
  const bool goes_back = stored.busy_answers < 5;
  if (goes_back && busy.sequence < BackOfQueue()) {
    return Fail("a busy task did not go to the back of the queue");
  }
  if (!goes_back && busy.sequence != stored.sequence)
    return Fail("the task lost its place at the fifth busy answer");
  stored.sequence = busy.sequence;
  stored.state = LifecycleState::kPending;
}

void Referee::OnReturned(const core::TaskRecord& record, const core::TaskReturned& returned,
                         StoredTask& stored, Moment now) {
  if (!stored.is_in_flight()) return Fail("returned without a dispatch");
  if (stored.cancel_requested) return Fail("a cancelled task was requeued");
  if (returned.counts_as_attempt) ++stored.attempts;
  if (stored.attempts >= stored.spec.terms.max_attempts) return Fail("more attempts than allowed");
  if (returned.reported) stored.reported.insert(stored.dispatch);
  const bool not_started = returned.reported && WasNotStarted(record, stored);
  if (not_started && (!returned.counts_as_attempt || returned.backoff <= absl::ZeroDuration())) {
    return Fail("a run that could not start was not counted or has no backoff");
  }
  if (returned.reported && !not_started) {
    if (returned.sequence < BackOfQueue()) return Fail("a retried run kept its place");
  } else if (returned.sequence != stored.sequence) {
    return Fail("a task whose run did not end lost its place");
  }
  CheckCordon(record, returned, returned.reported, stored);
  OnStartAnswered(stored, record.event.who);
  if (LeaseOfStartEnded(returned, stored)) {
    agents_[stored.agent].suspect_until = now.monotonic + kSuspicionMin;
  }
  stored.sequence = returned.sequence;
  stored.state = LifecycleState::kPending;
  stored.backoff = returned.backoff;
  stored.ready_at = now.monotonic + returned.backoff;
  stored.not_before = now.wall + returned.backoff;
}

void Referee::OnEnded(const core::TaskRecord& record, const core::TaskEnded& ended,
                      StoredTask& stored) {
  if (!stored.is_live()) {
    return Fail(absl::StrCat("two ends of ", ToString(record.queue_id)));
  }
  if (stored.cancel_requested && ended.state != LifecycleState::kCancelled) {
    return Fail("a task with a cancel request was not cancelled");
  }
  if (ended.run.has_value()) {
    if (!stored.is_in_flight()) return Fail("a result ended a task that was not in flight");
    if (ended.state == LifecycleState::kCompleted &&
        ended.run->result != absl::StrCat(stored.dispatch)) {
      return Fail(absl::StrCat("the result of dispatch ", ended.run->result, " ended dispatch ",
                               stored.dispatch));
    }
    stored.reported.insert(stored.dispatch);
    if (WasNotStarted(record, stored) && ended.state != LifecycleState::kCancelled &&
        (ended.reason != core::FailureReason::kMaxAttempts || !ended.counts_as_attempt ||
         stored.attempts + 1 != stored.spec.terms.max_attempts)) {
      return Fail("a run that could not start ended its task before the last attempt");
    }
  } else if (ended.state == LifecycleState::kCompleted) {
    return Fail("completed without a result");
  }
  if (ended.state != LifecycleState::kCancelled) {
    CheckCordon(record, ended, ended.run.has_value(), stored);
  }
  if (ended.reason == core::FailureReason::kEvicted ||
      ended.reason == core::FailureReason::kCoalesced) {
    ++dropped_for_next_;
    if (ended.reason == core::FailureReason::kEvicted && stored.dispatch != 0) {
      return Fail("a task that was dispatched before was evicted");
    }
    for (const auto& [id, other] : tasks_) {
      if (ended.reason == core::FailureReason::kEvicted &&
          other.state == LifecycleState::kPending && other.dispatch == 0 &&
          other.spec.terms.source == stored.spec.terms.source && other.sequence < stored.sequence) {
        return Fail("the evicted task was not the oldest");
      }
    }
  }
  ++counts_.ended;
  OnStartAnswered(stored, record.event.who);
  stored.state = ended.state;
}

void Referee::OnMarked(const core::AgentMarked& marked) {
  AgentHealth& health = agents_[marked.name];
  const bool cordoned = !marked.cordoned_instance.empty();
  health.is_newly_cordoned = cordoned && !health.cordoned;
  health.cordoned = cordoned;
  if (cordoned) return;
  health.not_started.clear();
  health.failed.clear();
}

template <class Change>
void Referee::CheckCordon(const core::TaskRecord& record, const Change& change, bool reported,
                          const StoredTask& stored) {
  AgentHealth& health = agents_[stored.agent];
  const bool not_started = reported && WasNotStarted(record, stored);
  if (reported && !not_started) {
    health.not_started.clear();
    health.failed.clear();
  }
  if (change.failure == core::DispatchFailure::kAgentFailed) health.failed.insert(record.queue_id);
  // A report of a later process about this one may not count.
  if (not_started && stored.instance_id == health.instance_id) {
    health.not_started.insert(record.queue_id);
  }
  if (health.not_started.size() >= kCordonTasks && !health.cordoned) {
    Fail(absl::StrCat(stored.agent, " could not start three tasks in a row and is not cordoned"));
  }
  // An agent that rejects its director is cordoned too; that does not count as an attempt.
  if (std::exchange(health.is_newly_cordoned, false) && change.counts_as_attempt &&
      health.failed.size() < kCordonTasks) {
    Fail(absl::StrCat(stored.agent, " was cordoned for fewer than three tasks in a row"));
  }
}

uint64_t Referee::BackOfQueue() const {
  uint64_t back = 0;
  for (const auto& [id, stored] : tasks_) {
    if (stored.is_live()) back = std::max(back, stored.sequence + 1);
  }
  return back;
}

uint64_t Referee::Pending() const {
  return static_cast<uint64_t>(std::count_if(tasks_.begin(), tasks_.end(), [](const auto& task) {
    return task.second.state == LifecycleState::kPending;
  }));
}

void Referee::OnRestart(Moment now) {
  // The rest of a backoff is measured by a clock that may have jumped; it never gets longer.
  for (auto& [id, stored] : tasks_) {
    stored.ready_at = now.monotonic + std::min(stored.backoff, stored.not_before - now.wall);
  }
  for (auto& [agent, health] : agents_) {
    health.not_started.clear();
    health.failed.clear();
    health.suspect_until = -absl::InfiniteDuration();
  }
}

// ---- Messages of the director ----

void Referee::OnSubmitAcknowledged(const std::string& identity, const std::string& request_id,
                                   core::QueueId id, bool deduplicated) {
  if (!tasks_.contains(id) && !forgotten_.contains(id)) {
    return Fail(absl::StrCat(ToString(id), " was acknowledged and is not on disk"));
  }
  const auto found = by_request_.find({identity, request_id});
  if (found == by_request_.end() || found->second != id) {
    Fail(absl::StrCat("request ", request_id, " was answered with another task",
                      deduplicated ? " (deduplicated)" : ""));
  }
}

void Referee::OnCancelAcknowledged(core::QueueId id) {
  const auto found = tasks_.find(id);
  if (found == tasks_.end()) return;
  if (found->second.state != LifecycleState::kCancelled && !found->second.cancel_requested) {
    return Fail("a cancel was acknowledged and is not on disk");
  }
  cancel_acknowledged_.insert(id);
}

void Referee::OnResultForgotten(const core::FenceToken& token) {
  const auto found = tasks_.find(token.queue_id);
  if (found == tasks_.end()) {
    if (!forgotten_.contains(token.queue_id)) Fail("a result of an unknown task was acknowledged");
    return;
  }
  if (!found->second.reported.contains(token.dispatch.value())) {
    Fail(absl::StrCat("a result was acknowledged and is not on disk: dispatch ",
                      token.dispatch.value(), " of ", ToString(token.queue_id)));
  }
}

void Referee::OnBlockingSubmitAnswered(uint64_t call, bool admitted) {
  const auto found = waiting_.find(call);
  if (found == waiting_.end()) return;
  if (admitted) last_admitted_ = std::max(last_admitted_, found->second);
  waiting_.erase(found);
}

// ---- Processes ----

void Referee::OnProcessStarted(const std::string& agent, const core::FenceToken& token) {
  Log(absl::StrCat("  ", agent, " begins ", ToString(token.queue_id).substr(28), " #",
                   token.dispatch.value()));
  auto& running = processes_[token.queue_id];
  if (!running.empty()) {
    return Fail(absl::StrCat(agent, " runs ", ToString(token.queue_id), " while ",
                             running.begin()->first, " still does"));
  }
  running.emplace(agent, token);
}

void Referee::OnProcessGone(const std::string& agent, const core::FenceToken& token) {
  Log(absl::StrCat("  ", agent, " has ended ", ToString(token.queue_id).substr(28), " #",
                   token.dispatch.value()));
  processes_[token.queue_id].erase({agent, token});
}

// ---- Checks ----

void Referee::OnTurn(const director::DirectorEngine& engine, const test::MemoryDisk& disk,
                     const Gauges& gauges, Moment now) {
  ++counts_.turns;
  dropped_for_next_ = 0;
  for (const auto& [call, arrival] : waiting_) {
    if (arrival < last_admitted_) Fail("a waiter was admitted before an earlier one");
  }
  last_admitted_ = 0;
  tickets_ = engine.views().Status(now).tickets;
  for (const auto& [request, id] : by_request_) {
    const auto& [identity, request_id] = request;
    if (!engine.waiter_queue().FindByRequestId(identity, request_id).empty() &&
        engine.tasks().FindRequest(identity, request_id, now.wall).has_value()) {
      Fail(absl::StrCat("a caller waits although request ", request_id, " has its task"));
    }
    const auto found = engine.views().FindByRequestId(identity, request_id, now);
    if (!found.ok() || found->queue_id != id) {
      Fail(absl::StrCat("request ", request_id, " does not find its task"));
    }
  }
  CheckWorkConservation(engine, now);
  CheckLeasesOfStarts(now);
  CheckGauges(engine, gauges);
  if (counts_.turns % kTurnsBetweenReloads == 0) CheckAgainstDisk(engine, disk);
}

void Referee::CheckWorkConservation(const director::DirectorEngine& engine, Moment now) {
  const core::QueueStatus status = engine.views().Status(now);
  const uint64_t bound = settings_.engine.queue.max_size;
  if (status.waiting > 0 && (bound == 0 || status.counts.pending + status.tickets < bound) &&
      engine.waiter_queue().Next(/*allow_scheduler=*/false).has_value()) {
    return Fail("a caller waits although a slot is free");
  }
  if (status.paused || engine.is_going_away()) return;
  for (const auto& [name, agent] : engine.fleet().agents()) {
    if (!engine.fleet().TakesTasks(agent, now)) continue;
    const auto lane = agent.lanes.find("default");
    if (lane == agent.lanes.end() || !lane->second.has_free_slot()) continue;
    for (const auto& [sequence, entry] : engine.tasks().live_tasks()) {
      const core::TaskState& task = entry->task;
      if (!task.is_pending() || !task.session_id.empty()) continue;
      if (entry->timers.not_before > now.monotonic || task.earliest_start_at > now.wall) continue;
      if (!Has(agent.labels, task.terms->required_labels)) continue;
      if (WaitsForOverlap(task.terms->overlap)) continue;
      return Fail(absl::StrCat(name, " idles although ", ToString(task.queue_id), " is ready"));
    }
  }
}

// The shown values equal a recount of the disk or of the engine's lists.
void Referee::CheckGauges(const director::DirectorEngine& engine, const Gauges& gauges) {
  director::QueueLevels counted = {.waiting = engine.waiter_queue().size(),
                                   .max_size = settings_.engine.queue.max_size,
                                   .remembered_requests = engine.tasks().remembered().size()};
  uint64_t first = 0;
  for (const auto& [id, stored] : tasks_) {
    if (stored.is_in_flight()) ++counted.in_flight;
    if (stored.state != LifecycleState::kPending) continue;
    if (counted.pending++ > 0 && stored.admitted > first) continue;
    first = stored.admitted;
    counted.oldest = stored.created_at;
  }
  const director::QueueLevels& shown = gauges.levels();
  if (!(shown == counted)) {
    return Fail(absl::StrCat("gauges show ", ToText(shown), "; there are ", ToText(counted)));
  }
  if (gauges.service() != director::Service::kFull) Fail("the store is open but shown as closed");
}

void Referee::CheckAgainstDisk(const director::DirectorEngine& engine,
                               const test::MemoryDisk& disk) {
  engine.tasks().CheckIndexes();
  test::FakeRandom random;
  director::DirectorEngine reloaded(settings_.engine, random);
  disk.Read([&reloaded](const core::Record& record) { CHECK_OK(reloaded.Recover(record)); });
  const auto states = [](const director::DirectorEngine& of) {
    std::vector<core::TaskState> all;
    for (const auto& [sequence, entry] : of.tasks().live_tasks()) all.push_back(entry->task);
    for (const auto& [key, entry] : of.tasks().ended()) all.push_back(entry->task);
    return all;
  };
  if (states(engine) != states(reloaded))
    return Fail("memory differs from the state after a reload");
  if (engine.tasks().dispatches() != reloaded.tasks().dispatches() ||
      engine.tasks().dispatches() != dispatches_) {
    return Fail("dispatches were miscounted");
  }
  if (!(engine.tasks().switches() == reloaded.tasks().switches()) ||
      engine.tasks().marked_agents() != reloaded.tasks().marked_agents()) {
    Fail("the queue's switches differ from the state after a reload");
  }
}

void Referee::OnEnd() {
  for (const auto& [id, stored] : tasks_) {
    if (stored.is_live()) {
      return Fail(absl::StrCat(ToString(id), " never ended: state ", static_cast<int>(stored.state),
                               ", attempts ", stored.attempts, ", agent ", stored.agent));
    }
  }
  for (const core::QueueId& id : cancel_acknowledged_) {
    const auto found = tasks_.find(id);
    const LifecycleState state = found == tasks_.end() ? forgotten_[id] : found->second.state;
    if (state != LifecycleState::kCancelled) return Fail("a cancel was acknowledged and forgotten");
  }
  if (!waiting_.empty()) Fail("a caller was never answered");
}

}  // namespace callboard::simulation
