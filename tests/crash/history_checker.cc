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

// All that clients know of one request.
struct Request {
  std::string id;
  std::string content;
  // It was accepted in between, if it was.
  uint64_t earliest = kNever;
  uint64_t latest = kNever;
  bool is_acknowledged = false;
  // Some call may have been done.
  bool is_possible = false;
  // As told, by every answer.
  std::set<std::string> queue_ids = {};
  // Where it was put in line.
  uint64_t position = 0;
  bool cancel_asked = false;
  bool cancel_done = false;
  // Where it was found.
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

  Verdict Check() {
    for (const FoundTask& task : found_) CheckWanted(task);
    for (const auto& [id, request] : requests_) {
      CheckThere(request);
      for (const FoundTask* task : request.found) CheckTask(request, *task);
    }
    CheckOrder();
    return std::move(verdict_);
  }

 private:
  void AddSubmit(const Call& call) {
    Request& request = requests_[call.request_id];
    request.id = call.request_id;
    request.content = call.content;
    if (call.answer == Call::Answer::kRefused) return;
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
    if (request == by_queue_id_.end() || call.answer == Call::Answer::kRefused) return;
    request->second->cancel_asked = true;
    if (call.answer == Call::Answer::kDone) request->second->cancel_done = true;
  }

  void CheckWanted(const FoundTask& task) {
    const auto request = requests_.find(task.request_id);
    if (request == requests_.end()) {
      verdict_.unexpected.push_back(absl::StrCat(task.queue_id, ": nobody asked for it"));
    } else if (!request->second.is_possible) {
      verdict_.unexpected.push_back(absl::StrCat(task.request_id, ": it was refused"));
    }
  }

  void CheckThere(const Request& request) {
    std::set<std::string> ids = request.queue_ids;
    for (const FoundTask* task : request.found) ids.insert(task->queue_id);
    if (ids.size() > 1 || request.found.size() > 1) {
      verdict_.duplicated.push_back(absl::StrCat(request.id, ": is ", absl::StrJoin(ids, " and ")));
    }
    if (!request.is_acknowledged) {
      if (!request.found.empty()) ++verdict_.recovered;
      return;
    }
    ++verdict_.acknowledged;
    if (!request.found.empty()) return;
    const bool may_have_ended = request.cancel_asked || MayBeEvicted(request);
    if (!rules_.forgets || !may_have_ended) {
      verdict_.lost.push_back(absl::StrCat(request.id, ": acknowledged as ",
                                           *request.queue_ids.begin(), ", and not there"));
    }
  }

  // Only the one in front of the line is evicted: not while one that was accepted before it waits.
  bool MayBeEvicted(const Request& request) const {
    if (!rules_.evicts) return false;
    return std::none_of(requests_.begin(), requests_.end(), [&](const auto& other) {
      return other.second.IsPending() && other.second.latest < request.earliest;
    });
  }

  void CheckTask(const Request& request, const FoundTask& task) {
    const auto altered = [&](const std::string& how) {
      verdict_.altered.push_back(absl::StrCat(request.id, ": ", how));
    };
    if (task.content != request.content) altered("is not what was asked for");
    switch (task.state) {
      case State::kPending:
        if (request.cancel_done) altered("was cancelled, and waits in line");
        return;
      case State::kCancelled:
        if (!request.cancel_asked) altered("is cancelled, and nobody asked for that");
        return;
      case State::kEvicted:
        if (!MayBeEvicted(request)) altered("is evicted, and not the first in line");
        return;
      case State::kRunning:
      case State::kCompleted:
        if (!rules_.runs) altered("was run, and there is no agent");
        return;
      case State::kOther:
        if (!rules_.runs) altered("is in a state that nobody brought it to");
        return;
    }
  }

  // ---- The line ---------------------------------------------------------------------------------

  void CheckOrder() {
    std::vector<const FoundTask*> line;
    for (const FoundTask& task : found_) {
      if (task.state == State::kPending) line.push_back(&task);
    }
    std::sort(line.begin(), line.end(),
              [](const FoundTask* a, const FoundTask* b) { return a->position < b->position; });
    for (size_t i = 0; i < line.size(); ++i) {
      place_[line[i]->queue_id] = i;
      if (line[i]->position != i + 1) {
        verdict_.reordered.push_back(absl::StrCat(line[i]->request_id, ": is at position ",
                                                  line[i]->position, ", behind ", i));
      }
    }
    CheckCallOrder();
    CheckShownOrder();
    CheckPositions();
  }

  // Accepted before another one was asked for: in front of it.
  void CheckCallOrder() {
    std::vector<const Request*> line(place_.size());
    for (const auto& [id, request] : requests_) {
      if (request.IsPending()) line[place_.at(request.found.front()->queue_id)] = &request;
    }
    line.erase(std::remove(line.begin(), line.end(), nullptr), line.end());
    const Request* last_asked = nullptr;
    for (const Request* request : line) {
      if (last_asked != nullptr && request->latest < last_asked->earliest)
        Swapped(*last_asked, *request);
      if (last_asked == nullptr || request->earliest > last_asked->earliest) last_asked = request;
    }
  }

  // As a list showed it.
  void CheckShownOrder() {
    for (const Call& call : history_) {
      size_t last = 0;
      for (const std::string& id : call.line) {
        const auto place = place_.find(id);
        if (place == place_.end()) continue;
        if (place->second < last) {
          verdict_.reordered.push_back(absl::StrCat(id, ": was shown behind, and is in front"));
        }
        last = place->second;
      }
    }
  }

  // By the positions that were told before anybody left the line.
  void CheckPositions() {
    if (rules_.evicts || rules_.runs) return;
    std::vector<const Request*> told;
    for (const auto& [id, request] : requests_) {
      if (request.position != 0 && request.latest < first_cancel_ && request.IsPending()) {
        told.push_back(&request);
      }
    }
    std::sort(told.begin(), told.end(),
              [](const Request* a, const Request* b) { return a->position < b->position; });
    for (size_t i = 1; i < told.size(); ++i) {
      const auto place = [this](const Request& request) {
        return place_.at(request.found.front()->queue_id);
      };
      if (told[i - 1]->position == told[i]->position || place(*told[i - 1]) > place(*told[i])) {
        Swapped(*told[i], *told[i - 1]);
      }
    }
  }

  void Swapped(const Request& front, const Request& behind) {
    verdict_.reordered.push_back(
        absl::StrCat(front.id, ": is in front of ", behind.id, ", which was accepted before it"));
  }

  const History& history_;
  const std::vector<FoundTask>& found_;
  const QueueRules rules_;
  std::map<std::string, Request> requests_;
  std::map<std::string, Request*> by_queue_id_;
  uint64_t first_cancel_ = kNever;
  // Of what is pending, from the front.
  std::map<std::string, size_t> place_;
  Verdict verdict_;
};

}  // namespace

History UpTo(uint64_t tick, const History& history) {
  History until;
  for (const Call& call : history) {
    if (call.invoked > tick) continue;
    until.push_back(call);
    if (call.answered <= tick) continue;
    until.back().answered = kNever;
    until.back().answer = Call::Answer::kUnknown;
    until.back().line.clear();
    if (call.kind == Call::Kind::kSubmit) until.back().queue_id.clear();
  }
  return until;
}

bool Verdict::ok() const {
  return lost.empty() && unexpected.empty() && duplicated.empty() && altered.empty() &&
         reordered.empty();
}

std::string Verdict::ToString() const {
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

Verdict CheckHistory(const History& history, const std::vector<FoundTask>& found,
                     const QueueRules& rules) {
  return Checker(history, found, rules).Check();
}

}  // namespace callboard::crash
