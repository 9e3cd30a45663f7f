// A scheduler's engine with a clock, a ledger and a director that the test controls.

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
#include "libs/base/check.h"
#include "libs/base/error.h"
#include "libs/base/mutex.h"
#include "libs/scheduler/director_link.h"
#include "libs/scheduler/engine.h"
#include "libs/testing/cron_jobs.h"
#include "libs/testing/memory_ledger.h"
#include "libs/testing/submissions.h"
#include "libs/wire/job.h"
#include "libs/wire/task.h"

namespace callboard::test {

// Keeps the requests of a scheduler until a test answers them. Thread-safe.
class FakeDirectorLink final : public scheduler::DirectorLink {
 public:
  struct Request {
    // Has only the request id if this is a lookup.
    core::JobSubmission submission;
    Reply<scheduler::AcceptedTask> reply;
    // Empty unless it is a direct start.
    std::string agent_url = {};
    bool is_lookup = false;
  };

  void Submit(const core::JobSubmission& submission,
              Reply<scheduler::AcceptedTask> reply) override {
    Add({submission, std::move(reply)});
  }
  void StartDirect(const std::string& agent_url, const core::JobSubmission& submission,
                   Reply<scheduler::AcceptedTask> reply) override {
    Add({submission, std::move(reply), agent_url});
  }
  void FindTask(const std::string& request_id, Reply<scheduler::AcceptedTask> reply) override {
    Add({{.request_id = request_id}, std::move(reply), "", /*is_lookup=*/true});
  }
  void GetTaskStatuses(std::vector<std::string>,
                       Reply<std::vector<scheduler::TaskStatus>> reply) override {
    reply(ends_);
  }

  // Returns the oldest request; waits for one.
  Request Take() {
    base::MutexLock lock(mutex_);
    while (requests_.empty()) changed_.Wait(mutex_);
    Request first = std::move(requests_.front());
    requests_.pop_front();
    return first;
  }
  size_t size() const {
    base::MutexLock lock(mutex_);
    return requests_.size();
  }
  // Sets the answer to all GetTaskStatuses() calls. REQUIRES: called before the first one.
  void SetEnds(std::vector<scheduler::TaskStatus> ends) { ends_ = std::move(ends); }

 private:
  void Add(Request request) {
    base::MutexLock lock(mutex_);
    requests_.push_back(std::move(request));
    changed_.NotifyAll();
  }

  mutable base::Mutex mutex_;
  base::CondVar changed_;
  std::deque<Request> requests_ ABSL_GUARDED_BY(mutex_);
  std::vector<scheduler::TaskStatus> ends_;
};

// Returns a submit as the director's engine receives it.
inline core::Submission ReadSubmit(const core::JobSubmission& submission) {
  return ToSubmission(wire::ToProto(submission));
}

class SchedulerFixture : public testing::Test {
 protected:
  // Starts a new process with these jobs in its file.
  void Start(std::vector<core::Job> jobs) {
    requests_.clear();
    engine_ = std::make_unique<scheduler::SchedulerEngine>(
        disk_.contents(), scheduler::OutgoingRequestId(last_request_), now_);
    SetJobs(std::move(jobs));
  }
  void SetJobs(std::vector<core::Job> jobs) {
    engine_->SetJobs(std::move(jobs), now_);
    Turn();
  }
  // Fires the timers and commits the changes; requests wait for an answer.
  void Turn() {
    engine_->FireTimers(now_);
    Commit();
  }
  void Commit() {
    scheduler::Outcome outcome = engine_->TakeOutcome(now_);
    for (const scheduler::LedgerChange& change : outcome.changes) disk_.Write(change);
    std::vector<scheduler::TaskStatusRequest> status_requests;
    for (scheduler::OutgoingRequest& request : outcome.requests) {
      if (auto* ask = std::get_if<scheduler::TaskStatusRequest>(&request)) {
        status_requests.push_back(std::move(*ask));
      } else {
        requests_.push_back(std::move(request));
      }
    }
    for (scheduler::Notice& notice : outcome.notices) notices_.push_back(notice.event);
    for (const auto& triggered : outcome.trigger_answers) triggered_.push_back(triggered.answer);
    last_request_ = engine_->last_request().value();
    for (const scheduler::TaskStatusRequest& ask : status_requests)
      engine_->OnTaskStatuses(ask.id, EndsOf(ask), now_);
    if (!status_requests.empty()) Turn();
  }
  // Returns the ends of the tasks. The director answers immediately; tasks without an entry are
  // live.
  std::vector<scheduler::TaskStatus> EndsOf(const scheduler::TaskStatusRequest& ask) const {
    std::vector<scheduler::TaskStatus> ends;
    for (const std::string& id : ask.queue_ids) {
      if (forgotten_.contains(id)) continue;
      const auto end = ends_.find(id);
      ends.push_back(end != ends_.end()
                         ? end->second
                         : scheduler::TaskStatus{id, core::LifecycleState::kWorking});
    }
    return ends;
  }
  void Advance(absl::Duration elapsed) {
    now_.wall += elapsed;
    now_.monotonic += elapsed;
    Turn();
  }
  // Advances the clocks as a driver would, turn by turn.
  void AdvanceInSteps(absl::Duration elapsed) {
    const absl::Time end = now_.wall + elapsed;
    while (now_.wall < end) {
      const absl::Duration step =
          std::clamp(engine_->TimeUntilNextTimer(now_), absl::Milliseconds(1), end - now_.wall);
      Advance(step);
    }
  }
  void StepWall(absl::Duration step) {
    now_.wall += step;
    Turn();
  }

