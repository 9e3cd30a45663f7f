#ifndef CALLBOARD_LIBS_DIRECTOR_WAITER_QUEUE_H_
#define CALLBOARD_LIBS_DIRECTOR_WAITER_QUEUE_H_

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
#include "libs/base/value_types.h"
#include "libs/core/task.h"

namespace callboard::director {

// Identifies a request whose caller waits. Ids grow in the order of arrival.
using WaiterId = base::StrongId<struct WaiterIdTag, uint64_t>;

// A request for a place in the queue: for a task, or for a ticket.
struct AdmissionRequest {
  // Identity of the caller.
  std::string identity;
  // Arrival time of the call.
  absl::Time arrived;
  // Null for a ticket request. Shared with the task that it becomes.
  std::shared_ptr<core::Submission> submission = {};
  // The task that this submission repeats.
  std::optional<core::QueueId> redrive_of = {};
  absl::Duration ticket_lifetime = {};

  bool wants_ticket() const { return submission == nullptr; }
  bool is_scheduler() const {
    return !wants_ticket() && submission->spec.terms.source == core::TaskSource::kScheduler;
  }
};

AdmissionRequest MakeSubmitRequest(std::string identity, core::Submission&& submission,
                                   absl::Time arrived);

// Requests that wait for a place, in order of arrival. Requests of the scheduler are skipped while
// its share of the queue is used up. Bounded in number and in memory.
//
// Not thread-safe.
class WaiterQueue {
 public:
  WaiterQueue(uint32_t waiters_max, uint64_t bytes_max)
      : waiters_max_(waiters_max), bytes_max_(bytes_max) {}

  // Returns nothing and leaves `request` unchanged when the queue is full. An empty queue accepts
  // one request of any size.
  std::optional<WaiterId> Add(AdmissionRequest&& request);
  // Returns nothing when `id` is not in the queue.
  std::optional<AdmissionRequest> Remove(WaiterId id);
  // Returns the next request to admit; nothing when there is none.
  std::optional<WaiterId> Next(bool allow_scheduler) const;

  // Returns the waiters that submit with this request id, in order of arrival.
  std::vector<WaiterId> FindByRequestId(const std::string& identity,
                                        const std::string& request_id) const;

  // Whether the queue is full because of the number of waiters, not because of their size.
  bool has_too_many() const { return size() >= waiters_max_; }
  // Memory of the waiters.
  uint64_t bytes() const { return bytes_; }
  size_t size() const { return others_.size() + schedulers_.size(); }
  uint32_t ticket_request_count() const { return ticket_request_count_; }
  // Number of ticket requests of one caller.
  uint32_t TicketRequestCount(const std::string& identity) const;

 private:
  // Identity, request id, and order of arrival.
  using RequestKey = std::tuple<std::string, std::string, WaiterId>;

  static uint64_t BytesOf(const AdmissionRequest& request);

  const uint32_t waiters_max_;
  const uint64_t bytes_max_;
  uint64_t bytes_ = 0;
  uint64_t last_id_ = 0;
  uint32_t ticket_request_count_ = 0;
  std::map<std::string, uint32_t> ticket_requests_by_identity_;
  absl::btree_map<WaiterId, AdmissionRequest> others_;
  absl::btree_map<WaiterId, AdmissionRequest> schedulers_;
  absl::btree_set<RequestKey> by_request_;
};

// Places that callers have reserved for a later submit. Not thread-safe.
class Tickets {
 public:
  struct Ticket {
    std::string identity;
    absl::Duration until;
  };

  void Add(const std::string& name, Ticket ticket);
  // Returns whether the ticket holds a place for this caller.
  bool IsValid(const std::string& name, const std::string& identity, absl::Duration now) const;
  // Does nothing when there is no such ticket.
  void Release(const std::string& name);
  // Removes expired tickets.
  void Expire(absl::Duration now);
  void Clear();

  uint32_t size() const { return static_cast<uint32_t>(tickets_.size()); }
  uint32_t CountHeldBy(const std::string& identity) const;
  // Returns the earliest expiry; infinite without tickets.
  absl::Duration NextExpiry() const;

 private:
  std::map<std::string, Ticket> tickets_;
};

}  // namespace callboard::director

#endif  // CALLBOARD_LIBS_DIRECTOR_WAITER_QUEUE_H_
