#include "libs/director/book.h"

#include <algorithm>
#include <variant>

#include "absl/strings/str_cat.h"
#include "libs/base/check.h"

namespace callboard::director {
namespace {

using core::Life;
using core::TaskState;

bool IsOfScheduler(const Life& life) { return life.terms->source == core::TaskSource::kScheduler; }

// What a spec takes in memory, about.
uint64_t BytesOf(const core::TaskSpec& spec) {
  uint64_t bytes = sizeof(spec) + spec.prompt.size() + spec.payload.size();
  for (const auto& [name, value] : spec.env) bytes += name.size() + value.size();
  return bytes;
}

// The place in line that a change gives to its task.
std::optional<uint64_t> PlaceIn(const core::TaskChange& change) {
  if (const auto* admitted = std::get_if<core::Admitted>(&change)) return admitted->sequence;
  if (const auto* bounced = std::get_if<core::Bounced>(&change)) return bounced->sequence;
  if (const auto* returned = std::get_if<core::Returned>(&change)) return returned->sequence;
  return std::nullopt;
}

// Moves `entry` in an index from one key to another; an absent key means not in it.
template <class Index, class Key>
void Rekey(Index& index, const std::optional<Key>& was, const std::optional<Key>& is,
           Entry* entry) {
  if (was == is) return;
  if (was.has_value()) CHECK_EQ(index.erase(*was), 1u);
  // Most come in at the end.
  if (is.has_value()) CHECK(index.emplace_hint(index.end(), *is, entry)->second == entry);
}

}  // namespace

struct Book::Keys {
  static Keys Of(const Life& life) {
    Keys keys;
    if (life.events == 0) return keys;
    if (life.is_ended()) {
      keys.ended = {{life.finished_at, life.queue_id}};
    } else {
      keys.line = life.sequence;
      keys.turn = life.admitted;
    }
    if (life.is_pending()) {
      keys.place = life.sequence;
      (life.dispatch == core::DispatchNumber() ? keys.fresh : keys.returned) = life.admitted;
    }
    if (!life.ran_on().empty()) keys.ran_on = life.ran_on();
    keys.in_flight = life.is_in_flight();
    const std::optional<core::Overlap>& overlap = life.terms->overlap;
    if (life.is_pending() && overlap.has_value() &&
        overlap->policy == core::OverlapPolicy::kQueueOne) {
      keys.one_of = {{overlap->most_at_once(), life.admitted}};
    }
    return keys;
  }

