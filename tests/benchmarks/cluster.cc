// Every bar of the cluster: a director with its store, agents that run `noop` tasks of 256 bytes
// and clients in this process, all over loopback. Each figure is measured in several rounds, and in
// each round in turn with its baseline: bare gRPC or the bare disk. See Usage().
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "libs/base/check.h"
#include "libs/flow/limits.h"
#include "libs/system/system.h"
#include "tests/benchmarks/calls.h"
#include "tests/benchmarks/figures.h"
#include "tests/benchmarks/live_cluster.h"
#include "tests/benchmarks/raw_grpc.h"

namespace callboard::benchmarks {
namespace {

using Better = Figure::Better;

constexpr uint64_t kFewPending = 50;
constexpr absl::Duration kPace = absl::Milliseconds(10);
constexpr char kNoLimit[] = "--queue.max_size=0";

const system::SystemClock kClock;

// The amount of measuring.
struct Effort {
  Timing timing = {absl::Milliseconds(500), absl::Seconds(2)};
  // With agents in processes of their own, which take longer to warm up.
  Timing cycles = {absl::Seconds(1), absl::Seconds(4)};
  int rounds = 5;
  // For figures whose rounds differ little.
  int few_rounds = 3;
  int paced = 200;
  uint64_t queued = 100'000;
  uint64_t pending = 1'000'000;
};
constexpr Timing kBriefTiming = {absl::Milliseconds(50), absl::Milliseconds(250)};
constexpr Effort kBrief = {.timing = kBriefTiming,
                           .cycles = kBriefTiming,
                           .rounds = 1,
                           .few_rounds = 1,
                           .paced = 20,
                           .queued = 1000,
                           .pending = 2000};

// The baselines of a round.
struct Baseline {
  Rate rate = {};
  double sync_micros = 0;
  double call_micros = 0;
};

// Figures that are measured together.
struct Group {
  std::vector<Figure> figures;
  int rounds = 0;
  std::function<Baseline()> measure_baseline;
  // Measures the programs in this folder, and returns a sample per figure.
  std::function<std::vector<Sample>(const std::filesystem::path& programs,
                                    const Baseline& baseline)>
      measure;
  // Whether it is measured only if --only names it.
  bool is_extra = false;
};

Baseline NoBaseline() { return {}; }

// ---- Submits ----

Rate UnarySubmits(const std::filesystem::path& programs, const Timing& timing) {
  LiveCluster cluster({.programs = programs, .flags = {kNoLimit}});
  Meter meter;
  Callers callers(64, cluster.Submit(), meter);
  return MeasureRate(
      kClock, timing, [&] { return meter.count(); }, [&] { return cluster.CpuSeconds(); });
}

Rate StreamedSubmits(const std::filesystem::path& programs, const Timing& timing) {
  LiveCluster cluster({.programs = programs, .flags = {kNoLimit}});
  Meter meter;
  const auto stream = cluster.Stream(1024, 256, meter);
  return MeasureRate(
      kClock, timing, [&] { return meter.count(); }, [&] { return cluster.CpuSeconds(); });
}

Group UnarySubmitGroup(const Effort& effort, RawGrpc& raw) {
  return {.figures = {{"unary_submits", 0.5, 0.65, Better::kHigher, "x raw unary"}},
          .rounds = effort.rounds,
          .measure_baseline = [&] { return Baseline{raw.MeasureCalls(64, effort.timing)}; },
          .measure = [&](const auto& programs, const Baseline& baseline) -> std::vector<Sample> {
            const Rate submits = UnarySubmits(programs, effort.timing);
            return {{submits.per_second / baseline.rate.per_second,
                     absl::StrFormat("%s submits/s of %s raw calls/s, 64 outstanding",
                                     CountText(submits.per_second),
                                     CountText(baseline.rate.per_second))}};
          }};
}

Group StreamedSubmitGroup(const Effort& effort, RawGrpc& raw) {
  return {.figures = {{"streamed_submits", 2, 3, Better::kHigher, "x raw bidi"}},
          .rounds = effort.rounds,
          .measure_baseline = [&] { return Baseline{raw.MeasureItems(1024, effort.timing)}; },
          .measure = [&](const auto& programs, const Baseline& baseline) -> std::vector<Sample> {
            const Rate submits = StreamedSubmits(programs, effort.timing);
            return {{submits.per_second / baseline.rate.per_second,
                     absl::StrFormat("%s submits/s of %s raw items/s, window 1024",
                                     CountText(submits.per_second),
                                     CountText(baseline.rate.per_second))}};
          }};
}

// ---- Full cycles ----

struct Cycles {
  Rate rate;
  double lost_spans = 0;
};

Cycles MeasureCycles(LiveCluster& cluster, const Timing& timing) {
  const auto dispatches = [&] { return cluster.Status().dispatches_total(); };
  const uint64_t before = dispatches();
  const double lost_before = cluster.SpansDropped();
  const Rate rate = MeasureRate(kClock, timing, dispatches, [&] { return cluster.CpuSeconds(); });
  const double lost = cluster.SpansDropped() - lost_before;
  return {rate, lost / static_cast<double>(dispatches() - before)};
}

// Measures cycles with these flags of the director and the agents.
using MeasureFunction = Cycles (*)(const std::filesystem::path& programs, const Timing& timing,
                                   const std::vector<std::string>& flags);

Cycles UnaryCycles(const std::filesystem::path& programs, const Timing& timing,
                   const std::vector<std::string>& flags) {
  LiveCluster cluster({.programs = programs,
                       .agents = 8,
                       .slots = 1,
                       .flags = {"--queue.policy=block"},
                       .common_flags = flags});
  Meter meter;
  Callers callers(64, cluster.Submit(), meter);
  return MeasureCycles(cluster, timing);
}

Cycles StreamedCycles(const std::filesystem::path& programs, const Timing& timing,
                      const std::vector<std::string>& flags) {
  LiveCluster cluster({.programs = programs,
                       .agents = 8,
                       .slots = 16,
                       .flags = {"--queue.policy=block", "--queue.max_size=2000"},
                       .common_flags = flags});
  Meter meter;
  const auto stream = cluster.Stream(1024, 256, meter);
  return MeasureCycles(cluster, timing);
}

Group UnaryCycleGroup(const Effort& effort, RawGrpc& raw) {
  return {
      .figures = {{"cycles_8x1", 0.12, 0.15, Better::kHigher, "x raw unary"},
                  {"cycle_cpu", 200, 150, Better::kLower, "us per cycle"}},
      .rounds = effort.rounds,
      .measure_baseline = [&] { return Baseline{raw.MeasureCalls(64, effort.timing)}; },
      .measure = [&](const auto& programs, const Baseline& baseline) -> std::vector<Sample> {
        const Rate cycles = UnaryCycles(programs, effort.cycles, {}).rate;
        return {
            {cycles.per_second / baseline.rate.per_second,
             absl::StrFormat("%s cycles/s of %s raw calls/s; 64 unary submitters",
                             CountText(cycles.per_second), CountText(baseline.rate.per_second))},
            {cycles.cpu_micros, absl::StrFormat("director and agents; a raw call %s us, both sides",
                                                NumberText(baseline.rate.cpu_micros))}};
      }};
}

Group StreamedCycleGroup(const Effort& effort, RawGrpc& raw) {
  return {
      .figures = {{"cycles_8x16", 0.38, 0.6, Better::kHigher, "x raw bidi"}},
      .rounds = effort.rounds,
      .measure_baseline = [&] { return Baseline{raw.MeasureItems(1024, effort.timing)}; },
      .measure = [&](const auto& programs, const Baseline& baseline) -> std::vector<Sample> {
        const Rate cycles = StreamedCycles(programs, effort.cycles, {}).rate;
        return {{cycles.per_second / baseline.rate.per_second,
                 absl::StrFormat("%s cycles/s of %s raw items/s, %s us CPU each; streamed",
                                 CountText(cycles.per_second), CountText(baseline.rate.per_second),
                                 NumberText(cycles.cpu_micros))}};
      }};
}

// Cycles of which every one is traced, compared with cycles of the same programs without tracing.
Group TracingGroup(const std::string& name, MeasureFunction measure, const Effort& effort,
                   RawGrpc& raw) {
  const std::string endpoint = absl::StrCat("--telemetry.otlp_endpoint=", raw.address());
  return {.figures = {{name, 0.9, 0.95, Better::kHigher, "x untraced"}},
          .rounds = effort.rounds,
          .measure_baseline = NoBaseline,
          .measure = [=, &effort](const auto& programs, const Baseline&) -> std::vector<Sample> {
            const Cycles untraced = measure(programs, effort.cycles, {});
            const Cycles traced = measure(programs, effort.cycles, {endpoint});
            return {{traced.rate.per_second / untraced.rate.per_second,
                     absl::StrFormat("%s cycles/s of %s, %.1f of 4 spans each lost",
                                     CountText(traced.rate.per_second),
                                     CountText(untraced.rate.per_second), traced.lost_spans)}};
          },
          .is_extra = true};
}

// ---- Latency ----

// Returns the durations of calls that start every kPace, sorted, in microseconds.
std::vector<double> Paced(int calls, const std::function<void()>& once) {
  std::vector<double> micros;
  absl::Duration next = kClock.MonotonicNow();
  for (int i = 0; i < calls; ++i) {
    next += kPace;
    Wait(next - kClock.MonotonicNow());
    const absl::Duration began = kClock.MonotonicNow();
    once();
    micros.push_back(absl::ToDoubleMicroseconds(kClock.MonotonicNow() - began));
  }
  std::sort(micros.begin(), micros.end());
  return micros;
}

std::vector<double> RawSyncs(int calls) {
  const std::filesystem::path folder = NewFolder();
  const int file = open((folder / "file").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  CHECK(file >= 0);
  const std::string text(kPayloadBytes, 'x');
  std::vector<double> micros = Paced(calls, [&] {
    CHECK(write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    CHECK(fdatasync(file) == 0);
  });
  close(file);
  std::filesystem::remove_all(folder);
  return micros;
}

std::vector<double> RawRoundTrips(RawGrpc& raw, int calls) {
  const Callers::Call call = raw.Call();
  return Paced(calls, [&] {
    base::Mutex mutex;
    base::CondVar changed;
    bool answered = false;
    call([&] {
      base::MutexLock lock(mutex);
      answered = true;
      changed.NotifyAll();
    });
    base::MutexLock lock(mutex);
    while (!answered) changed.Wait(mutex);
  });
}

// Returns the time from the call until the agent has the start; the task is on disk by then.
std::vector<double> SubmitToStart(const std::filesystem::path& programs, int calls) {
  InstantAgent agent;
  LiveCluster cluster(
      {.programs = programs, .flags = {absl::StrCat("--fleet.agents=", agent.address())}});
  while (cluster.Status().max_in_flight() == 0) Wait(absl::Milliseconds(1));
  const Callers::Call submit = cluster.Submit();
  Meter answers;
  std::vector<double> micros = Paced(calls, [&] {
    submit([&] { answers.Count(); });
    agent.WaitForStart();
  });
  // A start may be earlier than the answer to the caller.
  while (answers.count() < static_cast<uint64_t>(calls)) Wait(absl::Milliseconds(1));
  return micros;
}

Group LatencyGroup(const Effort& effort, RawGrpc& raw) {
  const size_t p50 = effort.paced / 2;
  const size_t p99 = effort.paced * 99 / 100;
  return {.figures = {{"submit_to_start", 1.3, 1.1, Better::kLower, "x (sync + call)"}},
          .rounds = effort.rounds,
          .measure_baseline =
              [=, &effort, &raw] {
                return Baseline{.sync_micros = RawSyncs(effort.paced)[p50],
                                .call_micros = RawRoundTrips(raw, effort.paced)[p50]};
              },
          .measure = [=, &effort](const auto& programs,
                                  const Baseline& baseline) -> std::vector<Sample> {
            const std::vector<double> micros = SubmitToStart(programs, effort.paced);
            return {{micros[p50] / (baseline.sync_micros + baseline.call_micros),
                     absl::StrFormat("p50 %s us of %s + %s us, all at 100/s; p99 %s us",
                                     CountText(micros[p50]), CountText(baseline.sync_micros),
                                     CountText(baseline.call_micros), CountText(micros[p99]))}};
          }};
}

// ---- Many tasks ----

Group MemoryGroup(const Effort& effort) {
  return {.figures = {{"memory_idle", 35, 25, Better::kLower, "MiB"},
                      {"memory_100k", 130, 80, Better::kLower, "MiB"}},
          .rounds = effort.few_rounds,
          .measure_baseline = NoBaseline,
          .measure = [&](const auto& programs, const Baseline&) -> std::vector<Sample> {
            LiveCluster cluster({.programs = programs, .flags = {kNoLimit}});
            const double idle = cluster.DirectorPssMib();
            cluster.Fill(effort.queued);
            CHECK_EQ(cluster.Status().depth(), effort.queued);
            return {{idle, "PSS of the director without tasks"},
                    {cluster.DirectorPssMib(),
                     absl::StrCat("PSS of the director, ", CountText(effort.queued),
                                  " tasks pending")}};
          }};
}

// Returns the rate of submits with their cancels.
double SubmitsAndCancels(LiveCluster& cluster, const Timing& timing) {
  Meter meter;
  Callers callers(64, cluster.SubmitAndCancel(), meter);
  return MeasureRate(
             kClock, timing, [&] { return meter.count(); }, [] { return 0.0; })
      .per_second;
}

// The stores of some programs.
struct FilledStores {
  std::filesystem::path many;
  std::filesystem::path few;
};

// Returns a new store with pending tasks. These programs write it, as each has its own format.
std::filesystem::path FilledStore(const std::filesystem::path& programs, uint64_t tasks) {
  const std::filesystem::path store = NewFolder();
  LiveCluster cluster({.programs = programs, .flags = {kNoLimit}, .store = store});
  cluster.Fill(tasks);
  return store;
}

Group PendingGroup(const Effort& effort) {
  std::map<std::filesystem::path, FilledStores> stores;
  return {
      .figures = {{"recovery_1m", 10, 2, Better::kLower, "s"},
                  {"cost_at_1m", 3, 1.3, Better::kLower, "x at 50 pending"}},
      .rounds = effort.few_rounds,
      .measure_baseline = NoBaseline,
      .measure = [stores, &effort](const auto& programs,
                                   const Baseline&) mutable -> std::vector<Sample> {
        if (!stores.contains(programs)) {
          stores[programs] = {.many = FilledStore(programs, effort.pending),
                              .few = FilledStore(programs, kFewPending)};
        }
        const auto options = [&](const std::filesystem::path& store) {
          return LiveCluster::Options{.programs = programs, .flags = {kNoLimit}, .store = store};
        };
        LiveCluster few(options(stores[programs].few));
        const double at_few = SubmitsAndCancels(few, effort.timing);
        const absl::Duration began = kClock.MonotonicNow();
        LiveCluster many(options(stores[programs].many));
        const double seconds = absl::ToDoubleSeconds(kClock.MonotonicNow() - began);
        CHECK_EQ(many.Status().depth(), effort.pending);
        const double at_many = SubmitsAndCancels(many, effort.timing);
        return {
            {seconds, absl::StrFormat("until it serves; %s pending", CountText(effort.pending))},
            {at_few / at_many,
             absl::StrFormat("a submit and its cancel: %s/s at 50, %s/s at %s", CountText(at_few),
                             CountText(at_many), CountText(effort.pending))}};
      }};
}

std::vector<Group> AllGroups(const Effort& effort, RawGrpc& raw) {
  return {UnarySubmitGroup(effort, raw),
          StreamedSubmitGroup(effort, raw),
          UnaryCycleGroup(effort, raw),
          StreamedCycleGroup(effort, raw),
          LatencyGroup(effort, raw),
          MemoryGroup(effort),
          PendingGroup(effort),
          TracingGroup("traced_8x1", UnaryCycles, effort, raw),
          TracingGroup("traced_8x16", StreamedCycles, effort, raw)};
}

// ---- The program ----

constexpr char kUsage[] =
    R"(cluster: measures a director and its agents against their bars, beside bare gRPC and the bare disk.

  bazel run //tests/benchmarks:cluster -- [flags]

  --only=NAME[,NAME]  measure these figures only
  --beside=FOLDER     measure the director and the agent of another tree in the same rounds, and
                      print its value and the ratio of this tree's value to it below each figure.
                      FOLDER is an absolute path and has the layout of bazel-bin: the bazel-bin of
                      a checkout, or a copy
  --brief             measure for an instant, to see that it works; nothing is judged
  --help              print this text

Prints a line per figure: ok or FAIL, name, value, bar, goal, whether a higher or a lower value is
better, lowest and highest value of the rounds, unit, and the numbers of the median round.
Exits with 1 if a figure misses its bar. Takes about 4 minutes on a quiet machine with 2 cores, with
--beside about 7. Other load distorts all figures; compare figures of one run only.

Figures:
)";

struct Arguments {
  std::vector<std::string> only = {};
  // Relative to the working directory; empty without --beside.
  std::filesystem::path beside = {};
  bool is_brief = false;
  bool is_help = false;
  // Empty if the arguments are right.
  std::string error = {};
};

Arguments ReadArguments(const std::vector<std::string>& words) {
  Arguments read;
  for (const std::string& word : words) {
    absl::string_view value = word;
    if (word == "--brief") {
      read.is_brief = true;
    } else if (word == "--help") {
      read.is_help = true;
    } else if (absl::ConsumePrefix(&value, "--only=")) {
      read.only = absl::StrSplit(value, ',', absl::SkipEmpty());
    } else if (absl::ConsumePrefix(&value, "--beside=")) {
      read.beside = std::filesystem::proximate(std::string(value));
      for (const char* program : {kDirectorProgram, kAgentProgram}) {
        if (!std::filesystem::exists(read.beside / program)) {
          read.error = absl::StrCat("there is no ", program, " in ", value,
                                    "; build it there, and give an absolute path");
        }
      }
    } else {
      read.error = absl::StrCat("no flag '", word, "'; see --help");
    }
  }
  return read;
}

std::vector<std::string> NamesOf(const std::vector<Group>& groups) {
  std::vector<std::string> names;
  for (const Group& group : groups) {
    for (const Figure& figure : group.figures) names.push_back(figure.name);
  }
  return names;
}

void PrintFigures(const std::vector<Group>& groups) {
  for (const Group& group : groups) {
    for (const Figure& figure : group.figures) {
      absl::PrintF("  %-16s bar %g, goal %g %s%s\n", figure.name, figure.bar, figure.goal,
                   figure.unit, group.is_extra ? " (measured only if --only names it)" : "");
    }
  }
}

void PrintMachine(const Arguments& arguments, const Effort& effort) {
  double load = 0;
  CHECK(getloadavg(&load, 1) == 1);
  const flow::Machine machine = system::ThisMachine();
  absl::PrintF("Callboard cluster, %s UTC, %d cores, %.0f GiB, load %.1f at the start\n",
               absl::FormatTime("%Y-%m-%d %H:%M", kClock.WallNow(), absl::UTCTimeZone()),
               machine.processors, static_cast<double>(machine.memory_bytes) / (1 << 30), load);
  if (arguments.is_brief) {
    absl::PrintF("brief: one short round each; these figures say nothing about speed\n");
  } else {
    absl::PrintF("medians of %d rounds (memory and many tasks: %d)\n", effort.rounds,
                 effort.few_rounds);
  }
  if (!arguments.beside.empty()) {
    absl::PrintF("beside: %s; ratio: this tree's value, of the value beside\n",
                 std::filesystem::absolute(arguments.beside).lexically_normal().string());
  }
  absl::PrintF("\n");
}

// Measures a group and prints the figures that `is_selected`.
void Take(const Group& group, const std::filesystem::path& beside,
          const std::function<bool(const std::string&)>& is_selected, Report& report) {
  std::vector<std::vector<Sample>> ours(group.figures.size());
  std::vector<std::vector<Sample>> others(group.figures.size());
  const auto measure = [&](const std::filesystem::path& programs, const Baseline& baseline,
                           std::vector<std::vector<Sample>>& rounds) {
    const std::vector<Sample> samples = group.measure(programs, baseline);
    for (size_t i = 0; i < rounds.size(); ++i) rounds[i].push_back(samples[i]);
  };
  for (int round = 0; round < group.rounds; ++round) {
    const Baseline baseline = group.measure_baseline();
    // Neither of the two is always the first.
    if (!beside.empty() && round % 2 == 1) measure(beside, baseline, others);
    measure(".", baseline, ours);
    if (!beside.empty() && round % 2 == 0) measure(beside, baseline, others);
  }
  for (size_t i = 0; i < group.figures.size(); ++i) {
    if (is_selected(group.figures[i].name)) report.Add(group.figures[i], ours[i], others[i]);
  }
}

int Main(const std::vector<std::string>& words) {
  const Arguments arguments = ReadArguments(words);
  const Effort effort = arguments.is_brief ? kBrief : Effort();
  RawGrpc raw(kClock);
  const std::vector<Group> groups = AllGroups(effort, raw);
  if (arguments.is_help) {
    absl::PrintF("%s", kUsage);
    PrintFigures(groups);
    return 0;
  }
  std::string error = arguments.error;
  const std::vector<std::string> names = NamesOf(groups);
  for (const std::string& name : arguments.only) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      error = absl::StrCat("no figure '", name, "'; there are ", absl::StrJoin(names, ", "));
    }
  }
  if (!error.empty()) {
    absl::FPrintF(stderr, "cluster: %s\n", error);
    return 2;
  }

