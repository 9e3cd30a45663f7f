// A scheduler's rules with a clock, a ledger and a director that do as a test says.
#ifndef CALLBOARD_LIBS_TESTING_SCHEDULER_FIXTURE_H_
#define CALLBOARD_LIBS_TESTING_SCHEDULER_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/base/error.h"
#include "libs/scheduler/engine.h"
#include "libs/testing/cron_jobs.h"
#include "libs/testing/memory_ledger.h"

namespace callboard::test {

class SchedulerFixture : public testing::Test {
 protected:
  // A new life of the process, with these jobs in its file.
  void Start(std::vector<core::Job> jobs) {
    calls_.clear();
    engine_ = std::make_unique<scheduler::SchedulerEngine>(disk_.ledgered(),
                                                           scheduler::OrderId(last_order_), now_);
    SetJobs(std::move(jobs));
  }
  void SetJobs(std::vector<core::Job> jobs) {
    engine_->SetJobs(std::move(jobs), now_);
    Turn();
  }
  // Does what is due, and puts what follows on disk; orders wait to be answered.
  void Turn() {
    engine_->FireTimers(now_);
    Commit();
  }
  void Commit() {
    scheduler::Outcome outcome = engine_->TakeOutcome(now_);
    for (const scheduler::LedgerChange& change : outcome.changes) disk_.Write(change);
    std::vector<scheduler::AskEndsOrder> asked;
    for (scheduler::Order& order : outcome.orders) {
      if (auto* ask = std::get_if<scheduler::AskEndsOrder>(&order)) {
        asked.push_back(std::move(*ask));
      } else {
        calls_.push_back(std::move(order));
      }
    }
    for (scheduler::Notice& notice : outcome.notices) notices_.push_back(notice.event);
    for (const auto& triggered : outcome.triggered) triggered_.push_back(triggered.answer);
    last_order_ = engine_->last_order().value();
    for (const scheduler::AskEndsOrder& ask : asked) engine_->OnEnds(ask.id, EndsOf(ask), now_);
    if (!asked.empty()) Turn();
  }
  // The director tells at once how tasks ended; those without an entry are live.
  std::vector<scheduler::TaskEnd> EndsOf(const scheduler::AskEndsOrder& ask) const {
    std::vector<scheduler::TaskEnd> ends;
    for (const std::string& id : ask.queue_ids) {
      if (forgotten_.contains(id)) continue;
      const auto end = ends_.find(id);
      ends.push_back(end != ends_.end() ? end->second
                                        : scheduler::TaskEnd{id, core::TaskState::kWorking});
    }
    return ends;
  }
  void Advance(absl::Duration elapsed) {
    now_.wall += elapsed;
    now_.monotonic += elapsed;
    Turn();
  }
  // Lets time pass as a driver would, turn by turn.
  void AdvanceInSteps(absl::Duration elapsed) {
    const absl::Time end = now_.wall + elapsed;
    while (now_.wall < end) {
      const absl::Duration step =
          std::clamp(engine_->UntilNextTimer(now_), absl::Milliseconds(1), end - now_.wall);
      Advance(step);
    }
  }
  void StepWall(absl::Duration step) {
    now_.wall += step;
    Turn();
  }

  // ---- The director's answers, to the first call that waits for one ----

