#ifndef CALLBOARD_LIBS_DIRECTOR_BOOK_H_
#define CALLBOARD_LIBS_DIRECTOR_BOOK_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "libs/core/life.h"
#include "libs/core/queue.h"
#include "libs/core/ranked_set.h"
#include "libs/core/record.h"

namespace callboard::director {

struct Group;

// A task in memory: what its records say, and what this process makes of it. Of the latter nothing
// survives a restart.
struct Entry {
  core::Life life;
  // What was asked for; null when it is in the store only, as for all that have ended.
  core::SpecPtr spec = {};

  // All monotonic; of the current stay in line or dispatch.
  struct Clocks {
    // The end of its backoff.
    absl::Duration not_before = -absl::InfiniteDuration();
    // The agent's own time that the lease counts from, and when the lease ends here.
    absl::Duration agent_time = {};
    absl::Duration lease_until = absl::InfiniteDuration();
    // Copies of the start that were said and, as far as we know, written.
    uint32_t starts_said = 0;
    // When the start, or the cancel, is said again.
    absl::Duration repeat_at = absl::InfiniteDuration();
    // When the director itself ends a run that its agent should have ended.
    absl::Duration guard_at = absl::InfiniteDuration();
  };
  Clocks clocks = {};
  // Whether it backs off or waits for its earliest start.
  bool is_delayed = false;
  // The matcher's; null when it is not ready to start.
  Group* group = nullptr;
};

// What an ended or live task has to do with a request id.
struct KnownRequest {
  core::QueueId queue_id;
  core::TaskState state = core::TaskState::kPending;
  core::Fingerprint fingerprint = {};
};

// Everything that the records say, and every index over it.
//
// Apply() is the only way in which it changes, live and at recovery. A record touches its own task
// and that task's entries in the indexes, so the tasks of a store may come in any order. Each
// operation costs at most the logarithm of the number of tasks.
//
// Not thread-safe. Pointers to entries stay valid until their task is forgotten.
class Book {
 public:
  Book() = default;
  Book(const Book&) = delete;
  Book& operator=(const Book&) = delete;

  // What forbids that the record comes next, for people; empty when nothing does.
  std::string WhyImpossible(const core::Record& record) const;
  // Dies of what WhyImpossible() says.
  void Apply(const core::Record& record);

  // ---- The queue ----

  uint64_t epoch() const { return epoch_; }
  const core::QueueSwitched& switched() const { return switched_; }
  const core::LeasesExtended& extended() const { return extended_; }
  // Those that are drained or cordoned.
  const std::map<std::string, core::AgentMarked>& marked_agents() const { return marked_; }
  // Larger than every sequence number in use.
  uint64_t next_sequence() const { return next_sequence_; }

  // ---- Tasks ----

  // Null when there is none.
  Entry* Find(core::QueueId id);
  const Entry* Find(core::QueueId id) const { return const_cast<Book*>(this)->Find(id); }

  // 1 + the pending tasks with a smaller sequence number; 0 when it is not pending.
  uint64_t Position(const core::Life& life) const;
  // The task that was made of it anew; nothing when there is none.
  std::optional<core::QueueId> RedrivenAs(core::QueueId id) const;

  const core::StateCounts& counts() const { return counts_; }
  // By Name(source), and by fairness key for tasks that have one.
  const std::map<std::string, core::LiveCount>& sources() const { return sources_; }
  const std::map<std::string, core::LiveCount>& fairness_keys() const { return fairness_keys_; }
  // Dispatches since the store was created.
  uint64_t dispatches() const { return dispatches_kept_ + dispatches_forgotten_; }
  // Of these, those of tasks that are no longer known.
  uint64_t dispatches_forgotten() const { return dispatches_forgotten_; }
  uint64_t pending_of_scheduler() const { return pending_of_scheduler_; }
  // Null when nothing is pending. The one that was admitted first.
  const Entry* OldestPending() const;
  // The first in line that was never dispatched, other than `except`; of the scheduler alone when
  // `of_scheduler`. Null when there is none.
  Entry* OldestFresh(bool of_scheduler, const Entry* except = nullptr) const;

  // Every live task in line order: pending ones and, at the place they would return to, others.
  const absl::btree_map<uint64_t, Entry*>& line() const { return line_; }
  // Ended tasks, the one that ended first first.
  const absl::btree_map<std::pair<absl::Time, core::QueueId>, Entry*>& ended() const {
    return ended_;
  }

  // ---- Relations between tasks ----

  // The live task of the session that was admitted first: the only one whose turn it is.
  Entry* FirstOfSession(const std::string& session_id) const;
  // The agent that ran the session's latest task; empty when it is not known.
  std::string AgentOfSession(const std::string& session_id) const;

  struct Session {
    // In the order of their admission.
    absl::btree_map<uint64_t, Entry*> live;
    absl::btree_map<uint64_t, std::string> ran_on;
    // When something last happened to one of its tasks.
    absl::Time active_at = absl::InfinitePast();
  };
  // By name; those without live tasks too, as long as one of theirs is known.
  const absl::btree_map<std::string, Session>& sessions() const { return sessions_; }

