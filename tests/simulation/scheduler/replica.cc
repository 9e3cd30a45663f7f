#include "tests/simulation/scheduler/replica.h"

#include <algorithm>
#include <utility>

namespace callboard::simulation::cron {
namespace {

using scheduler::AcceptedTask;

// A scheduler must notice within this time that the director is back.
constexpr absl::Duration kReconnectLimit = absl::Seconds(2);

}  // namespace

Replica::Replica(int number, const Settings& settings, Timeline& timeline, test::FakeRandom& random,
                 SimulatedDirector& director)
    : number_(number),
      settings_(settings),
      timeline_(timeline),
      random_(random),
      director_(director),
      referee_(number, director.submitted_tasks()),
      ledgers_(
          [this](absl::Span<const scheduler::LedgerChange> batch) { return DecideCommit(batch); }),
      wall_start_(director.now() - timeline.now()) {}

void Replica::Trigger(const scheduler::TriggerQuery& query) {
  if (!is_up()) return;
  const std::string id = core::TriggerRequestId(query.job, query.id);
  referee_.OnTriggerCall(id);
  Post(
      scheduler_->MakeTriggerCommand(query, [this, id](const absl::StatusOr<AcceptedTask>& answer) {
        if (answer.ok()) referee_.OnTriggered(id, answer->queue_id, ledgers_);
      }));
}

void Replica::CheckLink() {
  // If calls get lost or are slow, the replica cannot notice in time.
  const bool is_clear = settings_.call_lost == 0 && settings_.answer_lost == 0 &&
                        settings_.connection_breaks == 0 && settings_.call_is_slow == 0;
  if (!is_clear) return;
  const ports::Moment now = {WallNow(), MonotonicNow()};
  const bool is_reachable =
      scheduler_->engine() == nullptr || scheduler_->engine()->Status(now).director_reachable;
  unreachable_since_ =
      is_reachable ? absl::InfiniteDuration() : std::min(unreachable_since_, now.monotonic);
  // A call that was lost before the director was back may end much later and look like a new
  // outage.
  const absl::Duration since = std::max(director_.serves_since(), unreachable_since_);
  if (now.monotonic - since >= kReconnectLimit) {
    referee_.Fail("the director has served for two seconds and was not noticed");
  }
}

void Replica::Start() {
  if (is_up()) return;
  unreachable_since_ = absl::InfiniteDuration();
  referee_.OnRestart();
  const uint64_t incarnation = ++incarnation_;
  has_jobs_ = false;
  scheduler_ = std::make_unique<scheduler::Scheduler>(scheduler::Deps{*this, ledgers_, *this},
                                                      [this, incarnation](scheduler::Command call) {
                                                        if (incarnation != incarnation_ || !is_up())
                                                          return;
                                                        inbox_.push_back(std::move(call));
                                                        PlanTurn(absl::ZeroDuration());
                                                      });
  CHECK_OK(scheduler_->Open());
  scheduler_->SetJobs(jobs_);
  PlanTurn(absl::ZeroDuration());
}

void Replica::Die() {
  ++incarnation_;
  dying_ = false;
  inbox_.clear();
  scheduler_.reset();
}

void Replica::SetJobs(std::vector<core::Job> jobs) {
  next_jobs_ = std::move(jobs);
  if (is_up()) PlanTurn(absl::ZeroDuration());
}

void Replica::JumpClock(absl::Duration by) {
  jumped_ = std::clamp(jumped_ + by, -absl::Hours(6), absl::Hours(6));
  referee_.OnClockJump();
}

void Replica::Post(scheduler::Command call) {
  if (!is_up()) return;
  inbox_.push_back(std::move(call));
  PlanTurn(absl::ZeroDuration());
}

void Replica::PlanTurn(absl::Duration delay) {
  const uint64_t turn = ++planned_;
  timeline_.After(delay, [this, turn, incarnation = incarnation_] {
    if (turn == planned_ && incarnation == incarnation_ && is_up()) RunTurn();
  });
}

void Replica::RunTurn() {
  // The effect of changed job times is known only if the job was there in this process and the turn
  // of the change has no faults.
  no_faults_ = has_jobs_ && next_jobs_.has_value();
  if (no_faults_) {
    jobs_ = *std::exchange(next_jobs_, std::nullopt);
    referee_.OnJobs(jobs_, WallNow());
    scheduler_->SetJobs(jobs_);
  }
  has_jobs_ = true;
  scheduler_->RunTurn(std::exchange(inbox_, {}));
  no_faults_ = false;
  if (has_jobs_) referee_.OnTurn(WallNow());
  CheckLink();
  if (dying_) {
    Die();
    timeline_.After(absl::Milliseconds(10 + random_.Below(2'000)), [this] { Start(); });
    return;
  }
  referee_.CheckResubmitted(MonotonicNow());
  // Each turn takes at least a millisecond.
  PlanTurn(next_jobs_.has_value() ? absl::Milliseconds(1)
                                  : std::max(scheduler_->UntilNextTurn(), absl::Milliseconds(1)));
}

test::MemoryLedgers::CommitResult Replica::DecideCommit(
    absl::Span<const scheduler::LedgerChange> batch) {
  test::MemoryLedgers::CommitResult result;
  if (!quiet_ && !no_faults_) {
    const bool dies = random_.Chance(settings_.dies_at_commit);
    if (random_.Chance(settings_.commit_fails) || (dies && random_.Chance(0.5))) {
      result = {absl::UnavailableError("disk"), /*written=*/false};
    } else if (random_.Chance(settings_.commit_fails_but_wrote) || dies) {
      result = {absl::UnavailableError("disk"), /*written=*/true};
    }
    dying_ |= dies;
    has_jobs_ &= result.status.ok();
  }
  if (result.written) referee_.OnBatch(batch, ledgers_, WallNow());
  if (!result.status.ok()) referee_.OnRestart();
  return result;
}

bool Replica::MayCall() {
  if (dying_) return false;
  if (quiet_ || no_faults_ || !random_.Chance(settings_.dies_at_call)) return true;
  dying_ = true;
  return random_.Chance(0.5);
}

void Replica::Submit(const core::JobSubmission& submission, Reply<AcceptedTask> reply) {
  if (!MayCall()) return;
  referee_.OnSubmit(submission, ledgers_, MonotonicNow());
  director_.Submit(number_, submission, ReportAnswer(submission.request_id, std::move(reply)));
}

void Replica::FindTask(const std::string& request_id, Reply<AcceptedTask> reply) {
  if (MayCall()) director_.FindTask(request_id, ReportAnswer(request_id, std::move(reply)));
}

SimulatedDirector::Reply Replica::ReportAnswer(const std::string& request_id,
                                               Reply<AcceptedTask> reply) {
  return [this, incarnation = incarnation_, request_id,
          reply = std::move(reply)](const absl::StatusOr<AcceptedTask>& answer) {
    const ports::Moment now = {WallNow(), MonotonicNow()};
    if (incarnation == incarnation_) referee_.OnAnswer(request_id, answer.status(), now);
    reply(answer);
  };
}

void Replica::GetTaskStatuses(std::vector<std::string> queue_ids,
                              Reply<std::vector<scheduler::TaskStatus>> reply) {
  if (!MayCall()) return;
  using Ends = std::vector<scheduler::TaskStatus>;
  director_.GetTaskStatuses(
      queue_ids, [this, incarnation = incarnation_, reply](const absl::StatusOr<Ends>& answer) {
        if (incarnation == incarnation_ && !answer.ok()) referee_.OnDirectorFailed();
        reply(answer);
      });
}

void Replica::StartDirect(const std::string&, const core::JobSubmission& submission,
                          Reply<AcceptedTask> reply) {
  if (MayCall()) director_.StartDirect(number_, submission.request_id, reply);
}

}  // namespace callboard::simulation::cron
