#include "tests/simulation/scheduler/settings.h"

#include "absl/strings/match.h"
#include "libs/testing/cron_jobs.h"

namespace callboard::simulation::cron {

Settings Settings::FromSeed(uint64_t seed) {
  test::FakeRandom random(seed);
  const auto sometimes = [&random](double limit) {
    return random.Chance(0.5) ? limit * static_cast<double>(1 + random.Below(100)) / 100 : 0;
  };
  const auto now_and_then = [&random](absl::Duration mean) {
    return random.Chance(0.5) ? mean * (1 + random.Below(10)) : absl::InfiniteDuration();
  };
  Settings settings;
  settings.seed = seed;
  settings.noisy_time = absl::Minutes(10 + random.Below(50));
  settings.replicas = random.Chance(0.3) ? 2 : 1;
  settings.max_size = static_cast<uint32_t>(1 + random.Below(random.Chance(0.5) ? 5 : 50));
  settings.slots = static_cast<uint32_t>(1 + random.Below(3));
  settings.call_lost = sometimes(0.3);
  settings.answer_lost = sometimes(0.3);
  settings.connection_breaks = sometimes(0.3);
  settings.call_is_slow = sometimes(0.3);
  settings.commit_fails = sometimes(0.05);
  settings.commit_fails_but_wrote = sometimes(0.05);
  settings.dies_at_commit = sometimes(0.1);
  settings.dies_at_call = sometimes(0.1);
  settings.run_fails = sometimes(0.8);
  settings.between_crashes = now_and_then(absl::Seconds(40));
  settings.between_outages = now_and_then(absl::Minutes(1));
  settings.between_drains = now_and_then(absl::Minutes(2));
  settings.between_clock_jumps = now_and_then(absl::Minutes(1));
  settings.between_file_changes = now_and_then(absl::Seconds(40));
  settings.between_pauses = now_and_then(absl::Seconds(30));
  settings.between_people = now_and_then(absl::Seconds(2));
  settings.between_backfills = now_and_then(absl::Minutes(1));
  settings.between_triggers = now_and_then(absl::Seconds(30));
  return settings;
}

core::Job RandomJob(const std::string& name, test::FakeRandom& random) {
  // Schedules with seconds, so that an hour has many occurrences; some jobs are in a zone whose
  // clocks are about to change.
  static constexpr const char* kSchedules[] = {"*/10 * * * * *", "*/7 * * * * *", "0 * * * * *",
                                               "30 */5 * * * *", "0 */2 * * * *", "15 ~ * * * *",
                                               "0 30 2 * * *",   "*/20 * 2 * * *"};
  static constexpr core::OverlapPolicy kOverlaps[] = {
      core::OverlapPolicy::kSkip, core::OverlapPolicy::kQueueOne, core::OverlapPolicy::kAllow};
  const std::string schedule = kSchedules[random.Below(std::size(kSchedules))];
  // Schedules of a single hour matter in the nights in which the clocks change.
  const bool is_berlin = random.Chance(0.3) || absl::StrContains(schedule, " 2 ");
  core::Job job = test::CronJob(name, schedule, is_berlin ? "Europe/Berlin" : "UTC");
  job.overlap = kOverlaps[random.Below(3)];
  if (random.Chance(0.4)) {
    job.catch_up = random.Chance(0.5) ? core::CatchUp{core::CatchUp::Kind::kNone}
                                      : core::CatchUp{core::CatchUp::Kind::kAll,
                                                      static_cast<uint32_t>(1 + random.Below(4))};
  }
  if (random.Chance(0.3)) job.queue_full_wait = absl::Seconds(1 + random.Below(120));
  if (random.Chance(0.3)) job.jitter = absl::Seconds(1 + random.Below(30));
  if (random.Chance(0.1)) job.max_runs = static_cast<uint32_t>(1 + random.Below(5));
  if (random.Chance(0.1)) job.paused = true;
  if (random.Chance(0.2)) job.pause_after_failures = static_cast<uint32_t>(1 + random.Below(3));
  if (random.Chance(0.2)) job.agent_url = "grpc://agent";
  job.task = test::JobTaskOf(random.Chance(0.5) ? "one thing" : "another", name);
  return job;
}

}  // namespace callboard::simulation::cron
