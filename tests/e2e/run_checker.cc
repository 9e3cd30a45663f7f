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

// What the runs of one task recorded.
struct Runs {
  // In the order in which they began.
  std::vector<Fence> begun = {};
  // Dispatches whose run came to its end.
  std::set<uint64_t> ended = {};
};

class TaskChecker {
 public:
  TaskChecker(const SeenTask& seen, const Runs& runs, RunVerdict& verdict)
      : seen_(seen), task_(seen.task), runs_(runs), verdict_(verdict) {}

  void Check() {
    for (const Event& event : seen_.events) Follow(event);
    CheckEnd();
    CheckNumbers();
    CheckRuns();
    CheckResult();
  }

 private:
  void Follow(const Event& event) {
    const auto wrong = [&](absl::string_view how) {
      Inconsistent(
          absl::StrCat("event ", event.number(), " (", Event::Kind_Name(event.kind()), ") ", how));
    };
    if (event.kind() == Event::KIND_ORPHAN_RESULT) {
      ++verdict_.orphaned;
      if (event.dispatch() > last_dispatch_) wrong("is of a dispatch that was never made");
      return;
    }
    if (end_ != nullptr) {
      if (!IsEnd(event.kind())) return wrong("came after the end");
      verdict_.unended.push_back(absl::StrCat(task_.queue_id(), ": ended twice"));
      return;
    }
    if (event.kind() == Event::KIND_DISPATCHING) {
      if (is_in_flight_) wrong("came while another dispatch was under way");
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
      verdict_.unended.push_back(
          absl::StrCat(task_.queue_id(), ": is ", Task::State_Name(task_.state())));
      return;
    }
    ++verdict_.ended;
    if (task_.state() != StateAfter(end_->kind())) {
      Inconsistent(absl::StrCat("is ", Task::State_Name(task_.state()), " after ",
                                Event::Kind_Name(end_->kind())));
    }
    if (task_.state() == Task::STATE_COMPLETED && end_->dispatch() == 0) {
      Inconsistent("is completed by no dispatch");
    }
  }

  void CheckNumbers() {
    if (task_.dispatch() != last_dispatch_) {
      Inconsistent(
          absl::StrCat("has dispatch ", task_.dispatch(), "; its events have ", last_dispatch_));
    }
    // A dispatch counts as one or the other, or as none of both.
    if (task_.attempts() + task_.busy_rejections() > task_.dispatch()) {
      Inconsistent(absl::StrCat(task_.attempts(), " attempts and ", task_.busy_rejections(),
                                " refusals in ", task_.dispatch(), " dispatches"));
    }
    if (task_.attempts() > task_.max_attempts()) {
      Inconsistent(absl::StrCat(task_.attempts(), " attempts, and at most ", task_.max_attempts()));
    }
  }

  void CheckRuns() {
    uint64_t last = 0;
    for (const Fence& run : runs_.begun) {
      if (run.dispatch > task_.dispatch()) {
        Inconsistent(absl::StrCat("dispatch ", run.dispatch, " ran and was never made"));
      }
      if (run.dispatch < last) {
        Inconsistent(absl::StrCat("dispatch ", run.dispatch, " began after dispatch ", last));
      }
      last = run.dispatch;
    }
    if (task_.state() == Task::STATE_COMPLETED && end_ != nullptr &&
        !runs_.ended.contains(end_->dispatch())) {
      Inconsistent(
          absl::StrCat("is completed, and dispatch ", end_->dispatch(), " did not run to its end"));
    }
  }

  // A run says which one it was.
  void CheckResult() {
    if (end_ == nullptr || (task_.result().empty() && task_.state() != Task::STATE_COMPLETED)) {
      return;
    }
    const Fence fence = Fence::From(task_.result());
    if (fence.queue_id == task_.queue_id() && fence.dispatch == end_->dispatch()) return;
    verdict_.stale.push_back(absl::StrCat(task_.queue_id(), ": dispatch ", end_->dispatch(),
                                          " ended it with the result of '", task_.result(), "'"));
  }

  void Inconsistent(const std::string& how) {
    verdict_.inconsistent.push_back(absl::StrCat(task_.queue_id(), ": ", how));
  }

  const SeenTask& seen_;
  const Task& task_;
  const Runs& runs_;
  RunVerdict& verdict_;
  bool is_in_flight_ = false;
  uint64_t last_dispatch_ = 0;
  const Event* end_ = nullptr;
};

// By task.
std::map<std::string, Runs> ReadRecord(const std::vector<RunLine>& record, RunVerdict& verdict) {
  std::map<std::string, Runs> all;
  std::set<std::string> begun;
  const auto overlaps = [&verdict](const Fence& fence, absl::string_view how) {
    verdict.overlapping.push_back(absl::StrCat(fence.ToString(), ": ", how));
  };
  for (const RunLine& line : record) {
    Runs& runs = all[line.fence.queue_id];
    switch (line.kind) {
      case RunLine::Kind::kBegin:
        ++verdict.runs;
        if (!begun.insert(line.fence.ToString()).second) overlaps(line.fence, "began twice");
        runs.begun.push_back(line.fence);
        break;
      case RunLine::Kind::kOverlap:
        overlaps(line.fence, "began while another dispatch had processes");
        break;
      case RunLine::Kind::kEnd:
        if (runs.begun.empty() || !(runs.begun.back() == line.fence)) {
          overlaps(line.fence, "ended after another run of its task had begun");
        }
        runs.ended.insert(line.fence.dispatch);
        break;
    }
  }
  return all;
}

}  // namespace

bool RunVerdict::ok() const {
  return unended.empty() && overlapping.empty() && stale.empty() && inconsistent.empty();
}

std::string RunVerdict::ToString() const {
  std::string text =
      absl::StrCat(ended, " ended, ", runs, " runs, ", orphaned, " results thrown away");
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

RunVerdict CheckRuns(const std::vector<SeenTask>& tasks, const std::vector<RunLine>& record) {
  RunVerdict verdict;
  std::map<std::string, Runs> runs = ReadRecord(record, verdict);
  for (const SeenTask& seen : tasks) {
    TaskChecker(seen, runs[seen.task.queue_id()], verdict).Check();
    runs.erase(seen.task.queue_id());
  }
  for (const auto& [queue_id, unknown] : runs) {
    verdict.inconsistent.push_back(absl::StrCat(queue_id, ": ran, and nobody knows it"));
  }
  return verdict;
}

}  // namespace callboard::e2e
