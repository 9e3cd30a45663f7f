#include "tests/simulation/scheduler/world.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/core/hash.h"
#include "libs/testing/cron_jobs.h"

namespace callboard::simulation::cron {
namespace {

using scheduler::AcceptedTask;

constexpr absl::Duration kQuietTime = absl::Minutes(45);
// A scheduler must notice within this time that the director is back.
constexpr absl::Duration kReconnectLimit = absl::Seconds(2);
}  // namespace

// ---- Replica ------------------------------------------------------------------------------------

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

void Replica::Submit(const core::Submission& submission, Reply<AcceptedTask> reply) {
  if (!MayCall()) return;
  referee_.OnSubmit(submission, ledgers_, MonotonicNow());
  director_.Submit(number_, submission,
                   [this, incarnation = incarnation_, submission,
                    reply](const absl::StatusOr<AcceptedTask>& answer) {
                     const ports::Moment now = {WallNow(), MonotonicNow()};
                     if (incarnation == incarnation_)
                       referee_.OnAnswer(submission, answer.status(), now);
                     reply(answer);
                   });
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

void Replica::StartDirect(const std::string&, const core::Submission& submission,
                          Reply<AcceptedTask> reply) {
  if (MayCall()) director_.StartDirect(number_, submission.spec.request_id, reply);
}

// ---- Simulation ---------------------------------------------------------------------------------

namespace {

class Simulation {
 public:
  explicit Simulation(uint64_t seed)
      : settings_(Settings::FromSeed(seed)),
        random_(seed * 31 + 7),
        director_(settings_, timeline_, random_) {
    for (int i = 0; i < settings_.replicas; ++i) {
      replicas_.push_back(std::make_unique<Replica>(i, settings_, timeline_, random_, director_));
    }
  }

  Report Run() {
    // Some simulations start just before the clocks change in Berlin.
    if (random_.Chance(0.5)) MoveToTheNight();
    ChangeFile();
    for (const auto& replica : replicas_) replica->Start();
    ScheduleFaults();
    RunFor(settings_.noisy_time);
    Heal();
    RunFor(kQuietTime);
    Report report = {.time = timeline_.now()};
    for (const auto& replica : replicas_) {
      if (Failure().empty()) replica->End();
      report.hash = core::StableHash().Add(report.hash).Add(replica->referee().hash()).value();
      report.rows += replica->referee().rows();
      report.crashes += replica->starts() / 2;
    }
    report.failure = Failure();
    report.tasks = director_.submitted_tasks().tasks.size();
    return report;
  }

 private:
  std::string Failure() const {
    for (const auto& replica : replicas_) {
      if (!replica->referee().failure().empty()) return replica->referee().failure();
    }
    return director_.failure();
  }
  void RunFor(absl::Duration time) {
    const absl::Duration end = timeline_.now() + time;
    while (Failure().empty() && timeline_.Step(end)) {
    }
  }
  // Repeats `event`, `mean` apart on average, until the quiet phase.
  void Every(absl::Duration mean, const std::function<void()>& event) {
    if (mean == absl::InfiniteDuration()) return;
    const absl::Duration wait = mean * (static_cast<double>(1 + random_.Below(2000)) / 1000);
    timeline_.After(wait, [this, mean, event] {
      if (quiet_) return;
      event();
      Every(mean, event);
    });
  }
  absl::Duration SomeTime() {
    return random_.Chance(0.2) ? absl::Seconds(random_.Below(1500))
                               : absl::Milliseconds(random_.Below(30'000));
  }
  Replica& AnyReplica() { return *replicas_[random_.Below(replicas_.size())]; }
  std::string AnyJob() { return absl::StrCat("job-", random_.Below(4)); }

  void MoveToTheNight() {
    const absl::Time night =
        test::At(random_.Chance(0.5) ? "2026-03-29 00:40:00" : "2026-10-25 00:45:00");
    for (const auto& replica : replicas_) replica->SetWall(night);
  }
  void ChangeFile() {
    std::vector<core::Job> jobs;
    for (int i = 0; i < 4; ++i) {
      const std::string name = absl::StrCat("job-", i);
      const bool stays = files_.contains(name) && random_.Chance(0.6);
      if (!stays) files_.erase(name);
      if (!stays && random_.Chance(0.7)) files_.emplace(name, RandomJob(name, random_));
      const auto job = files_.find(name);
      if (job != files_.end()) jobs.push_back(job->second);
    }
    for (const auto& replica : replicas_) {
      // Another replica may read the file later.
      timeline_.After(absl::Milliseconds(random_.Below(3'000)),
                      [&replica = *replica, jobs] { replica.SetJobs(jobs); });
    }
  }
  void PauseOrResume() {
    const std::string job = AnyJob();
    const bool pauses = random_.Chance(0.5);
    const absl::Duration time = SomeTime() + absl::Seconds(1);
    const bool ends = random_.Chance(0.5);
    AnyReplica().Post({.decide = [=](scheduler::SchedulerEngine& engine, ports::Moment now) {
      if (pauses) {
        scheduler::Pause pause = {.by = "ann"};
        if (ends) pause.until = now.wall + time;
        engine.PauseJob(job, pause, now).IgnoreError();
      } else {
        engine.ResumeJob(job, now).status().IgnoreError();
      }
      return nullptr;
    }});
  }
  void BeginBackfill() {
    scheduler::BackfillQuery query = {.job = AnyJob(), .id = absl::StrCat("b", ++backfills_)};
    const absl::Duration back = absl::Seconds(60 + random_.Below(600));
    AnyReplica().Post(
        {.decide = [=](scheduler::SchedulerEngine& engine, ports::Moment now) mutable {
          query.from = now.wall - back;
          query.until = query.from + absl::Seconds(50);
          engine.StartBackfill(query, now).status().IgnoreError();
          return nullptr;
        }});
  }
  void TriggerOne() {
    Replica& replica = AnyReplica();
    const scheduler::TriggerQuery query = {
        .job = AnyJob(), .id = absl::StrCat("t", ++triggers_), .force = random_.Chance(0.5)};
    replica.Trigger(query);
    // Some callers repeat the call: soon, because they got no answer, or much later.
    if (random_.Chance(0.5)) {
      timeline_.After(SomeTime(), [&replica, query] { replica.Trigger(query); });
    }
  }
  void Crash() {
    Replica& replica = AnyReplica();
    if (!replica.is_up()) return;
    replica.Die();
    timeline_.After(SomeTime(), [&replica] { replica.Start(); });
  }
  void ScheduleFaults() {
    Every(settings_.between_crashes, [this] { Crash(); });
    Every(settings_.between_outages, [this] { director_.GoAway(SomeTime()); });
    Every(settings_.between_drains, [this] { director_.Drain(SomeTime()); });
    Every(settings_.between_clock_jumps, [this] {
      const double hours = random_.Chance(0.3) ? 2 : 0.05;
      const double share = static_cast<double>(random_.Below(2001)) / 1000 - 1;
      AnyReplica().JumpClock(absl::Hours(1) * hours * share);
    });
    Every(settings_.between_file_changes, [this] { ChangeFile(); });
    Every(settings_.between_pauses, [this] { PauseOrResume(); });
    Every(settings_.between_people, [this] { director_.SubmitOther(); });
    Every(settings_.between_backfills, [this] { BeginBackfill(); });
    Every(settings_.between_triggers, [this] { TriggerOne(); });
  }
  void Heal() {
    quiet_ = true;
    director_.Heal();
    for (const auto& replica : replicas_) {
      replica->Heal();
      replica->Start();
    }
  }

  const Settings settings_;
  Timeline timeline_;
  test::FakeRandom random_;
  SimulatedDirector director_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  std::map<std::string, core::Job> files_;
  int backfills_ = 0;
  int triggers_ = 0;
  bool quiet_ = false;
};

}  // namespace

void Report::Add(const Report& other) {
  rows += other.rows;
  tasks += other.tasks;
  crashes += other.crashes;
  time += other.time;
}

std::string Report::Counts() const {
  return absl::StrCat(rows, " rows, ", tasks, " tasks, ", crashes, " crashes, ",
                      absl::ToInt64Hours(time), " hours");
}

Report Simulate(uint64_t seed) { return Simulation(seed).Run(); }

std::string ReplayHint(uint64_t seed) {
  return absl::StrCat("replay:  bazel run //tests/simulation/scheduler:simulate -- --seed=", seed);
}

}  // namespace callboard::simulation::cron