  const absl::Duration began = kClock.MonotonicNow();
  PrintMachine(arguments, effort);
  Report report(/*is_judged=*/!arguments.is_brief);
  for (const Group& group : groups) {
    const auto is_selected = [&](const std::string& name) {
      return arguments.only.empty() ? !group.is_extra : absl::c_linear_search(arguments.only, name);
    };
    const bool is_measured =
        std::any_of(group.figures.begin(), group.figures.end(),
                    [&](const Figure& figure) { return is_selected(figure.name); });
    if (is_measured) Take(group, arguments.beside, is_selected, report);
  }
  absl::PrintF("\ntook %.0f s; ", absl::ToDoubleSeconds(kClock.MonotonicNow() - began));
  if (arguments.is_brief) {
    absl::PrintF("nothing was judged\n");
  } else if (report.missed().empty()) {
    absl::PrintF("every bar is reached\n");
  } else {
    absl::PrintF("missed: %s\n", absl::StrJoin(report.missed(), ", "));
  }
  return report.missed().empty() ? 0 : 1;
}

}  // namespace
}  // namespace callboard::benchmarks

int main(int argc, char** argv) {
  const std::filesystem::path folder = callboard::benchmarks::WorkFolder();
  std::filesystem::create_directories(folder);
  const int code = callboard::benchmarks::Main(std::vector<std::string>(argv + 1, argv + argc));
  std::filesystem::remove_all(folder);
  return code;
}
