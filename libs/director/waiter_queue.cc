#include "libs/director/waiter_queue.h"

#include <algorithm>
#include <utility>

namespace callboard::director {
namespace {

// Size of a map entry without its two strings.
constexpr uint64_t kNodeBytes = 96;

// Returns null for a request without a request id.
const std::string* RequestIdOf(const AdmissionRequest& request) {
  if (request.wants_ticket() || request.submission->spec.request_id.empty()) return nullptr;
  return &request.submission->spec.request_id;
}

}  // namespace

uint64_t WaiterQueue::BytesOf(const AdmissionRequest& request) {
  uint64_t bytes = sizeof(AdmissionRequest) + request.identity.size();
  if (request.wants_ticket()) return bytes;
  const core::TaskSpec& spec = request.submission->spec;
  bytes += sizeof(core::Submission) + spec.bytes->size();
  for (const auto* labels : {&spec.terms.labels, &spec.terms.required_labels}) {
    for (const auto& [name, value] : *labels) bytes += kNodeBytes + name.size() + value.size();
  }
  return bytes;
}

std::vector<WaiterId> WaiterQueue::FindByRequestId(const std::string& identity,
                                                   const std::string& request_id) const {
  std::vector<WaiterId> waiters;
  for (auto next = by_request_.lower_bound({identity, request_id, WaiterId()});
       next != by_request_.end() && std::get<0>(*next) == identity &&
       std::get<1>(*next) == request_id;
       ++next) {
    waiters.push_back(std::get<2>(*next));
  }
  return waiters;
}

AdmissionRequest MakeSubmitRequest(std::string identity, core::Submission&& submission,
                                   absl::Time arrived) {
  return {.identity = std::move(identity),
          .arrived = arrived,
          .submission = std::make_shared<core::Submission>(std::move(submission))};
}

std::optional<WaiterId> WaiterQueue::Add(AdmissionRequest&& request) {
  const uint64_t bytes = BytesOf(request);
  if (has_too_many() || (size() > 0 && bytes_ + bytes > bytes_max_)) return std::nullopt;
  bytes_ += bytes;
  if (request.wants_ticket()) {
    ++ticket_request_count_;
    ++ticket_requests_by_identity_[request.identity];
  }
  const WaiterId id(++last_id_);
  if (const std::string* request_id = RequestIdOf(request)) {
    by_request_.emplace(request.identity, *request_id, id);
  }
  (request.is_scheduler() ? schedulers_ : others_).emplace(id, std::move(request));
  return id;
}

std::optional<AdmissionRequest> WaiterQueue::Remove(WaiterId id) {
  for (auto* queue : {&others_, &schedulers_}) {
    const auto found = queue->find(id);
    if (found == queue->end()) continue;
    AdmissionRequest request = std::move(found->second);
    queue->erase(found);
    bytes_ -= BytesOf(request);
    if (const std::string* request_id = RequestIdOf(request)) {
      by_request_.erase({request.identity, *request_id, id});
    }
    if (request.wants_ticket()) {
      --ticket_request_count_;
      const auto wanting = ticket_requests_by_identity_.find(request.identity);
      if (--wanting->second == 0) ticket_requests_by_identity_.erase(wanting);
    }
    return request;
  }
  return std::nullopt;
}

std::optional<WaiterId> WaiterQueue::Next(bool allow_scheduler) const {
  std::optional<WaiterId> next;
  if (!others_.empty()) next = others_.begin()->first;
  if (allow_scheduler && !schedulers_.empty()) {
    const WaiterId first = schedulers_.begin()->first;
    if (!next.has_value() || first < *next) next = first;
  }
  return next;
}

uint32_t WaiterQueue::TicketRequestCount(const std::string& identity) const {
  const auto found = ticket_requests_by_identity_.find(identity);
  return found == ticket_requests_by_identity_.end() ? 0 : found->second;
}

void Tickets::Add(const std::string& name, Ticket ticket) {
  tickets_.emplace(name, std::move(ticket));
}

bool Tickets::IsValid(const std::string& name, const std::string& identity,
                      absl::Duration now) const {
  const auto found = tickets_.find(name);
  return found != tickets_.end() && found->second.identity == identity && now < found->second.until;
}

void Tickets::Release(const std::string& name) { tickets_.erase(name); }

void Tickets::Expire(absl::Duration now) {
  std::erase_if(tickets_, [now](const auto& ticket) { return now >= ticket.second.until; });
}

void Tickets::Clear() { tickets_.clear(); }

uint32_t Tickets::CountHeldBy(const std::string& identity) const {
  return static_cast<uint32_t>(std::count_if(
      tickets_.begin(), tickets_.end(),
      [&identity](const auto& ticket) { return ticket.second.identity == identity; }));
}

absl::Duration Tickets::NextExpiry() const {
  absl::Duration next = absl::InfiniteDuration();
  for (const auto& [name, ticket] : tickets_) next = std::min(next, ticket.until);
  return next;
}

}  // namespace callboard::director
