#include "tests/simulation/settings.h"

#include "absl/strings/str_cat.h"
#include "libs/testing/fake_environment.h"

namespace callboard::simulation {
namespace {

using core::QueuePolicy;

constexpr QueuePolicy kPolicies[] = {QueuePolicy::kReject, QueuePolicy::kBlock,
                                     QueuePolicy::kDropOldest, QueuePolicy::kDropLatest};

}  // namespace

Settings Settings::FromSeed(uint64_t seed) {
  test::FakeRandom random(seed);
  const auto some = [&random](double most) {
    return random.Chance(0.5) ? most * static_cast<double>(1 + random.Below(10)) / 10 : 0;
  };
  const auto every = [&random](absl::Duration mean) {
    return random.Chance(0.5) ? mean * static_cast<double>(1 + random.Below(4))
                              : absl::InfiniteDuration();
  };
  Settings settings;
  settings.seed = seed;
  settings.noisy_time = absl::Minutes(4 + static_cast<int>(random.Below(12)));
  settings.agents = 1 + static_cast<int>(random.Below(5));
  settings.slots = 1 + static_cast<int>(random.Below(2));
  settings.callers = 1 + static_cast<int>(random.Below(6));
  settings.submits_per_caller = 3 + static_cast<int>(random.Below(10));

  core::QueueOptions& queue = settings.engine.queue;
  queue.max_size = static_cast<uint32_t>(random.Chance(0.1) ? 0 : 1 + random.Below(12));
  queue.policy = kPolicies[random.Below(4)];
  queue.max_attempts = 1 + static_cast<uint32_t>(random.Below(4));
  queue.max_waiters = 1 + static_cast<uint32_t>(random.Below(20));
  queue.scheduler_share = 0.2 * static_cast<double>(1 + random.Below(5));
  queue.allow_evict = random.Chance(0.5);
  if (random.Chance(0.2)) settings.engine.retention.count = static_cast<uint32_t>(random.Below(20));

  settings.lost = some(0.1);
  settings.repeated = some(0.1);
  settings.held_up = some(0.1);
  settings.between_director_crashes = every(absl::Seconds(40));
  settings.between_agent_crashes = every(absl::Seconds(40));
  settings.first_agent_dies = settings.agents > 1 && random.Chance(0.5);
  settings.between_agent_freezes = every(absl::Seconds(60));
  settings.between_partitions = every(absl::Seconds(60));
  settings.between_session_breaks = every(absl::Seconds(30));
  settings.between_clock_jumps = every(absl::Seconds(60));
  settings.between_operator_acts = every(absl::Seconds(40));
  settings.between_full_disks = every(absl::Minutes(3));
  settings.commit_fails = some(0.02);
  settings.commit_fails_but_wrote = some(0.02);
  settings.commit_is_slow = some(0.05);
  settings.dies_at_commit = some(0.02);
  settings.clock_drift = some(0.06);
  settings.answers_busy = some(0.3);
  settings.answers_error = some(0.2);
  settings.answers_rejected = some(0.1);
  settings.run_fails = some(0.5);
  settings.run_hangs = some(0.1);
  settings.cancels = some(0.4);
  settings.leaves = some(0.5);
  settings.repeats_request = some(0.3);
  settings.uses_session = some(0.6);
  settings.uses_overlap = some(0.5);
  settings.uses_ticket = some(0.4);
  settings.uses_deadline = some(0.4);
  settings.uses_delay = some(0.4);
  settings.uses_labels = some(0.5);
  settings.is_scheduler = some(0.8);
  settings.requeues_when_lost = some(1);
  settings.redrives = some(0.3);
  settings.run_cannot_begin = some(0.4);
  settings.ends_session_on_start = random.Chance(0.25);
  settings.reopens_session = random.Chance(0.25);
  return settings;
}

std::string Settings::ToString() const {
  const core::QueueOptions& queue = engine.queue;
  std::string text =
      absl::StrCat("noisy=", absl::FormatDuration(noisy_time), " agents=", agents, " slots=", slots,
                   " callers=", callers, " submits=", submits_per_caller,
                   " max_size=", queue.max_size, " policy=", static_cast<int>(queue.policy),
                   " max_attempts=", queue.max_attempts, " max_waiters=", queue.max_waiters,
                   " share=", queue.scheduler_share, " retention=", engine.retention.count);
  const auto share = [&text](absl::string_view name, double value) {
    if (value > 0) absl::StrAppend(&text, " ", name, "=", value);
  };
  const auto every = [&text](absl::string_view name, absl::Duration mean) {
    if (mean < absl::InfiniteDuration()) {
      absl::StrAppend(&text, " ", name, "=", absl::FormatDuration(mean));
    }
  };
  share("lost", lost);
  share("repeated", repeated);
  share("held_up", held_up);
  every("director_crashes", between_director_crashes);
  every("agent_crashes", between_agent_crashes);
  share("first_agent_dies", first_agent_dies ? 1 : 0);
  every("agent_freezes", between_agent_freezes);
  every("partitions", between_partitions);
  every("session_breaks", between_session_breaks);
  every("clock_jumps", between_clock_jumps);
  every("operator", between_operator_acts);
  every("full_disks", between_full_disks);
  share("commit_fails", commit_fails);
  share("commit_fails_but_wrote", commit_fails_but_wrote);
  share("commit_is_slow", commit_is_slow);
  share("dies_at_commit", dies_at_commit);
  share("drift", clock_drift);
  share("busy", answers_busy);
  share("error", answers_error);
  share("rejected", answers_rejected);
  share("ends_session_on_start", ends_session_on_start ? 1 : 0);
  share("reopens_session", reopens_session ? 1 : 0);
  share("run_fails", run_fails);
  share("run_hangs", run_hangs);
  share("run_cannot_begin", run_cannot_begin);
  share("cancels", cancels);
  share("leaves", leaves);
  share("repeats", repeats_request);
  share("session", uses_session);
  share("overlap", uses_overlap);
  share("ticket", uses_ticket);
  share("deadline", uses_deadline);
  share("delay", uses_delay);
  share("labels", uses_labels);
  share("scheduler", is_scheduler);
  share("requeue", requeues_when_lost);
  share("redrive", redrives);
  return text;
}

}  // namespace callboard::simulation