  // ---- Answers of the director, to the first waiting request ----

  const core::JobSubmission& NextSubmit() const {
    return std::get<scheduler::SubmitRequest>(requests_.front()).submission;
  }
  // A lookup, or a probe of the link.
  bool IsLookup() const {
    return std::holds_alternative<scheduler::FindTaskRequest>(requests_.front());
  }
  bool IsProbe() const { return IsLookup() && NextRequestId() == scheduler::kProbeRequestId; }
  std::string NextRequestId() const {
    if (!IsLookup()) return NextSubmit().request_id;
    return std::get<scheduler::FindTaskRequest>(requests_.front()).request_id;
  }
  void Answer(const absl::StatusOr<scheduler::AcceptedTask>& answer) {
    const scheduler::OutgoingRequest request = std::move(requests_.front());
    requests_.pop_front();
    engine_->OnRequestAnswer(std::visit([](const auto& sent) { return sent.id; }, request), answer,
                             now_);
    Turn();
  }
  // Advances the clocks until the scheduler looks up a request id. The director is reachable but
  // answers nothing else.
  void AdvanceToLookup() {
    for (int i = 0; i < 1000 && (requests_.empty() || IsProbe()); ++i) {
      if (!requests_.empty()) Answer(Unused());
      if (requests_.empty())
        Advance(std::max(engine_->TimeUntilNextTimer(now_), absl::Milliseconds(1)));
    }
    ASSERT_FALSE(requests_.empty());
    ASSERT_TRUE(IsLookup());
  }
  // Moves the first request of that kind to the front. Returns false if there is none.
  template <class T>
  bool MoveToFront() {
    const auto found = std::find_if(requests_.begin(), requests_.end(),
                                    [](const scheduler::OutgoingRequest& request) {
                                      return std::holds_alternative<T>(request);
                                    });
    if (found == requests_.end()) return false;
    std::rotate(requests_.begin(), found, found + 1);
    return true;
  }
  void Accept() { Answer(scheduler::AcceptedTask{absl::StrCat("queue-", ++last_task_)}); }
  void AcceptAll() {
    while (!requests_.empty()) Accept();
  }
  void End(const std::string& id, core::LifecycleState state,
           std::optional<core::FailureReason> reason = {}) {
    ends_[id] = {id, state, reason};
  }

  // The answer to a lookup of a request id that has no task.
  static absl::Status Unused() {
    return base::WithReason(absl::NotFoundError("no such task"), "TASK_NOT_FOUND");
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

  // ---- Disk ----

  // Returns the rows as "00:01:00 fired queue-1", oldest first; the row of a trigger as "00:01:00
  // t1 fired queue-1".
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
    return disk_.contents().jobs.at(job);
  }
  scheduler::JobView View(const std::string& job) const {
    return *engine_->GetJob(job, /*next=*/10, now_);
  }

  ports::Moment now_ = {At("2026-01-05 00:00:30"), absl::Hours(1)};
  MemoryLedgers disk_;
  std::unique_ptr<scheduler::SchedulerEngine> engine_;
  std::deque<scheduler::OutgoingRequest> requests_;
  std::map<std::string, scheduler::TaskStatus> ends_;
  // Tasks that the director has forgotten.
  std::set<std::string> forgotten_;
  std::vector<std::string> notices_;
  std::vector<absl::StatusOr<scheduler::AcceptedTask>> triggered_;
  uint64_t last_request_ = 0;
  int last_task_ = 0;
};

}  // namespace callboard::test

#endif  // CALLBOARD_LIBS_TESTING_SCHEDULER_FIXTURE_H_
