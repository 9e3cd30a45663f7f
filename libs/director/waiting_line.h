#ifndef CALLBOARD_LIBS_DIRECTOR_WAITING_LINE_H_
#define CALLBOARD_LIBS_DIRECTOR_WAITING_LINE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/time/time.h"
#include "libs/base/strong_id.h"
#include "libs/core/fingerprint.h"
#include "libs/core/task.h"

namespace callboard::director {

// A caller who waits. Ids grow in the order of arrival.
using WaiterId = base::StrongId<struct WaiterIdTag, uint64_t>;

// A caller at the door: somebody who submits, or who asks for a ticket.
struct Caller {
  std::string identity;
  // When the call arrived.
  absl::Time arrived;
  // Null for one who asks for a ticket. Shared with the task that it becomes.
  std::shared_ptr<core::Submission> submission = {};
  // Of what it submits; nobody asks for that of a task without a request id.
  core::Fingerprint fingerprint = {};
  // Of a task that is being tried again.
  std::optional<core::QueueId> redrive_of = {};
  absl::Duration ticket_lifetime = {};

  bool wants_ticket() const { return submission == nullptr; }
  bool is_scheduler() const {
    return !wants_ticket() && submission->spec.source == core::TaskSource::kScheduler;
  }
};

Caller Submitter(std::string identity, core::Submission&& submission, absl::Time arrived);

// Callers without a place, first come first served, except that those of the scheduler are passed
// by while its share of the queue is used up. Bounded in number and in what they hold in memory.
//
// Not thread-safe.
class WaitingLine {
 public:
  WaitingLine(uint32_t waiters_max, uint64_t bytes_max)
      : waiters_max_(waiters_max), bytes_max_(bytes_max) {}

  // Nothing, and `caller` is as before, when the line has no room. However large it is, one may
  // wait.
  std::optional<WaiterId> Add(Caller&& caller);
  // Nothing when it is not in line.
  std::optional<Caller> Remove(WaiterId id);
  // The next in turn; nothing when nobody may come.
  std::optional<WaiterId> Next(bool scheduler_may) const;

  // Those who submit with the request id, in the order of their arrival.
  std::vector<WaiterId> WithRequest(const std::string& identity,
                                    const std::string& request_id) const;

  // Whether their number, and not their size, keeps others out.
  bool has_too_many() const { return size() >= waiters_max_; }
  // What the waiters hold in memory.
  uint64_t bytes() const { return bytes_; }
  size_t size() const { return others_.size() + schedulers_.size(); }
  uint32_t wanting_tickets() const { return wanting_tickets_; }
  // Of this caller.
  uint32_t WantingTickets(const std::string& identity) const;

 private:
  // By whom and with which request id, then by arrival.
  using Requested = std::tuple<std::string, std::string, WaiterId>;

  static uint64_t BytesOf(const Caller& caller);

  const uint32_t waiters_max_;
  const uint64_t bytes_max_;
  uint64_t bytes_ = 0;
  uint64_t last_id_ = 0;
  uint32_t wanting_tickets_ = 0;
  std::map<std::string, uint32_t> wanting_by_identity_;
  absl::btree_map<WaiterId, Caller> others_;
  absl::btree_map<WaiterId, Caller> schedulers_;
  absl::btree_set<Requested> requested_;
};

// Places that callers hold without a task yet. Not thread-safe.
class Tickets {
 public:
  struct Ticket {
    std::string identity;
    absl::Duration until;
  };

  void Add(const std::string& name, Ticket ticket);
  // Whether it holds a place for this caller.
  bool IsValid(const std::string& name, const std::string& identity, absl::Duration now) const;
  // Does nothing when there is no such ticket.
  void Release(const std::string& name);
  // Drops those that are over.
  void Expire(absl::Duration now);
  void Clear();

  uint32_t size() const { return static_cast<uint32_t>(tickets_.size()); }
  uint32_t HeldBy(const std::string& identity) const;
  // When the first is over; never when there is none.
  absl::Duration NextEnd() const;

 private:
  std::map<std::string, Ticket> tickets_;
};

}  // namespace callboard::director

#endif  // CALLBOARD_LIBS_DIRECTOR_WAITING_LINE_H_