  // The live tasks of an overlap key.
  struct Overlapping {
    // In the order of their admission; never empty.
    absl::btree_map<uint64_t, Entry*> live;
    // Of these, those that are dispatching or working.
    uint64_t in_flight = 0;
    // Pending ones with the policy queue_one, by their `n` and the order of their admission.
    absl::btree_map<std::pair<uint64_t, uint64_t>, Entry*> one_of;
  };
  // Null when there are none.
  const Overlapping* FindOverlapping(const std::string& key) const;
  // Whether so many tasks of its overlap key are in flight that it may not start beside them.
  bool WaitsForOverlap(const core::Life& life) const;

  // The task that the id stood for at `now`; nothing when it is free.
  std::optional<KnownRequest> FindRequest(const std::string& identity,
                                          const std::string& request_id, absl::Time now) const;
  // Request ids that outlive their task, in the order in which they may be forgotten.
  const absl::btree_set<std::pair<absl::Time, std::pair<std::string, std::string>>>& remembered()
      const {
    return remembered_order_;
  }

  // Dies when an index differs from what the tasks say. Costs as much as rebuilding them all.
  void CheckIndexes() const;

 private:
  // The most that specs take in memory; what is beyond is read from the store when it is needed.
  static constexpr uint64_t kSpecBytesMax = 16 << 20;

  using RequestKey = std::pair<std::string, std::string>;
  // Entries found by their request id, without a second copy of it. The hash is kept, so that a set
  // that grows does not look at them.
  struct Request {
    Request(absl::string_view of, absl::string_view id)
        : identity(of), request_id(id), hash(absl::HashOf(identity, request_id)) {}

    absl::string_view identity;
    absl::string_view request_id;
    size_t hash;
  };
  struct Requested {
    explicit Requested(Entry& of)
        : entry(&of), hash(Request(of.life.terms->identity, of.life.request_id).hash) {}

    Entry* entry;
    size_t hash;
  };
  struct RequestHash {
    using is_transparent = void;
    size_t operator()(const Request& request) const { return request.hash; }
    size_t operator()(const Requested& requested) const { return requested.hash; }
  };
  struct RequestEq {
    using is_transparent = void;
    bool operator()(const Requested& a, const Requested& b) const {
      return a.hash == b.hash && a.entry->life.request_id == b.entry->life.request_id &&
             a.entry->life.terms->identity == b.entry->life.terms->identity;
    }
    bool operator()(const Requested& a, const Request& b) const {
      return a.hash == b.hash && a.entry->life.request_id == b.request_id &&
             a.entry->life.terms->identity == b.identity;
    }
    bool operator()(const Request& a, const Requested& b) const { return (*this)(b, a); }
  };
  // Where the indexes have a task. An absent key: not there.
  struct Keys;

  void ApplyTask(const core::TaskRecord& record);
  void Forget(core::QueueId id);
  void Reindex(Entry& entry, const Keys& was, const Keys& is);
  void ReindexSession(const std::string& session_id, Entry& entry, const Keys& was, const Keys& is);
  void ReindexOverlap(const std::string& key, Entry& entry, const Keys& was, const Keys& is);
  void Count(const core::Life& life, core::TaskState was, int change);
  // What never changes while a task is known.
  void Introduce(Entry& entry, const core::Admitted& admitted);
  void DropSpec(Entry& entry);

  uint64_t epoch_ = 0;
  core::QueueSwitched switched_;
  core::LeasesExtended extended_;
  std::map<std::string, core::AgentMarked> marked_;
  uint64_t next_sequence_ = 1;
  uint64_t dispatches_kept_ = 0;
  uint64_t dispatches_forgotten_ = 0;

  // Ids grow, so what comes next to the last one is in the cache.
  absl::btree_map<core::QueueId, std::unique_ptr<Entry>> entries_;
  uint64_t spec_bytes_ = 0;
  core::TermsPool terms_;

  core::StateCounts counts_;
  std::map<std::string, core::LiveCount> sources_;
  std::map<std::string, core::LiveCount> fairness_keys_;
  uint64_t pending_of_scheduler_ = 0;

  absl::btree_map<uint64_t, Entry*> line_;
  core::RankedSet places_;
  // Pending ones, in the order of their admission: those that were never dispatched, and others.
  absl::btree_map<uint64_t, Entry*> fresh_;
  absl::btree_map<uint64_t, Entry*> returned_;
  absl::btree_map<uint64_t, Entry*> fresh_of_scheduler_;
  absl::btree_map<std::pair<absl::Time, core::QueueId>, Entry*> ended_;

  absl::btree_map<std::string, Session> sessions_;
  absl::flat_hash_map<std::string, Overlapping> overlaps_;
  absl::flat_hash_set<Requested, RequestHash, RequestEq> requests_;
  absl::flat_hash_map<RequestKey, core::RequestRemembered> remembered_;
  absl::btree_set<std::pair<absl::Time, RequestKey>> remembered_order_;
  absl::flat_hash_map<core::QueueId, core::QueueId> redriven_as_;
};

}  // namespace callboard::director

#endif  // CALLBOARD_LIBS_DIRECTOR_BOOK_H_
