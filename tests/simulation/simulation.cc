#include "tests/simulation/simulation.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/testing/fake_environment.h"
#include "tests/simulation/network.h"
#include "tests/simulation/referee.h"
#include "tests/simulation/settings.h"
#include "tests/simulation/simulated_agent.h"
#include "tests/simulation/simulated_caller.h"
#include "tests/simulation/simulated_director.h"
#include "tests/simulation/timeline.h"

namespace callboard::simulation {
namespace {

// Longer than every backoff, lease, guard and delay of a simulation together.
constexpr absl::Duration kQuietTime = absl::Hours(4);
constexpr absl::Duration kKeepalive = absl::Seconds(15);

class Simulation {
 public:
  Simulation(uint64_t seed, std::ostream* log)
      : settings_(Settings::FromSeed(seed)),
        random_(seed + 0x5eed),
        clock_(timeline_),
        network_(settings_, timeline_, random_),
        referee_(settings_, timeline_, log),
        context_{settings_, timeline_, clock_, random_, network_, referee_},
        director_(context_) {
    for (int i = 1; i <= settings_.agents; ++i) {
      agents_.push_back(std::make_unique<SimulatedAgent>(context_, director_, i));
      director_.AddAgent(*agents_.back());
    }
    for (int i = 1; i <= settings_.callers; ++i) {
      callers_.push_back(
          std::make_unique<SimulatedCaller>(context_, director_, settings_.agents + i));
    }
    director_.SetDeathCallback([this] {
      for (const auto& caller : callers_) caller->OnDirectorDied();
    });
  }

  ~Simulation() { director_.Stop(); }

  Report Run() {
    for (const auto& agent : agents_) agent->Start();
    director_.Start();
    for (const auto& caller : callers_) caller->Start();
    ScheduleFaults();
    const absl::Duration begin = timeline_.now();
    const absl::Duration quiet_from = begin + settings_.noisy_time;
    while (!referee_.failed() && timeline_.Step(quiet_from)) {
    }
    BecomeQuiet();
    const absl::Duration end = timeline_.now() + kQuietTime;
    while (!referee_.failed() && !IsDone() && timeline_.Step(end)) {
    }
    if (!referee_.failed()) {
      referee_.OnEnd();
      for (const auto& caller : callers_) {
        if (!caller->is_done()) referee_.Fail("a caller was never answered");
      }
    }
    return {.failure = referee_.failure(),
            .hash = referee_.hash(),
            .steps = timeline_.steps(),
            .turns = referee_.counts().turns,
            .tasks = referee_.counts().tasks,
            .director_crashes = director_.crashes(),
            .agent_crashes = agent_crashes_,
            .partitions = partitions_,
            .time = timeline_.now() - begin};
  }

 private:
  // Repeats `what`, `mean` apart on average, until the quiet phase.
  void Every(absl::Duration mean, std::function<void()> what) {
    if (mean == absl::InfiniteDuration()) return;
    const double chance = (static_cast<double>(random_.Below(1'000'000)) + 1) / 1'000'000;
    timeline_.After(mean * -std::log(chance), [this, mean, what = std::move(what)] {
      if (context_.quiet) return;
      what();
      Every(mean, what);
    });
  }

  SimulatedAgent& AnyAgent() { return *agents_[random_.Below(agents_.size())]; }