  // Of live tasks: the sequence number, and the first one they had.
  std::optional<uint64_t> line = {};
  std::optional<uint64_t> turn = {};
  // Of pending ones: their place; and, of those that were never dispatched, which have the place
  // they came to, or else of the others, the first one they had.
  std::optional<uint64_t> place = {};
  std::optional<uint64_t> fresh = {};
  std::optional<uint64_t> returned = {};
  std::optional<std::pair<absl::Time, core::QueueId>> ended = {};
  std::optional<std::string> ran_on = {};
  bool in_flight = false;
  // Of pending ones whose overlap policy is queue_one.
  std::optional<std::pair<uint64_t, uint64_t>> one_of = {};
};

std::string Book::WhyImpossible(const core::Record& record) const {
  if (const auto* began = std::get_if<core::EpochBegan>(&record)) {
    if (began->epoch > epoch_) return "";
    return absl::StrCat("epoch ", began->epoch, " does not come after epoch ", epoch_);
  }
  const auto* task = std::get_if<core::TaskRecord>(&record);
  if (task == nullptr) return "";
  static const Life* const unborn = new Life();
  const Entry* const entry = Find(task->queue_id);
  std::string why = core::WhyImpossible(*task, entry == nullptr ? *unborn : entry->life);
  if (const std::optional<uint64_t> place = PlaceIn(task->change); why.empty() && place) {
    const auto holder = line_.find(*place);
    if (holder != line_.end() && holder->second != entry) {
      why = absl::StrCat("takes place ", *place, " of ", ToString(holder->second->life.queue_id));
    }
  }
  if (why.empty()) return "";
  return absl::StrCat("task ", ToString(task->queue_id), ": record ", task->number, " ", why);
}

void Book::Apply(const core::Record& record) {
  struct Step {
    void operator()(const core::TaskRecord& task) const { book.ApplyTask(task); }
    void operator()(const core::TaskForgotten& forgotten) const { book.Forget(forgotten.queue_id); }
    void operator()(const core::EpochBegan& began) const {
      CHECK_GT(began.epoch, book.epoch_);
      book.epoch_ = began.epoch;
    }
    void operator()(const core::QueueSwitched& switched) const { book.switched_ = switched; }
    void operator()(const core::LeasesExtended& extended) const { book.extended_ = extended; }
    void operator()(const core::AgentMarked& marked) const {
      if (marked.draining || !marked.cordoned_instance.empty()) {
        book.marked_[marked.name] = marked;
      } else {
        book.marked_.erase(marked.name);
      }
    }
    void operator()(const core::RequestRemembered& request) const {
      RequestKey key = {request.identity, request.request_id};
      const auto [found, is_new] = book.remembered_.emplace(key, request);
      // The id was used again before it was forgotten here: it stands for the later task.
      if (!is_new) book.remembered_order_.erase({found->second.forget_at, key});
      found->second = request;
      book.remembered_order_.emplace(request.forget_at, std::move(key));
    }
    void operator()(const core::RequestForgotten& request) const {
      const auto found = book.remembered_.find({request.identity, request.request_id});
      CHECK(found != book.remembered_.end());
      book.remembered_order_.erase({found->second.forget_at, found->first});
      book.remembered_.erase(found);
    }
    void operator()(const core::DispatchesForgotten& forgotten) const {
      book.dispatches_forgotten_ = forgotten.count;
    }
    Book& book;
  };
  std::visit(Step{*this}, record);
}

void Book::ApplyTask(const core::TaskRecord& record) {
  std::unique_ptr<Entry>& slot = entries_.try_emplace(entries_.end(), record.queue_id)->second;
  const bool is_new = slot == nullptr;
  if (is_new) {
    CHECK(std::holds_alternative<core::Admitted>(record.change)) << ToString(record.queue_id);
    slot = std::make_unique<Entry>();
  }
  Entry& entry = *slot;
  Life& life = entry.life;
  const Keys was = Keys::Of(life);
  const TaskState state_before = life.state;
  dispatches_kept_ -= life.dispatch.value();
  core::Apply(record, terms_, life);
  dispatches_kept_ += life.dispatch.value();
  next_sequence_ = std::max(next_sequence_, life.sequence + 1);
  if (is_new) {
    Introduce(entry, std::get<core::Admitted>(record.change));
    Count(life, life.state, 1);
  } else if (life.state != state_before) {
    Count(life, state_before, -1);
    Count(life, life.state, 1);
  }
  if (life.is_ended()) DropSpec(entry);
  Reindex(entry, was, Keys::Of(life));
  if (life.session_id.empty()) return;
  if (const auto session = sessions_.find(life.session_id); session != sessions_.end()) {
    session->second.active_at = std::max(session->second.active_at, record.event.at);
  }
}

void Book::Introduce(Entry& entry, const core::Admitted& admitted) {
  const Life& life = entry.life;
  const uint64_t bytes = BytesOf(*admitted.spec);
  if (spec_bytes_ + bytes <= kSpecBytesMax) {
    entry.spec = admitted.spec;
    spec_bytes_ += bytes;
  }
  if (admitted.redrive_of.has_value()) redriven_as_[*admitted.redrive_of] = life.queue_id;
  if (life.request_id.empty()) return;
  // An id may be used again a day after its task has ended; then it stands for the later task.
  const auto [holder, is_new] = requests_.insert(Requested(entry));
  if (is_new || holder->entry->life.admitted > life.admitted) return;
  requests_.erase(holder);
  requests_.insert(Requested(entry));
}

void Book::DropSpec(Entry& entry) {
  if (entry.spec == nullptr) return;
  spec_bytes_ -= BytesOf(*entry.spec);
  entry.spec.reset();
}

void Book::Count(const Life& life, TaskState state, int change) {
  CountOf(counts_, state) += change;
  if (state == TaskState::kPending && IsOfScheduler(life)) pending_of_scheduler_ += change;
  const auto count = [&](std::map<std::string, core::LiveCount>& counts, const std::string& key) {
    core::LiveCount& live = counts[key];
    if (state == TaskState::kPending) live.queued += change;
    if (state == TaskState::kDispatching || state == TaskState::kWorking) live.running += change;
    if (live.queued == 0 && live.running == 0) counts.erase(key);
  };
  count(sources_, std::string(Name(life.terms->source)));
  if (!life.terms->fairness_key.empty()) count(fairness_keys_, life.terms->fairness_key);
}

void Book::Reindex(Entry& entry, const Keys& was, const Keys& is) {
  Rekey(line_, was.line, is.line, &entry);
  Rekey(returned_, was.returned, is.returned, &entry);
  Rekey(fresh_, was.fresh, is.fresh, &entry);
  if (IsOfScheduler(entry.life)) Rekey(fresh_of_scheduler_, was.fresh, is.fresh, &entry);
  Rekey(ended_, was.ended, is.ended, &entry);
  if (was.place != is.place) {
    if (was.place.has_value()) places_.Erase(*was.place);
    if (is.place.has_value()) places_.Insert(*is.place);
  }
  const Life& life = entry.life;
  if (!life.session_id.empty()) ReindexSession(life.session_id, entry, was, is);
  if (life.terms->overlap.has_value()) ReindexOverlap(life.terms->overlap->key, entry, was, is);
}

void Book::ReindexOverlap(const std::string& key, Entry& entry, const Keys& was, const Keys& is) {
  Overlapping& others = overlaps_[key];
  Rekey(others.live, was.turn, is.turn, &entry);
  Rekey(others.one_of, was.one_of, is.one_of, &entry);
  if (was.in_flight) --others.in_flight;
  if (is.in_flight) ++others.in_flight;
  if (others.live.empty()) overlaps_.erase(key);
}

void Book::ReindexSession(const std::string& session_id, Entry& entry, const Keys& was,
                          const Keys& is) {
  if (was.turn == is.turn && was.ran_on == is.ran_on) return;
  Session& session = sessions_[session_id];
  Rekey(session.live, was.turn, is.turn, &entry);
  if (is.ran_on.has_value()) {
    session.ran_on[entry.life.admitted] = *is.ran_on;
  } else {
    session.ran_on.erase(entry.life.admitted);
  }
  if (session.live.empty() && session.ran_on.empty()) sessions_.erase(session_id);
}

void Book::Forget(core::QueueId id) {
  const auto found = entries_.find(id);
  CHECK(found != entries_.end()) << ToString(id);
  Entry& entry = *found->second;
  CHECK(entry.life.is_ended()) << ToString(id);
  Reindex(entry, Keys::Of(entry.life), Keys());
  Count(entry.life, entry.life.state, -1);
  dispatches_kept_ -= entry.life.dispatch.value();
  redriven_as_.erase(id);
  const auto request = requests_.find(Requested(entry));
  if (request != requests_.end() && request->entry == &entry) requests_.erase(request);
  const core::Terms terms = *entry.life.terms;
  entries_.erase(found);
  terms_.Release(terms);
}

Entry* Book::Find(core::QueueId id) {
  const auto found = entries_.find(id);
  return found == entries_.end() ? nullptr : found->second.get();
}

uint64_t Book::Position(const Life& life) const {
  return life.is_pending() ? 1 + places_.CountBelow(life.sequence) : 0;
}

std::optional<core::QueueId> Book::RedrivenAs(core::QueueId id) const {
  const auto found = redriven_as_.find(id);
  if (found == redriven_as_.end()) return std::nullopt;
  return found->second;
}

const Entry* Book::OldestPending() const {
  if (fresh_.empty() && returned_.empty()) return nullptr;
  if (returned_.empty()) return fresh_.begin()->second;
  if (fresh_.empty()) return returned_.begin()->second;
  return std::min(*fresh_.begin(), *returned_.begin()).second;
}

Entry* Book::OldestFresh(bool of_scheduler, const Entry* except) const {
  for (const auto& [sequence, entry] : of_scheduler ? fresh_of_scheduler_ : fresh_) {
    if (entry != except) return entry;
  }
  return nullptr;
}

Entry* Book::FirstOfSession(const std::string& session_id) const {
  const auto found = sessions_.find(session_id);
  if (found == sessions_.end() || found->second.live.empty()) return nullptr;
  return found->second.live.begin()->second;
}

std::string Book::AgentOfSession(const std::string& session_id) const {
  const auto found = sessions_.find(session_id);
  if (found == sessions_.end() || found->second.ran_on.empty()) return "";
  return found->second.ran_on.rbegin()->second;
}

const Book::Overlapping* Book::FindOverlapping(const std::string& key) const {
  const auto found = overlaps_.find(key);
  return found == overlaps_.end() ? nullptr : &found->second;
}

bool Book::WaitsForOverlap(const Life& life) const {
  const std::optional<core::Overlap>& overlap = life.terms->overlap;
  if (!life.is_pending() || !overlap.has_value() ||
      overlap->policy != core::OverlapPolicy::kQueueOne) {
    return false;
  }
  return overlaps_.at(overlap->key).in_flight >= overlap->most_at_once();
}

std::optional<KnownRequest> Book::FindRequest(const std::string& identity,
                                              const std::string& request_id, absl::Time now) const {
  if (const auto found = requests_.find(Request{identity, request_id}); found != requests_.end()) {
    const Life& life = found->entry->life;
    if (!life.is_ended() || now < life.finished_at + core::kRequestMemory) {
      return KnownRequest{life.queue_id, life.state, life.fingerprint};
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

void Book::CheckIndexes() const {
  core::StateCounts counts;
  size_t live = 0;
  uint64_t dispatches = 0;
  for (const auto& [id, entry] : entries_) {
    const Keys keys = Keys::Of(entry->life);
    ++CountOf(counts, entry->life.state);
    dispatches += entry->life.dispatch.value();
    if (keys.line.has_value()) {
      ++live;
      CHECK(line_.at(*keys.line) == entry.get()) << ToString(id);
    }
    if (keys.place.has_value()) CHECK(places_.Contains(*keys.place)) << ToString(id);
    if (keys.fresh.has_value()) CHECK(fresh_.at(*keys.fresh) == entry.get()) << ToString(id);
    if (keys.returned.has_value())
      CHECK(returned_.at(*keys.returned) == entry.get()) << ToString(id);
    if (keys.ended.has_value()) CHECK(ended_.contains(*keys.ended)) << ToString(id);
  }
  CHECK(counts == counts_);
  CHECK_EQ(dispatches, dispatches_kept_);
  CHECK_EQ(line_.size(), live);
  CHECK_EQ(places_.size(), counts.pending);
  CHECK_EQ(fresh_.size() + returned_.size(), counts.pending);
  CHECK_EQ(ended_.size(), entries_.size() - live);
}

}  // namespace callboard::director
