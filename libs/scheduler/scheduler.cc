#include "libs/scheduler/scheduler.h"

#include <algorithm>
#include <variant>

#include "libs/base/error.h"
#include "libs/base/status_macros.h"

namespace callboard::scheduler {
namespace {

constexpr absl::Duration kReopenPeriod = absl::Seconds(1);
// It costs a look at every job.
constexpr absl::Duration kStatusPeriod = absl::Seconds(1);

absl::Status OutcomeUnknown() {
  return base::WithRetryAfter(
      base::WithReason(
          absl::UnavailableError("the scheduler's ledger failed, and whether this was done is not "
                                 "known; look, or repeat it with the same id"),
          "OUTCOME_UNKNOWN"),
      kReopenPeriod);
}

}  // namespace

absl::Status LedgerUnavailable() {
  return base::WithRetryAfter(
      base::WithReason(absl::UnavailableError("the scheduler's ledger is not available; retry"),
                       "STORE_UNAVAILABLE"),
      kReopenPeriod);
}

Scheduler::~Scheduler() { Close(); }

void Scheduler::Close() {
  engine_.reset();
  ledger_.reset();
  for (const auto& [call, reply] : std::exchange(triggers_, {})) reply(OutcomeUnknown());
}

absl::Status Scheduler::Open() {
  Close();
  absl::Status status = Load();
  if (status.ok()) {
    reopen_at_ = absl::InfiniteDuration();
  } else {
    Close();
    reopen_at_ = Now().monotonic + kReopenPeriod;
  }
  Tell(status);
  return status;
}

absl::Status Scheduler::Load() {
  ASSIGN_OR_RETURN(ledger_, world_.ledgers.Open());
  ASSIGN_OR_RETURN(Ledgered ledgered, ledger_->Load());
  engine_ = std::make_unique<SchedulerEngine>(std::move(ledgered), last_order_, Now());
  jobs_changed_ = jobs_ != nullptr;
  return absl::OkStatus();
}

void Scheduler::SetJobs(std::vector<core::Job> jobs) {
  jobs_ = std::make_unique<const std::vector<core::Job>>(std::move(jobs));
  jobs_changed_ = true;
}

void Scheduler::RunTurn(std::vector<Call> calls) {
  if (engine_ == nullptr && Now().monotonic >= reopen_at_) Open().IgnoreError();
  if (engine_ == nullptr) {
    for (const Call& call : calls) {
      if (call.refuse) call.refuse(LedgerUnavailable());
    }
    return;
  }
  const core::Moment now = Now();
  if (std::exchange(jobs_changed_, false)) engine_->SetJobs(*jobs_, now);
  std::vector<std::function<void()>> words;
  for (const Call& call : calls) words.push_back(call.decide(*engine_, now));
  engine_->FireTimers(now);
  Outcome outcome = engine_->TakeOutcome(now);
  last_order_ = engine_->last_order();
  if (const absl::Status status = Commit(outcome); !status.ok()) {
    for (size_t i = 0; i < calls.size(); ++i) {
      if (calls[i].refuse && words[i]) calls[i].refuse(OutcomeUnknown());
    }
    return Fail(status);
  }
  for (const std::function<void()>& say : words) {
    if (say) say();
  }
  Say(std::move(outcome));
  TellStatus(now);
}

absl::Status Scheduler::Commit(const Outcome& outcome) {
  if (outcome.changes.empty()) return absl::OkStatus();
  const absl::Duration began = world_.clock.MonotonicNow();
  RETURN_IF_ERROR(ledger_->Commit(outcome.changes));
  if (world_.observer != nullptr) {
    world_.observer->OnCommit(outcome.changes, world_.clock.MonotonicNow() - began);
  }
  return absl::OkStatus();
}

void Scheduler::Say(Outcome outcome) {
  for (const Order& order : outcome.orders) Give(order);
  for (const Outcome::Triggered& triggered : outcome.triggered) {
    const auto found = triggers_.find(triggered.call);
    if (found == triggers_.end()) continue;
    const DirectorLink::Reply<Accepted> reply = std::move(found->second);
    triggers_.erase(found);
    reply(triggered.answer);
  }
  if (world_.observer == nullptr) return;
  for (const Notice& notice : outcome.notices) world_.observer->OnNotice(notice);
}

void Scheduler::Give(const Order& order) {
  // Whoever answers knows nothing of turns: what it says waits for one.
  struct Step {
    DirectorLink::Reply<Accepted> Accept(OrderId id) const {
      return [post = scheduler.post_, id](const absl::StatusOr<Accepted>& answer) {
        post({.decide = [id, answer](SchedulerEngine& engine, core::Moment now) {
          engine.OnAccepted(id, answer, now);
          return nullptr;
        }});
      };
    }
    void operator()(const SubmitOrder& submit) const {
      scheduler.world_.director.Submit(submit.submission, Accept(submit.id));
    }
    void operator()(const DirectOrder& direct) const {
      core::Submission submission;
      submission.spec = direct.spec;
      scheduler.world_.director.StartDirect(direct.agent_url, submission, Accept(direct.id));
    }
    void operator()(const AskEndsOrder& ask) const {
      scheduler.world_.director.AskEnds(
          ask.queue_ids, [post = scheduler.post_,
                          id = ask.id](const absl::StatusOr<std::vector<TaskEnd>>& answer) {
            post({.decide = [id, answer](SchedulerEngine& engine, core::Moment now) {
              engine.OnEnds(id, answer, now);
              return nullptr;
            }});
          });
    }
    Scheduler& scheduler;
  };
  std::visit(Step{*this}, order);
}

void Scheduler::Fail(const absl::Status& why) {
  Tell(why);
  Open().IgnoreError();
}

void Scheduler::Tell(const absl::Status& why) const {
  if (world_.observer != nullptr) world_.observer->OnService(why);
}

void Scheduler::TellStatus(core::Moment now) {
  if (world_.observer == nullptr) return;
  is_untold_ = now.monotonic < tell_at_;
  if (is_untold_) return;
  tell_at_ = now.monotonic + kStatusPeriod;
  world_.observer->OnStatus(engine_->Status(now));
}

absl::Duration Scheduler::UntilNextTurn() const {
  const core::Moment now = Now();
  if (engine_ == nullptr) return std::max(absl::ZeroDuration(), reopen_at_ - now.monotonic);
  if (jobs_changed_) return absl::ZeroDuration();
  const absl::Duration told = is_untold_ ? tell_at_ - now.monotonic : absl::InfiniteDuration();
  return std::max(absl::ZeroDuration(), std::min(engine_->UntilNextTimer(now), told));
}

Call Scheduler::TriggerCall(TriggerQuery query, DirectorLink::Reply<Accepted> reply) {
  return {.decide = [this, query = std::move(query), reply](
                        SchedulerEngine& engine, core::Moment now) -> std::function<void()> {
            last_call_ = CallId(last_call_.value() + 1);
            triggers_[last_call_] = reply;
            engine.Trigger(last_call_, query, now);
            return nullptr;
          },
          .refuse = reply};
}

}  // namespace callboard::scheduler
