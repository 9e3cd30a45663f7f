#include "tests/crash/history_checker.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace callboard::crash {
namespace {

using State = FoundTask::State;

// All answers that clients got for one request.
struct Request {
  std::string id;
  std::string content;
  // If it was accepted, then between these ticks.
  uint64_t earliest = kNever;
  uint64_t latest = kNever;
  bool is_acknowledged = false;
  // At least one call may have been done.
  bool is_possible = false;
  // From all answers.
  std::set<std::string> queue_ids = {};
  // Its first position in the queue.
  uint64_t position = 0;
  bool cancel_requested = false;
  bool cancel_done = false;
  // The tasks that were found for it.
  std::vector<const FoundTask*> found = {};

  bool IsPending() const {
    return !found.empty() && found.front()->state == FoundTask::State::kPending;
  }
};

class Checker {
 public:
  Checker(const History& history, const std::vector<FoundTask>& found, const QueueRules& rules)
      : history_(history), found_(found), rules_(rules) {
    for (const Call& call : history_) {
      if (call.kind == Call::Kind::kSubmit) AddSubmit(call);
    }
    for (const FoundTask& task : found_) {
      const auto request = requests_.find(task.request_id);
      if (request != requests_.end()) {
        request->second.found.push_back(&task);
        by_queue_id_[task.queue_id] = &request->second;
      }
    }
    for (const Call& call : history_) {
      if (call.kind == Call::Kind::kCancel) AddCancel(call);
    }
  }

  CheckResult Check() {
    for (const FoundTask& task : found_) CheckRequested(task);
    for (const auto& [id, request] : requests_) {
      CheckPresent(request);
      for (const FoundTask* task : request.found) CheckTask(request, *task);
    }
    CheckOrder();
    return std::move(check_result_);
  }

 private:
  void AddSubmit(const Call& call) {
    Request& request = requests_[call.request_id];
    request.id = call.request_id;
    request.content = call.content;
    if (call.answer == Call::Answer::kRejected) return;
    request.is_possible = true;
    request.earliest = std::min(request.earliest, call.invoked);
    if (call.answer != Call::Answer::kDone) return;
    request.is_acknowledged = true;
    request.latest = std::min(request.latest, call.answered);
    request.queue_ids.insert(call.queue_id);
    by_queue_id_[call.queue_id] = &request;
    if (!call.deduplicated) request.position = call.position;
  }

  void AddCancel(const Call& call) {
    first_cancel_ = std::min(first_cancel_, call.invoked);
    const auto request = by_queue_id_.find(call.queue_id);
    if (request == by_queue_id_.end() || call.answer == Call::Answer::kRejected) return;
    request->second->cancel_requested = true;
    if (call.answer == Call::Answer::kDone) request->second->cancel_done = true;
  }

  void CheckRequested(const FoundTask& task) {
    const auto request = requests_.find(task.request_id);
    if (request == requests_.end()) {
      check_result_.unexpected.push_back(absl::StrCat(task.queue_id, ": was never requested"));
    } else if (!request->second.is_possible) {
      check_result_.unexpected.push_back(absl::StrCat(task.request_id, ": was rejected"));
    }
  }

  void CheckPresent(const Request& request) {
    std::set<std::string> ids = request.queue_ids;
    for (const FoundTask* task : request.found) ids.insert(task->queue_id);
    if (ids.size() > 1 || request.found.size() > 1) {
      check_result_.duplicated.push_back(
          absl::StrCat(request.id, ": is ", absl::StrJoin(ids, " and ")));
    }
    if (!request.is_acknowledged) {
      if (!request.found.empty()) ++check_result_.recovered;
      return;
    }
    ++check_result_.acknowledged;
    if (!request.found.empty()) return;
    const bool may_have_ended = request.cancel_requested || MayBeEvicted(request);
    if (!rules_.forgets || !may_have_ended) {
      check_result_.lost.push_back(absl::StrCat(request.id, ": acknowledged as ",
                                                *request.queue_ids.begin(), ", but missing"));
    }
  }

  // Only the task at the front of the queue can be evicted: not while an earlier task is pending.
  bool MayBeEvicted(const Request& request) const {
    if (!rules_.evicts) return false;
    return std::none_of(requests_.begin(), requests_.end(), [&](const auto& other) {
      return other.second.IsPending() && other.second.latest < request.earliest;
    });
  }

  void CheckTask(const Request& request, const FoundTask& task) {
    const auto altered = [&](const std::string& how) {
      check_result_.altered.push_back(absl::StrCat(request.id, ": ", how));
    };
    if (task.content != request.content) altered("has another content than the request");
    switch (task.state) {
      case State::kPending:
        if (request.cancel_done) altered("was cancelled, but is pending");
        return;
      case State::kCancelled:
        if (!request.cancel_requested) altered("is cancelled without a cancel request");
        return;
      case State::kEvicted:
        if (!MayBeEvicted(request)) altered("was evicted, but was not first in the queue");
        return;
      case State::kRunning:
      case State::kCompleted:
        if (!rules_.runs) altered("was run without an agent");
        return;
      case State::kOther:
        if (!rules_.runs) altered("is in a state without a cause");
        return;
    }
  }

