#include "libs/director/task_table.h"

#include <algorithm>
#include <variant>

#include "absl/strings/str_cat.h"
#include "libs/base/check.h"

namespace callboard::director {
namespace {

using core::LifecycleState;
using core::TaskState;

bool IsFromScheduler(const TaskState& task) {
  return task.terms->source == core::TaskSource::kScheduler;
}

// Returns the sequence number that the change gives to its task, if any.
std::optional<uint64_t> SequenceIn(const core::TaskChange& change) {
  if (const auto* admitted = std::get_if<core::TaskAdmitted>(&change)) return admitted->sequence;
  if (const auto* busy = std::get_if<core::StartAnsweredBusy>(&change)) return busy->sequence;
  if (const auto* returned = std::get_if<core::TaskReturned>(&change)) return returned->sequence;
  return std::nullopt;
}

// Moves `entry` in an index from one key to another. An absent key means that the index does not
// hold it.
template <class Index, class Key>
void Rekey(Index& index, const std::optional<Key>& before, const std::optional<Key>& after,
           Entry* entry) {
  if (before == after) return;
  if (before.has_value()) CHECK_EQ(index.erase(*before), 1u);
  // Most keys are inserted at the end.
  if (after.has_value()) CHECK(index.emplace_hint(index.end(), *after, entry)->second == entry);
}

}  // namespace

struct TaskTable::Keys {
  static Keys For(const TaskState& task) {
    Keys keys;
    if (task.last_record == 0) return keys;
    if (task.is_ended()) {
      keys.ended = {{task.finished_at, task.queue_id}};
    } else {
      keys.live = task.sequence;
      keys.admitted = task.admitted_sequence;
    }
    if (task.is_pending()) {
      keys.pending = task.sequence;
      (task.dispatch == core::DispatchNumber() ? keys.fresh : keys.returned) =
          task.admitted_sequence;
    }
    if (!task.ran_on().empty()) keys.ran_on = task.ran_on();
    keys.in_flight = task.is_in_flight();
    const std::optional<core::Overlap>& overlap = task.terms->overlap;
    if (task.is_pending() && overlap.has_value() &&
        overlap->policy == core::OverlapPolicy::kQueueOne) {
      keys.queue_one = {{overlap->live_tasks_max(), task.admitted_sequence}};
    }
    return keys;
  }

