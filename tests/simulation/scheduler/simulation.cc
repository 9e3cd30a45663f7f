#include "tests/simulation/scheduler/simulation.h"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/core/hash.h"
#include "libs/testing/cron_jobs.h"
#include "tests/simulation/scheduler/replica.h"
#include "tests/simulation/scheduler/settings.h"
#include "tests/simulation/scheduler/simulated_director.h"
#include "tests/simulation/timeline.h"

namespace callboard::simulation::cron {
namespace {

constexpr absl::Duration kQuietTime = absl::Minutes(45);

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