  // ---- The queue --------------------------------------------------------------------------------

  void CheckOrder() {
    std::vector<const FoundTask*> queue;
    for (const FoundTask& task : found_) {
      if (task.state == State::kPending) queue.push_back(&task);
    }
    std::sort(queue.begin(), queue.end(),
              [](const FoundTask* a, const FoundTask* b) { return a->position < b->position; });
    for (size_t i = 0; i < queue.size(); ++i) {
      place_[queue[i]->queue_id] = i;
      if (queue[i]->position != i + 1) {
        check_result_.reordered.push_back(absl::StrCat(queue[i]->request_id, ": is at position ",
                                                       queue[i]->position, ", behind ", i));
      }
    }
    CheckCallOrder();
    CheckShownOrder();
    CheckPositions();
  }

  // A task that was accepted before another was submitted is in front of it.
  void CheckCallOrder() {
    std::vector<const Request*> queue(place_.size());
    for (const auto& [id, request] : requests_) {
      if (request.IsPending()) queue[place_.at(request.found.front()->queue_id)] = &request;
    }
    queue.erase(std::remove(queue.begin(), queue.end(), nullptr), queue.end());
    const Request* last_asked = nullptr;
    for (const Request* request : queue) {
      if (last_asked != nullptr && request->latest < last_asked->earliest)
        AddReordered(*last_asked, *request);
      if (last_asked == nullptr || request->earliest > last_asked->earliest) last_asked = request;
    }
  }

  // The order of earlier lists.
  void CheckShownOrder() {
    for (const Call& call : history_) {
      size_t last = 0;
      for (const std::string& id : call.queue) {
        const auto place = place_.find(id);
        if (place == place_.end()) continue;
        if (place->second < last) {
          check_result_.reordered.push_back(
              absl::StrCat(id, ": was listed behind another task, but is in front of it"));
        }
        last = place->second;
      }
    }
  }

  // The positions in answers before any task left the queue.
  void CheckPositions() {
    if (rules_.evicts || rules_.runs) return;
    std::vector<const Request*> acknowledged;
    for (const auto& [id, request] : requests_) {
      if (request.position != 0 && request.latest < first_cancel_ && request.IsPending()) {
        acknowledged.push_back(&request);
      }
    }
    std::sort(acknowledged.begin(), acknowledged.end(),
              [](const Request* a, const Request* b) { return a->position < b->position; });
    for (size_t i = 1; i < acknowledged.size(); ++i) {
      const auto place = [this](const Request& request) {
        return place_.at(request.found.front()->queue_id);
      };
      if (acknowledged[i - 1]->position == acknowledged[i]->position ||
          place(*acknowledged[i - 1]) > place(*acknowledged[i])) {
        AddReordered(*acknowledged[i], *acknowledged[i - 1]);
      }
    }
  }

  void AddReordered(const Request& front, const Request& behind) {
    check_result_.reordered.push_back(
        absl::StrCat(front.id, ": is in front of ", behind.id, ", which was accepted before it"));
  }

  const History& history_;
  const std::vector<FoundTask>& found_;
  const QueueRules rules_;
  std::map<std::string, Request> requests_;
  std::map<std::string, Request*> by_queue_id_;
  uint64_t first_cancel_ = kNever;
  // Index of each pending task, from the front.
  std::map<std::string, size_t> place_;
  CheckResult check_result_;
};

}  // namespace

History HistoryUntil(uint64_t tick, const History& history) {
  History until;
  for (const Call& call : history) {
    if (call.invoked > tick) continue;
    until.push_back(call);
    if (call.answered <= tick) continue;
    until.back().answered = kNever;
    until.back().answer = Call::Answer::kUnknown;
    until.back().queue.clear();
    if (call.kind == Call::Kind::kSubmit) until.back().queue_id.clear();
  }
  return until;
}

bool CheckResult::ok() const {
  return lost.empty() && unexpected.empty() && duplicated.empty() && altered.empty() &&
         reordered.empty();
}

std::string CheckResult::ToString() const {
  std::string text = absl::StrCat(acknowledged, " acknowledged, ", recovered, " recovered");
  const auto add = [&text](const char* what, const std::vector<std::string>& lines) {
    absl::StrAppend(&text, ", ", lines.size(), " ", what);
    for (const std::string& line : lines) absl::StrAppend(&text, "\n  ", line);
  };
  add("lost", lost);
  add("unexpected", unexpected);
  add("duplicated", duplicated);
  add("altered", altered);
  add("reordered", reordered);
  return text;
}

CheckResult CheckHistory(const History& history, const std::vector<FoundTask>& found,
                         const QueueRules& rules) {
  return Checker(history, found, rules).Check();
}

}  // namespace callboard::crash