  const core::Submission& NextSubmit() const {
    return std::get<scheduler::SubmitOrder>(calls_.front()).submission;
  }
  std::string NextRequestId() const { return NextSubmit().spec.request_id; }
  void Answer(const absl::StatusOr<scheduler::Accepted>& answer) {
    const scheduler::Order order = std::move(calls_.front());
    calls_.pop_front();
    const auto* direct = std::get_if<scheduler::DirectOrder>(&order);
    engine_->OnAccepted(direct != nullptr ? direct->id : std::get<scheduler::SubmitOrder>(order).id,
                        answer, now_);
    Turn();
  }
  // Lets time pass, with a director that is there but answers nothing else, until it is asked about
  // a request id.
  void AwaitQuestion() {
    for (int i = 0; i < 1000 && (calls_.empty() || NextRequestId().empty()); ++i) {
      if (!calls_.empty()) Answer(scheduler::Accepted{});
      if (calls_.empty()) Advance(std::max(engine_->UntilNextTimer(now_), absl::Milliseconds(1)));
    }
    ASSERT_FALSE(calls_.empty());
    ASSERT_TRUE(NextSubmit().validate_only);
  }
  // Puts the first of that kind before the others; false when there is none.
  template <class T>
  bool Bring() {
    const auto found = std::find_if(
        calls_.begin(), calls_.end(),
        [](const scheduler::Order& order) { return std::holds_alternative<T>(order); });
    if (found == calls_.end()) return false;
    std::rotate(calls_.begin(), found, found + 1);
    return true;
  }
  void Accept() { Answer(scheduler::Accepted{absl::StrCat("queue-", ++last_task_)}); }
  void AcceptAll() {
    while (!calls_.empty()) Accept();
  }
  void End(const std::string& id, core::TaskState state,
           std::optional<core::FailureReason> reason = {}) {
    ends_[id] = {id, state, reason};
  }

  static absl::Status Overlap(const std::string& live) {
    return base::WithReason(absl::FailedPreconditionError("a task is live"), "OVERLAP",
                            {{"queue_id", live}});
  }
  static absl::Status Full() {
    return base::WithRetryAfter(
        base::WithReason(absl::ResourceExhaustedError("queue is at capacity (50 tasks)"),
                         "QUEUE_FULL"),
        absl::Seconds(5));
  }
  static absl::Status Unreachable() {
    return base::WithReason(absl::UnavailableError("connection refused"),
                            scheduler::kDirectorUnreachable);
  }
  static absl::Status Draining() {
    return base::WithReason(absl::UnavailableError("the queue is draining"), "QUEUE_DRAINING");
  }
  static absl::Status NoAnswer() { return absl::DeadlineExceededError("no answer"); }

  // ---- What is on disk ----

  // Each as "00:01:00 fired queue-1", oldest first; of a trigger as "00:01:00 t1 fired queue-1".
  std::vector<std::string> Rows(const std::string& job) const {
    std::vector<std::string> texts;
    const auto rows = disk_.rows().find(job);
    if (rows == disk_.rows().end()) return texts;
    for (const auto& [key, row] : rows->second) {
      texts.push_back(absl::StrCat(absl::FormatTime("%H:%M:%S", row.nominal, absl::UTCTimeZone()),
                                   " ", row.trigger, row.trigger.empty() ? "" : " ",
                                   core::Name(row.outcome), row.queue_id.empty() ? "" : " ",
                                   row.queue_id));
    }
    return texts;
  }
  const core::Firing& Row(const std::string& job, const std::string& nominal,
                          const std::string& trigger = "") const {
    return disk_.rows().at(job).at({At(nominal), trigger});
  }
  const scheduler::JobState& State(const std::string& job) const {
    return disk_.ledgered().jobs.at(job);
  }
  scheduler::JobView View(const std::string& job) const {
    return *engine_->GetJob(job, /*next=*/10, now_);
  }

  core::Moment now_ = {At("2026-01-05 00:00:30"), absl::Hours(1)};
  MemoryLedgers disk_;
  std::unique_ptr<scheduler::SchedulerEngine> engine_;
  std::deque<scheduler::Order> calls_;
  std::map<std::string, scheduler::TaskEnd> ends_;
  // Tasks that the director does not know any more.
  std::set<std::string> forgotten_;
  std::vector<std::string> notices_;
  std::vector<absl::StatusOr<scheduler::Accepted>> triggered_;
  uint64_t last_order_ = 0;
  int last_task_ = 0;
};

}  // namespace callboard::test

#endif  // CALLBOARD_LIBS_TESTING_SCHEDULER_FIXTURE_H_
