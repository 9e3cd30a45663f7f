#include "tests/e2e/run_checker.h"

#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace callboard::e2e {
namespace {

using Event = v1::TaskEvent;
using v1::Task;

bool IsEnd(Event::Kind kind) {
  switch (kind) {
    case Event::KIND_DONE:
    case Event::KIND_FAILED:
    case Event::KIND_CANCELED:
    case Event::KIND_TIMEOUT:
    case Event::KIND_EVICTED:
    case Event::KIND_EXPIRED:
      return true;
    default:
      return false;
  }
}

Task::State StateAfter(Event::Kind end) {
  if (end == Event::KIND_DONE) return Task::STATE_COMPLETED;
  return end == Event::KIND_CANCELED ? Task::STATE_CANCELLED : Task::STATE_FAILED;
}

// The recorded runs of one task.
struct Runs {
  // In the order of their start.
  std::vector<FenceToken> started = {};
  // Dispatches whose run ended.
  std::set<uint64_t> ended = {};
};

class TaskChecker {
 public:
  TaskChecker(const ObservedTask& seen, const Runs& runs, RunCheckResult& check_result)
      : seen_(seen), task_(seen.task), runs_(runs), check_result_(check_result) {}

  void Check() {
    for (const Event& event : seen_.events) ApplyEvent(event);
    CheckEnd();
    CheckNumbers();
    CheckRuns();
    CheckResult();
  }

 private:
  void ApplyEvent(const Event& event) {
    const auto wrong = [&](absl::string_view how) {
      AddInconsistent(
          absl::StrCat("event ", event.number(), " (", Event::Kind_Name(event.kind()), ") ", how));
    };
    if (event.kind() == Event::KIND_ORPHAN_RESULT) {
      ++check_result_.orphaned;
      if (event.dispatch() > last_dispatch_) wrong("belongs to an unknown dispatch");
      return;
    }
    if (end_ != nullptr) {
      if (!IsEnd(event.kind())) return wrong("came after the end");
      check_result_.unended.push_back(absl::StrCat(task_.queue_id(), ": ended twice"));
      return;
    }
    if (event.kind() == Event::KIND_DISPATCHING) {
      if (is_in_flight_) wrong("came while another dispatch was in flight");
      if (event.dispatch() <= last_dispatch_) wrong("has a number that was used before");
      is_in_flight_ = true;
      last_dispatch_ = event.dispatch();
    } else if (is_in_flight_ && event.dispatch() != last_dispatch_) {
      wrong(absl::StrCat("is of dispatch ", event.dispatch(), " and not of ", last_dispatch_));
    } else if (!is_in_flight_ && event.kind() == Event::KIND_RUNNING) {
      wrong("came without a dispatch");
    }
    if (event.kind() == Event::KIND_RETRY || event.kind() == Event::KIND_BUSY) {
      is_in_flight_ = false;
    }
    if (IsEnd(event.kind())) end_ = &event;
  }

  void CheckEnd() {
    if (end_ == nullptr) {
      check_result_.unended.push_back(
          absl::StrCat(task_.queue_id(), ": is ", Task::State_Name(task_.state())));
      return;
    }
    ++check_result_.ended;
    if (task_.state() != StateAfter(end_->kind())) {
      AddInconsistent(absl::StrCat("is ", Task::State_Name(task_.state()), " after ",
                                   Event::Kind_Name(end_->kind())));
    }
    if (task_.state() == Task::STATE_COMPLETED && end_->dispatch() == 0) {
      AddInconsistent("was completed without a dispatch");
    }
  }

  void CheckNumbers() {
    if (task_.dispatch() != last_dispatch_) {
      AddInconsistent(
          absl::StrCat("has dispatch ", task_.dispatch(), "; its events have ", last_dispatch_));
    }
    // A dispatch counts as an attempt, as a busy answer, or as neither.
    if (task_.attempts() + task_.busy_rejections() > task_.dispatch()) {
      AddInconsistent(absl::StrCat(task_.attempts(), " attempts and ", task_.busy_rejections(),
                                   " busy answers in ", task_.dispatch(), " dispatches"));
    }
    if (task_.attempts() > task_.max_attempts()) {
      AddInconsistent(
          absl::StrCat(task_.attempts(), " attempts, and at most ", task_.max_attempts()));
    }
  }