  // For live tasks: the current and the first sequence number.
  std::optional<uint64_t> live = {};
  std::optional<uint64_t> admitted = {};
  // For pending tasks: the current sequence number, and the first one, under `fresh` if the task
  // was never dispatched and under `returned` otherwise.
  std::optional<uint64_t> pending = {};
  std::optional<uint64_t> fresh = {};
  std::optional<uint64_t> returned = {};
  std::optional<std::pair<absl::Time, core::QueueId>> ended = {};
  std::optional<std::string> ran_on = {};
  bool in_flight = false;
  // For pending tasks with the overlap policy queue_one.
  std::optional<std::pair<uint64_t, uint64_t>> queue_one = {};
};

std::string TaskTable::TransitionError(const core::Record& record) const {
  if (const auto* began = std::get_if<core::EpochBegan>(&record)) {
    if (began->epoch > epoch_) return "";
    return absl::StrCat("epoch ", began->epoch, " does not come after epoch ", epoch_);
  }
  const auto* task = std::get_if<core::TaskRecord>(&record);
  if (task == nullptr) return "";
  static const TaskState* const no_task = new TaskState();
  const Entry* const entry = Find(task->queue_id);
  std::string why = core::TransitionError(*task, entry == nullptr ? *no_task : entry->task);
  if (const std::optional<uint64_t> sequence = SequenceIn(task->change); why.empty() && sequence) {
    const auto holder = live_tasks_.find(*sequence);
    if (holder != live_tasks_.end() && holder->second != entry) {
      why = absl::StrCat("has the sequence number ", *sequence, " of ",
                         ToString(holder->second->task.queue_id));
    }
  }
  if (why.empty()) return "";
  return absl::StrCat("task ", ToString(task->queue_id), ": record ", task->number, " ", why);
}

void TaskTable::Apply(const core::Record& record) {
  struct Step {
    void operator()(const core::TaskRecord& task) const { tasks.ApplyTask(task); }
    void operator()(const core::TaskForgotten& forgotten) const {
      tasks.Forget(forgotten.queue_id);
    }
    void operator()(const core::EpochBegan& began) const {
      CHECK_GT(began.epoch, tasks.epoch_);
      tasks.epoch_ = began.epoch;
    }
    void operator()(const core::QueueSwitched& switched) const { tasks.switches_ = switched; }
    void operator()(const core::LeasesExtended& extended) const {
      tasks.lease_extension_ = extended;
    }
    void operator()(const core::AgentMarked& marked) const {
      if (marked.draining || !marked.cordoned_instance.empty()) {
        tasks.marked_[marked.name] = marked;
      } else {
        tasks.marked_.erase(marked.name);
      }
    }
    void operator()(const core::RequestRemembered& request) const {
      RequestKey key = {request.identity, request.request_id};
      const auto [found, is_new] = tasks.remembered_.emplace(key, request);
      // The id was reused before it was forgotten here. It stands for the later task.
      if (!is_new) tasks.remembered_order_.erase({found->second.forget_at, key});
      found->second = request;
      tasks.remembered_order_.emplace(request.forget_at, std::move(key));
    }
    void operator()(const core::RequestForgotten& request) const {
      const auto found = tasks.remembered_.find({request.identity, request.request_id});
      CHECK(found != tasks.remembered_.end());
      tasks.remembered_order_.erase({found->second.forget_at, found->first});
      tasks.remembered_.erase(found);
    }
    void operator()(const core::DispatchesForgotten& forgotten) const {
      tasks.dispatches_forgotten_ = forgotten.count;
    }
    TaskTable& tasks;
  };
  std::visit(Step{*this}, record);
}

void TaskTable::ApplyTask(const core::TaskRecord& record) {
  std::unique_ptr<Entry>& slot = entries_.try_emplace(entries_.end(), record.queue_id)->second;
  const bool is_new = slot == nullptr;
  if (is_new) {
    CHECK(std::holds_alternative<core::TaskAdmitted>(record.change)) << ToString(record.queue_id);
    slot = std::make_unique<Entry>();
  }
  Entry& entry = *slot;
  TaskState& task = entry.task;
  const Keys before = Keys::For(task);
  const LifecycleState state_before = task.state;
  dispatches_kept_ -= task.dispatch.value();
  core::Apply(record, terms_, task);
  dispatches_kept_ += task.dispatch.value();
  next_sequence_ = std::max(next_sequence_, task.sequence + 1);
  if (is_new) {
    IndexNewTask(entry, std::get<core::TaskAdmitted>(record.change));
    Count(task, task.state, 1);
  } else if (task.state != state_before) {
    Count(task, state_before, -1);
    Count(task, task.state, 1);
  }
  if (task.is_ended()) DropSpec(entry);
  Reindex(entry, before, Keys::For(task));
  if (task.session_id.empty()) return;
  if (const auto session = sessions_.find(task.session_id); session != sessions_.end()) {
    session->second.active_at = std::max(session->second.active_at, record.event.at);
  }
}

void TaskTable::IndexNewTask(Entry& entry, const core::TaskAdmitted& admitted) {
  const TaskState& task = entry.task;
  const core::SpecBytes& spec = admitted.spec->bytes;
  if (spec_bytes_ + spec->size() <= kSpecBytesMax) {
    entry.spec = spec;
    spec_bytes_ += spec->size();
  }
  if (admitted.redrive_of.has_value()) redriven_as_[*admitted.redrive_of] = task.queue_id;
  if (task.request_id.empty()) return;
  // An id may be reused a day after its task has ended. Then it stands for the later task.
  const auto [holder, is_new] = requests_.insert(RequestEntry(entry));
  if (is_new || holder->entry->task.admitted_sequence > task.admitted_sequence) return;
  requests_.erase(holder);
  requests_.insert(RequestEntry(entry));
}

void TaskTable::DropSpec(Entry& entry) {
  if (entry.spec == nullptr) return;
  spec_bytes_ -= entry.spec->size();
  entry.spec.reset();
}

void TaskTable::Count(const TaskState& task, LifecycleState state, int change) {
  CounterFor(counts_, state) += change;
  if (state == LifecycleState::kPending && IsFromScheduler(task)) scheduler_pending_ += change;
  const auto count = [&](std::map<std::string, core::LiveCount>& counts, const std::string& key) {
    core::LiveCount& live = counts[key];
    if (state == LifecycleState::kPending) live.queued += change;
    if (state == LifecycleState::kDispatching || state == LifecycleState::kWorking)
      live.running += change;
    if (live.queued == 0 && live.running == 0) counts.erase(key);
  };
  count(sources_, std::string(Name(task.terms->source)));
  if (!task.terms->fairness_key.empty()) count(fairness_keys_, task.terms->fairness_key);
}

void TaskTable::Reindex(Entry& entry, const Keys& before, const Keys& after) {
  Rekey(live_tasks_, before.live, after.live, &entry);
  Rekey(returned_, before.returned, after.returned, &entry);
  Rekey(fresh_, before.fresh, after.fresh, &entry);
  if (IsFromScheduler(entry.task)) Rekey(scheduler_fresh_, before.fresh, after.fresh, &entry);
  Rekey(ended_, before.ended, after.ended, &entry);
  if (before.pending != after.pending) {
    if (before.pending.has_value()) pending_sequences_.Erase(*before.pending);
    if (after.pending.has_value()) pending_sequences_.Insert(*after.pending);
  }
  const TaskState& task = entry.task;
  if (!task.session_id.empty()) ReindexTaskSession(task.session_id, entry, before, after);
  if (task.terms->overlap.has_value())
    ReindexOverlap(task.terms->overlap->key, entry, before, after);
}

void TaskTable::ReindexOverlap(const std::string& key, Entry& entry, const Keys& before,
                               const Keys& after) {
  OverlapGroup& others = overlaps_[key];
  Rekey(others.live, before.admitted, after.admitted, &entry);
  Rekey(others.queue_one, before.queue_one, after.queue_one, &entry);
  if (before.in_flight) --others.in_flight;
  if (after.in_flight) ++others.in_flight;
  if (others.live.empty()) overlaps_.erase(key);
}

void TaskTable::ReindexTaskSession(const std::string& session_id, Entry& entry, const Keys& before,
                                   const Keys& after) {
  if (before.admitted == after.admitted && before.ran_on == after.ran_on) return;
  TaskSession& session = sessions_[session_id];
  Rekey(session.live, before.admitted, after.admitted, &entry);
  if (after.ran_on.has_value()) {
    session.ran_on[entry.task.admitted_sequence] = *after.ran_on;
  } else {
    session.ran_on.erase(entry.task.admitted_sequence);
  }
  if (session.live.empty() && session.ran_on.empty()) sessions_.erase(session_id);
}

void TaskTable::Forget(core::QueueId id) {
  const auto found = entries_.find(id);
  CHECK(found != entries_.end()) << ToString(id);
  Entry& entry = *found->second;
  CHECK(entry.task.is_ended()) << ToString(id);
  Reindex(entry, Keys::For(entry.task), Keys());
  Count(entry.task, entry.task.state, -1);
  dispatches_kept_ -= entry.task.dispatch.value();
  redriven_as_.erase(id);
  const auto request = requests_.find(RequestEntry(entry));
  if (request != requests_.end() && request->entry == &entry) requests_.erase(request);
  const core::PlacementTerms terms = *entry.task.terms;
  entries_.erase(found);
  terms_.Release(terms);
}

Entry* TaskTable::Find(core::QueueId id) {
  const auto found = entries_.find(id);
  return found == entries_.end() ? nullptr : found->second.get();
}

uint64_t TaskTable::Position(const TaskState& task) const {
  return task.is_pending() ? 1 + pending_sequences_.CountBelow(task.sequence) : 0;
}

std::optional<core::QueueId> TaskTable::RedrivenAs(core::QueueId id) const {
  const auto found = redriven_as_.find(id);
  if (found == redriven_as_.end()) return std::nullopt;
  return found->second;
}

const Entry* TaskTable::OldestPending() const {
  if (fresh_.empty() && returned_.empty()) return nullptr;
  if (returned_.empty()) return fresh_.begin()->second;
  if (fresh_.empty()) return returned_.begin()->second;
  return std::min(*fresh_.begin(), *returned_.begin()).second;
}

Entry* TaskTable::OldestFresh(bool scheduler_only, const Entry* except) const {
  for (const auto& [sequence, entry] : scheduler_only ? scheduler_fresh_ : fresh_) {
    if (entry != except) return entry;
  }
  return nullptr;
}

Entry* TaskTable::FirstTaskOfSession(const std::string& session_id) const {
  const auto found = sessions_.find(session_id);
  if (found == sessions_.end() || found->second.live.empty()) return nullptr;
  return found->second.live.begin()->second;
}

std::string TaskTable::OwnerOfSession(const std::string& session_id) const {
  const auto found = sessions_.find(session_id);
  if (found == sessions_.end() || found->second.ran_on.empty()) return "";
  return found->second.ran_on.rbegin()->second;
}

const TaskTable::OverlapGroup* TaskTable::FindOverlapGroup(const std::string& key) const {
  const auto found = overlaps_.find(key);
  return found == overlaps_.end() ? nullptr : &found->second;
}

bool TaskTable::WaitsForOverlap(const TaskState& task) const {
  const std::optional<core::Overlap>& overlap = task.terms->overlap;
  if (!task.is_pending() || !overlap.has_value() ||
      overlap->policy != core::OverlapPolicy::kQueueOne) {
    return false;
  }
  return overlaps_.at(overlap->key).in_flight >= overlap->live_tasks_max();
}

std::optional<KnownRequest> TaskTable::FindRequest(const std::string& identity,
                                                   const std::string& request_id,
                                                   absl::Time now) const {
  if (const auto found = requests_.find(RequestView{identity, request_id});
      found != requests_.end()) {
    const TaskState& task = found->entry->task;
    if (!task.is_ended() || now < task.finished_at + core::kRequestMemory) {
      return KnownRequest{task.queue_id, task.state, task.fingerprint};
    }
  }
  if (remembered_.empty()) return std::nullopt;
  if (const auto found = remembered_.find(RequestKey(identity, request_id));
      found != remembered_.end()) {
    const core::RequestRemembered& request = found->second;
    if (now < request.forget_at) {
      return KnownRequest{request.queue_id, request.state, request.fingerprint};
    }
  }
  return std::nullopt;
}

void TaskTable::CheckIndexes() const {
  core::StateCounts counts;
  size_t live = 0;
  uint64_t dispatches = 0;
  for (const auto& [id, entry] : entries_) {
    const Keys keys = Keys::For(entry->task);
    ++CounterFor(counts, entry->task.state);
    dispatches += entry->task.dispatch.value();
    if (keys.live.has_value()) {
      ++live;
      CHECK(live_tasks_.at(*keys.live) == entry.get()) << ToString(id);
    }
    if (keys.pending.has_value()) CHECK(pending_sequences_.Contains(*keys.pending)) << ToString(id);
    if (keys.fresh.has_value()) CHECK(fresh_.at(*keys.fresh) == entry.get()) << ToString(id);
    if (keys.returned.has_value())
      CHECK(returned_.at(*keys.returned) == entry.get()) << ToString(id);
    if (keys.ended.has_value()) CHECK(ended_.contains(*keys.ended)) << ToString(id);
  }
  CHECK(counts == counts_);
  CHECK_EQ(dispatches, dispatches_kept_);
  CHECK_EQ(live_tasks_.size(), live);
  CHECK_EQ(pending_sequences_.size(), counts.pending);
  CHECK_EQ(fresh_.size() + returned_.size(), counts.pending);
  CHECK_EQ(ended_.size(), entries_.size() - live);
}

}  // namespace callboard::director
