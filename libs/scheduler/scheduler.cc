#include "libs/scheduler/scheduler.h"

#include <algorithm>
#include <variant>

#include "libs/base/error.h"

namespace callboard::scheduler {
namespace {

constexpr absl::Duration kReopenPeriod = absl::Seconds(1);
// Building the status visits every job.
constexpr absl::Duration kStatusPeriod = absl::Seconds(1);

absl::Status OutcomeUnknown() {
  return base::WithRetryAfter(
      base::WithReason(absl::UnavailableError(
                           "the scheduler's ledger failed, and it is unknown whether this was "
                           "done; check, or repeat it with the same id"),
                       "OUTCOME_UNKNOWN"),
      kReopenPeriod);
}

// Returns UNAVAILABLE/STORE_UNAVAILABLE.
absl::Status LedgerUnavailable() {
  return base::WithRetryAfter(
      base::WithReason(absl::UnavailableError("the scheduler's ledger is not available; retry"),
                       "STORE_UNAVAILABLE"),
      kReopenPeriod);
}

}  // namespace

Scheduler::~Scheduler() { CloseLedger(); }

void Scheduler::CloseLedger() {
  engine_.reset();
  ledger_.reset();
  for (const auto& [call, reply] : std::exchange(triggers_, {})) reply(OutcomeUnknown());
}

absl::Status Scheduler::Open() {
  CloseLedger();
  absl::Status status = Load();
  if (status.ok()) {
    reopen_at_ = absl::InfiniteDuration();
  } else {
    CloseLedger();
    reopen_at_ = Now().monotonic + kReopenPeriod;
  }
  ReportService(status);
  return status;
}

absl::Status Scheduler::Load() {
  ASSIGN_OR_RETURN(ledger_, deps_.ledgers.Open());
  ASSIGN_OR_RETURN(LedgerContents contents, ledger_->Load());
  engine_ = std::make_unique<SchedulerEngine>(std::move(contents), last_request_, Now());
  jobs_changed_ = jobs_ != nullptr;
  return absl::OkStatus();
}

void Scheduler::SetJobs(std::vector<core::Job> jobs) {
  jobs_ = std::make_unique<const std::vector<core::Job>>(std::move(jobs));
  jobs_changed_ = true;
}

void Scheduler::RunTurn(std::vector<Command> commands) {
  if (engine_ == nullptr && Now().monotonic >= reopen_at_) Open().IgnoreError();
  if (engine_ == nullptr) {
    for (const Command& command : commands) {
      if (command.fail) command.fail(LedgerUnavailable());
    }
    return;
  }
  const ports::Moment now = Now();
  if (std::exchange(jobs_changed_, false)) engine_->SetJobs(*jobs_, now);
  std::vector<std::function<void()>> replies;
  for (const Command& command : commands) replies.push_back(command.decide(*engine_, now));
  engine_->FireTimers(now);
  Outcome outcome = engine_->TakeOutcome(now);
  last_request_ = engine_->last_request();
  if (const absl::Status status = Commit(outcome); !status.ok()) {
    for (size_t i = 0; i < commands.size(); ++i) {
      if (commands[i].fail && replies[i]) commands[i].fail(OutcomeUnknown());
    }
    return Fail(status);
  }
  for (const std::function<void()>& reply : replies) {
    if (reply) reply();
  }
  Flush(std::move(outcome));
  ReportStatus(now);
}

absl::Status Scheduler::Commit(const Outcome& outcome) {
  if (outcome.changes.empty()) return absl::OkStatus();
  const absl::Duration began = deps_.clock.MonotonicNow();
  RETURN_IF_ERROR(ledger_->Commit(outcome.changes));
  if (deps_.observer != nullptr) {
    deps_.observer->OnCommit(outcome.changes, deps_.clock.MonotonicNow() - began);
  }
  return absl::OkStatus();
}

void Scheduler::Flush(Outcome outcome) {
  for (const OutgoingRequest& request : outcome.requests) Issue(request);
  for (const Outcome::TriggerAnswer& trigger : outcome.trigger_answers) {
    const auto found = triggers_.find(trigger.call);
    if (found == triggers_.end()) continue;
    const DirectorLink::Reply<AcceptedTask> reply = std::move(found->second);
    triggers_.erase(found);
    reply(trigger.answer);
  }
  if (deps_.observer == nullptr) return;
  for (const Notice& notice : outcome.notices) deps_.observer->OnNotice(notice);
}

void Scheduler::Issue(const OutgoingRequest& request) {
  // Issues a request. Its answer is queued as a command for a later turn.
  struct Issuer {
    DirectorLink::Reply<AcceptedTask> AnswerTo(OutgoingRequestId id) const {
      return [post = scheduler.post_, id](const absl::StatusOr<AcceptedTask>& answer) {
        post({.decide = [id, answer](SchedulerEngine& engine, ports::Moment now) {
          engine.OnRequestAnswer(id, answer, now);
          return nullptr;
        }});
      };
    }
    void operator()(const SubmitRequest& submit) const {
      scheduler.deps_.director.Submit(submit.submission, AnswerTo(submit.id));
    }
    void operator()(const FindTaskRequest& lookup) const {
      scheduler.deps_.director.FindTask(lookup.request_id, AnswerTo(lookup.id));
    }
    void operator()(const DirectStartRequest& direct) const {
      scheduler.deps_.director.StartDirect(direct.agent_url, direct.submission,
                                           AnswerTo(direct.id));
    }
    void operator()(const TaskStatusRequest& poll) const {
      scheduler.deps_.director.GetTaskStatuses(
          poll.queue_ids, [post = scheduler.post_,
                           id = poll.id](const absl::StatusOr<std::vector<TaskStatus>>& answer) {
            post({.decide = [id, answer](SchedulerEngine& engine, ports::Moment now) {
              engine.OnTaskStatuses(id, answer, now);
              return nullptr;
            }});
          });
    }
    Scheduler& scheduler;
  };
  std::visit(Issuer{*this}, request);
}

void Scheduler::Fail(const absl::Status& why) {
  ReportService(why);
  Open().IgnoreError();
}

void Scheduler::ReportService(const absl::Status& why) const {
  if (deps_.observer != nullptr) deps_.observer->OnService(why);
}

void Scheduler::ReportStatus(ports::Moment now) {
  if (deps_.observer == nullptr) return;
  status_outstanding_ = now.monotonic < next_status_at_;
  if (status_outstanding_) return;
  next_status_at_ = now.monotonic + kStatusPeriod;
  deps_.observer->OnStatus(engine_->Status(now));
}

absl::Duration Scheduler::UntilNextTurn() const {
  const ports::Moment now = Now();
  if (engine_ == nullptr) return std::max(absl::ZeroDuration(), reopen_at_ - now.monotonic);
  if (jobs_changed_) return absl::ZeroDuration();
  const absl::Duration status_due =
      status_outstanding_ ? next_status_at_ - now.monotonic : absl::InfiniteDuration();
  return std::max(absl::ZeroDuration(), std::min(engine_->TimeUntilNextTimer(now), status_due));
}

Command Scheduler::MakeTriggerCommand(TriggerQuery query, DirectorLink::Reply<AcceptedTask> reply) {
  return {.decide = [this, query = std::move(query), reply](
                        SchedulerEngine& engine, ports::Moment now) -> std::function<void()> {
            last_trigger_call_ = TriggerCallId(last_trigger_call_.value() + 1);
            triggers_[last_trigger_call_] = reply;
            engine.Trigger(last_trigger_call_, query, now);
            return nullptr;
          },
          .fail = reply};
}

}  // namespace callboard::scheduler