  void CheckRuns() {
    uint64_t last = 0;
    for (const FenceToken& run : runs_.started) {
      if (run.dispatch > task_.dispatch()) {
        AddInconsistent(absl::StrCat("dispatch ", run.dispatch, " ran but does not exist"));
      }
      if (run.dispatch < last) {
        AddInconsistent(absl::StrCat("dispatch ", run.dispatch, " started after dispatch ", last));
      }
      last = run.dispatch;
    }
    if (task_.state() == Task::STATE_COMPLETED && end_ != nullptr &&
        !runs_.ended.contains(end_->dispatch())) {
      AddInconsistent(
          absl::StrCat("is completed, but dispatch ", end_->dispatch(), " did not finish its run"));
    }
  }

  // The result of a run names its dispatch.
  void CheckResult() {
    if (end_ == nullptr || (task_.result().empty() && task_.state() != Task::STATE_COMPLETED)) {
      return;
    }
    const FenceToken token = FenceToken::From(task_.result());
    if (token.queue_id == task_.queue_id() && token.dispatch == end_->dispatch()) return;
    check_result_.stale.push_back(absl::StrCat(task_.queue_id(), ": dispatch ", end_->dispatch(),
                                               " ended it with the result of '", task_.result(),
                                               "'"));
  }

  void AddInconsistent(const std::string& how) {
    check_result_.inconsistent.push_back(absl::StrCat(task_.queue_id(), ": ", how));
  }

  const ObservedTask& seen_;
  const Task& task_;
  const Runs& runs_;
  RunCheckResult& check_result_;
  bool is_in_flight_ = false;
  uint64_t last_dispatch_ = 0;
  const Event* end_ = nullptr;
};

// Returns the runs by task.
std::map<std::string, Runs> ReadRecord(const std::vector<RunLine>& record,
                                       RunCheckResult& check_result) {
  std::map<std::string, Runs> all;
  std::set<std::string> started;
  const auto overlaps = [&check_result](const FenceToken& token, absl::string_view how) {
    check_result.overlapping.push_back(absl::StrCat(token.ToString(), ": ", how));
  };
  for (const RunLine& line : record) {
    Runs& runs = all[line.token.queue_id];
    switch (line.kind) {
      case RunLine::Kind::kBegin:
        ++check_result.runs;
        if (!started.insert(line.token.ToString()).second) overlaps(line.token, "started twice");
        runs.started.push_back(line.token);
        break;
      case RunLine::Kind::kOverlap:
        overlaps(line.token, "started while another dispatch had processes");
        break;
      case RunLine::Kind::kEnd:
        if (runs.started.empty() || !(runs.started.back() == line.token)) {
          overlaps(line.token, "ended after another run of its task had started");
        }
        runs.ended.insert(line.token.dispatch);
        break;
    }
  }
  return all;
}

}  // namespace

bool RunCheckResult::ok() const {
  return unended.empty() && overlapping.empty() && stale.empty() && inconsistent.empty();
}

std::string RunCheckResult::ToString() const {
  std::string text = absl::StrCat(ended, " ended, ", runs, " runs, ", orphaned, " results dropped");
  const auto add = [&text](const char* what, const std::vector<std::string>& lines) {
    absl::StrAppend(&text, ", ", lines.size(), " ", what);
    for (const std::string& line : lines) absl::StrAppend(&text, "\n  ", line);
  };
  add("not ended once", unended);
  add("overlapping runs", overlapping);
  add("stale results", stale);
  add("inconsistent", inconsistent);
  return text;
}

RunCheckResult CheckRuns(const std::vector<ObservedTask>& tasks,
                         const std::vector<RunLine>& record) {
  RunCheckResult check_result;
  std::map<std::string, Runs> runs = ReadRecord(record, check_result);
  for (const ObservedTask& seen : tasks) {
    TaskChecker(seen, runs[seen.task.queue_id()], check_result).Check();
    runs.erase(seen.task.queue_id());
  }
  for (const auto& [queue_id, unknown] : runs) {
    check_result.inconsistent.push_back(
        absl::StrCat(queue_id, ": ran, but is unknown to the director"));
  }
  return check_result;
}

}  // namespace callboard::e2e