  void ScheduleFaults() {
    Every(settings_.between_director_crashes, [this] { director_.Die(); });
    Every(settings_.between_agent_crashes, [this] {
      ++agent_crashes_;
      const size_t agent = random_.Below(agents_.size());
      const bool power_cut = random_.Chance(0.2);
      if (agent == 0 && settings_.first_agent_dies) {
        agents_[agent]->Die();
      } else {
        agents_[agent]->Crash(power_cut);
      }
      // Without power nothing is left to close the connection.
      BreakSessionAfter(agent, power_cut ? kKeepalive : absl::Milliseconds(1));
    });
    Every(settings_.between_agent_freezes, [this] {
      const size_t agent = random_.Below(agents_.size());
      const absl::Duration time = absl::Milliseconds(random_.Below(150'000));
      agents_[agent]->Freeze(time);
      if (time > kKeepalive) BreakSessionAfter(agent, kKeepalive);
    });
    Every(settings_.between_partitions, [this] { Partition(); });
    Every(settings_.between_session_breaks,
          [this] { director_.BreakSession(random_.Below(agents_.size())); });
    Every(settings_.between_clock_jumps,
          [this] { clock_.Jump(absl::Seconds(static_cast<int64_t>(random_.Below(180)) - 90)); });
    Every(settings_.between_operator_acts, [this] { RunOperatorCommand(); });
    Every(settings_.between_full_disks, [this] {
      director_.FillDisk(true);
      timeline_.After(absl::Milliseconds(random_.Below(60'000)),
                      [this] { director_.FillDisk(false); });
    });
  }

  // The director's side finds the connection dead.
  void BreakSessionAfter(size_t agent, absl::Duration after) {
    timeline_.After(after, [this, agent] { director_.BreakSession(agent); });
  }

  void Partition() {
    ++partitions_;
    const size_t agent = random_.Below(agents_.size());
    const Address address = agents_[agent]->address();
    const uint64_t direction = random_.Below(3);
    referee_.Log(absl::StrCat("partition from ", address, ", direction ", direction));
    if (direction != 0) network_.Cut(kDirector, address);
    if (direction != 1) network_.Cut(address, kDirector);
    timeline_.After(kKeepalive, [this, agent, address] {
      if (network_.IsCutBetween(kDirector, address)) director_.BreakSession(agent);
    });
    timeline_.After(absl::Milliseconds(random_.Below(200'000)), [this, address] {
      network_.Heal(kDirector, address);
      network_.Heal(address, kDirector);
    });
  }

  using OperatorCommand = std::function<void(director::DirectorEngine&, director::Moment)>;
  void RunOperatorCommand() {
    const std::string agent = AnyAgent().name();
    const OperatorCommand commands[] = {
        [](auto& engine, auto now) { engine.Pause("operator", "", now); },
        [](auto& engine, auto now) { engine.Resume(now); },
        [](auto& engine, auto now) { engine.Resume(now); },
        [](auto& engine, auto now) { engine.Drain("operator", "", now); },
        [this](auto& engine, auto now) {
          engine.Kick(now);
          referee_.OnKick(now);
        },
        [agent](auto& engine, auto now) { engine.DrainAgent(agent, "", now).IgnoreError(); },
        [agent](auto& engine, auto now) { engine.UndrainAgent(agent, now).IgnoreError(); },
    };
    director_.Post(director::MakeCommand({.origin = director::Command::Origin::kAgent},
                                         commands[random_.Below(std::size(commands))]));
    if (random_.Chance(0.1)) Restart();
  }

  // A rollout of a new version: the agents are notified, then the process ends.
  void Restart() {
    director_.Post(director::MakeCommand(
        {.origin = director::Command::Origin::kAgent},
        [](director::DirectorEngine& engine, director::Moment now) { engine.GoAway(now); }));
    // The end of the process may take a while.
    timeline_.After(absl::Seconds(1 + random_.Below(120)), [this] { director_.Die(); });
  }

  void BecomeQuiet() {
    context_.quiet = true;
    referee_.Log("quiet");
    network_.BecomeQuiet();
    director_.FillDisk(false);
    for (const auto& caller : callers_) caller->BecomeQuiet();
    for (const auto& agent : agents_) agent->BecomeQuiet();
    ClearSwitches();
  }

  // Resumes everything that operators have switched off.
  void ClearSwitches() {
    if (IsDone()) return;
    director_.Post(
        director::MakeCommand({.origin = director::Command::Origin::kAgent},
                              [this](director::DirectorEngine& engine, director::Moment now) {
                                engine.Resume(now);
                                for (const auto& agent : agents_)
                                  engine.UndrainAgent(agent->name(), now).IgnoreError();
                              }));
    timeline_.After(absl::Minutes(1), [this] { ClearSwitches(); });
  }

  bool IsDone() const {
    return referee_.counts().tasks == referee_.counts().ended &&
           std::all_of(callers_.begin(), callers_.end(),
                       [](const auto& caller) { return caller->is_done(); });
  }

  const Settings settings_;
  test::FakeRandom random_;
  Timeline timeline_;
  SimulatedClock clock_;
  Network network_;
  Referee referee_;
  SimulationContext context_;
  SimulatedDirector director_;
  std::vector<std::unique_ptr<SimulatedAgent>> agents_;
  std::vector<std::unique_ptr<SimulatedCaller>> callers_;
  uint64_t agent_crashes_ = 0;
  uint64_t partitions_ = 0;
};

}  // namespace

void Report::Add(const Report& other) {
  steps += other.steps;
  turns += other.turns;
  tasks += other.tasks;
  director_crashes += other.director_crashes;
  agent_crashes += other.agent_crashes;
  partitions += other.partitions;
  time += other.time;
}

std::string Report::Counts() const {
  return absl::StrCat(absl::ToInt64Hours(time), " h, ", steps, " steps, ", turns, " turns, ", tasks,
                      " tasks, ", director_crashes, " crashes of the director, ", agent_crashes,
                      " of agents, ", partitions, " partitions");
}

Report Simulate(uint64_t seed, std::ostream* log) { return Simulation(seed, log).Run(); }

std::string ReplayHint(uint64_t seed) {
  return absl::StrCat("settings: ", Settings::FromSeed(seed).ToString(),
                      "\nreplay:   bazel run //tests/simulation:simulate -- --seed=", seed);
}

}  // namespace callboard::simulation
