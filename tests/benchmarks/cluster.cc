// Throughput and latency of a real cluster compared with the machine: a director with its store,
// agents that run `noop` tasks of 256 bytes, clients in this process, all over loopback; and in the
// same run bare gRPC, the bare disk and a bare RocksDB. Every figure alternates with its baseline,
// and the median of several rounds counts.
//
//   bazel run -c opt //tests/benchmarks:cluster [-- unary_cycles recovery ...]
//
// Measures all figures, or the named groups. Prints a line per figure: ok|FAIL|-, name, value, bar,
// goal (- if there is none). Exits with 1 if a figure misses its bar.
#include <fcntl.h>
#include <rocksdb/db.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "libs/base/check.h"
#include "libs/system/system.h"
#include "libs/testing/scripted_agent.h"
#include "tests/benchmarks/calls.h"
#include "tests/benchmarks/figures.h"
#include "tests/benchmarks/filled_store.h"
#include "tests/benchmarks/live_cluster.h"
#include "tests/benchmarks/raw_grpc.h"

namespace callboard::benchmarks {
namespace {

constexpr int kRounds = 3;
// For figures that differ by a few percent.
constexpr int kManyRounds = 7;
constexpr int kPaced = 300;
constexpr absl::Duration kPace = absl::Milliseconds(10);
constexpr uint64_t kManyPending = 1'000'000;
constexpr uint64_t kFewPending = 50;

const system::SystemClock kClock;

double UnarySubmits(int outstanding) {
  LiveCluster cluster({.flags = {"--queue.max_size=0"}});
  Meter meter(kClock);
  Callers callers(outstanding, cluster.Submit(), meter);
  return meter.Rate({});
}

double StreamedSubmits(int window, int batch) {
  LiveCluster cluster({.flags = {"--queue.max_size=0"}});
  Meter meter(kClock);
  const auto stream = cluster.Stream(window, batch, meter);
  return meter.Rate({});
}

// Writes records of the same size in consecutive synced batches to a bare RocksDB.
double RawRecords(int batch) {
  const std::filesystem::path folder = NewFolder();
  rocksdb::Options options;
  options.create_if_missing = true;
  rocksdb::DB* opened = nullptr;
  CHECK(rocksdb::DB::Open(options, (folder / "db").string(), &opened).ok());
  const std::unique_ptr<rocksdb::DB> db(opened);
  rocksdb::WriteOptions synced;
  synced.sync = true;
  const std::string value(kPayloadBytes, 'x');
  uint64_t records = 0;
  const absl::Duration began = kClock.MonotonicNow();
  while (kClock.MonotonicNow() - began < Timing().measured) {
    rocksdb::WriteBatch writes;
    for (int i = 0; i < batch; ++i) {
      CHECK(writes.Put(absl::StrFormat("%020d", ++records), value).ok());
    }
    CHECK(db->Write(synced, &writes).ok());
  }
  const double rate =
      static_cast<double>(records) / absl::ToDoubleSeconds(kClock.MonotonicNow() - began);
  std::filesystem::remove_all(folder);
  return rate;
}

struct Cycles {
  double per_second = 0;
  double cpu_micros = 0;
  // Lost spans per cycle.
  double dropped = 0;
};
Cycles MeasureCycles(LiveCluster& cluster) {
  Meter idle(kClock);
  idle.Rate({absl::ZeroDuration(), absl::Seconds(1)});
  const uint64_t before = cluster.Status().dispatches_total();
  const double dropped_before = cluster.SpansDropped();
  const double cpu_before = cluster.CpuSeconds();
  const absl::Duration began = kClock.MonotonicNow();
  idle.Rate({absl::ZeroDuration(), absl::Seconds(4)});
  const auto cycles = static_cast<double>(cluster.Status().dispatches_total() - before);
  return {cycles / absl::ToDoubleSeconds(kClock.MonotonicNow() - began),
          (cluster.CpuSeconds() - cpu_before) / cycles * 1e6,
          (cluster.SpansDropped() - dropped_before) / cycles};
}

Cycles UnaryCyclesOf(bool is_shared, const std::vector<std::string>& tracing) {
  LiveCluster cluster({.agents = 8,
                       .slots = 1,
                       .is_shared = is_shared,
                       .flags = {"--queue.policy=block"},
                       .common_flags = tracing});
  Meter meter(kClock);
  Callers callers(64, cluster.Submit(), meter);
  return MeasureCycles(cluster);
}
Cycles UnaryCycles(const std::vector<std::string>& tracing) {
  return UnaryCyclesOf(/*is_shared=*/false, tracing);
}
// The same without context switches between the agents' processes.
Cycles SharedCycles(const std::vector<std::string>& tracing) {
  return UnaryCyclesOf(/*is_shared=*/true, tracing);
}

Cycles StreamedCycles(const std::vector<std::string>& tracing) {
  LiveCluster cluster({.agents = 8,
                       .slots = 16,
                       .flags = {"--queue.policy=block", "--queue.max_size=2000"},
                       .common_flags = tracing});
  Meter meter(kClock);
  const auto stream = cluster.Stream(1024, 256, meter);
  return MeasureCycles(cluster);
}

// Returns the durations of many calls that start at a slow pace, in microseconds.
std::vector<double> Paced(const std::function<void()>& once) {
  std::vector<double> micros;
  base::Mutex mutex;
  base::CondVar never;
  absl::Duration next = kClock.MonotonicNow();
  for (int i = 0; i < kPaced; ++i) {
    next += kPace;
    {
      base::MutexLock lock(mutex);
      never.WaitFor(mutex, next - kClock.MonotonicNow(), [] { return false; });
    }
    const absl::Duration began = kClock.MonotonicNow();
    once();
    micros.push_back(absl::ToDoubleMicroseconds(kClock.MonotonicNow() - began));
  }
  std::sort(micros.begin(), micros.end());
  return micros;
}

std::vector<double> RawSyncs() {
  const std::filesystem::path folder = NewFolder();
  const int file = open((folder / "file").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  CHECK(file >= 0);
  const std::string text(kPayloadBytes, 'x');
  std::vector<double> micros = Paced([&] {
    CHECK(write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    CHECK(fdatasync(file) == 0);
  });
  close(file);
  std::filesystem::remove_all(folder);
  return micros;
}

std::vector<double> RawRoundTrips(RawGrpc& raw) {
  const Callers::Call call = raw.Call();
  return Paced([&] {
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

bool IsStart(const core::DirectorMessage& message) {
  const auto* item = std::get_if<core::DirectorItem>(&message);
  return item != nullptr && std::holds_alternative<core::StartRun>(*item);
}

// Time from the call until the agent has the start; the task is on disk by then.
std::vector<double> SubmitToStart() {
  test::ScriptedAgent agent;
  LiveCluster cluster({.flags = {absl::StrCat("--fleet.agents=", agent.address())}});
  agent.WaitForSession();
  agent.SendOpened("agent-1");
  while (cluster.Status().max_in_flight() == 0) std::this_thread::yield();
  const Callers::Call submit = cluster.Submit();
  std::vector<double> micros = Paced([&] {
    submit([] {});
    // Skips the acknowledgement of the previous task.
    core::DirectorMessage message = agent.Next().value();
    while (!IsStart(message)) message = agent.Next().value();
    const core::FenceToken token =
        std::get<core::StartRun>(std::get<core::DirectorItem>(message)).token;
    agent.Accept(token);
    agent.Finish(token);
  });
  return micros;
}

// ---- The groups of figures ----

void UnarySubmitFigures(RawGrpc& raw, Report& report) {
  for (const int outstanding : {1, 16, 64, 256}) {
    const Comparison unary = Compare([&] { return UnarySubmits(outstanding); },
                                     [&] { return raw.CallsPerSecond(outstanding); });
    const std::string name = absl::StrCat("unary submits, ", outstanding, " outstanding");
    const std::string detail =
        absl::StrFormat("x raw gRPC (%.0f/s of %.0f/s)", unary.ours, unary.raw);
    if (outstanding == 64) {
      report.Check(name, unary.ratio, {.bar = 0.45, .goal = 0.65}, detail);
    } else {
      report.Print(name, absl::StrFormat("%.2f %s", unary.ratio, detail));
    }
  }
}

void StreamedSubmitFigures(RawGrpc& raw, Report& report) {
  const auto ours = [] { return StreamedSubmits(1024, 256); };
  const Comparison streamed = Compare(ours, [&] { return raw.ItemsPerSecond(1024); });
  report.Check("streamed submits, window 1024", streamed.ratio, {.bar = 0.6, .goal = 1.5},
               absl::StrFormat("x raw bidi (%.0f/s of %.0f/s)", streamed.ours, streamed.raw));
  for (const int batch : {1, 64, 256}) {
    const Comparison stored = Compare(ours, [&] { return RawRecords(batch); });
    report.Print(
        absl::StrCat("streamed submits, of RocksDB in batches of ", batch),
        absl::StrFormat("%.2f x (%.0f/s of %.0f/s)", stored.ratio, stored.ours, stored.raw));
  }
}

// Measures a cluster with these tracing flags.
using MeasureFunction = Cycles (*)(const std::vector<std::string>& tracing);

// Cycles compared with bare gRPC.
struct CycleComparison {
  double ratio = 0;
  std::string detail = {};
};
CycleComparison CompareCycles(MeasureFunction measure, const std::function<double()>& raw) {
  double cpu = 0;
  const auto ours = [&cpu, measure] {
    const Cycles cycles = measure({});
    cpu = cycles.cpu_micros;
    return cycles.per_second;
  };
  const Comparison compared = Compare(ours, raw, kManyRounds);
  return {compared.ratio, absl::StrFormat("x raw (%.0f cycles/s of %.0f/s, %.0f us CPU each)",
                                          compared.ours, compared.raw, cpu)};
}

void UnaryCycleFigures(RawGrpc& raw, Report& report) {
  const auto calls = [&raw] { return raw.CallsPerSecond(64); };
  const CycleComparison cycles = CompareCycles(UnaryCycles, calls);
  report.Check("cycles, 8 agents x 1 slot, 64 submitters", cycles.ratio, {.bar = 0.15, .goal = 0.2},
               cycles.detail);
  const CycleComparison shared = CompareCycles(SharedCycles, calls);
  report.Print("cycles, the same with agents in one process",
               absl::StrFormat("%.2f %s", shared.ratio, shared.detail));
}

void StreamedCycleFigures(RawGrpc& raw, Report& report) {
  const CycleComparison cycles =
      CompareCycles(StreamedCycles, [&raw] { return raw.ItemsPerSecond(1024); });
  report.Check("cycles, 8 agents x 16 slots, streamed", cycles.ratio, {.bar = 0.25, .goal = 0.6},
               cycles.detail);
}

// Cycles with all tasks traced, compared with cycles without tracing; and with a collector that
// gets no spans.
void TracingFigures(RawGrpc& raw, Report& report) {
  const std::string endpoint = absl::StrCat("--telemetry.otlp_endpoint=", raw.address());
  double dropped = 0;
  const auto compare = [&](MeasureFunction measure, const std::vector<std::string>& tracing) {
    const auto traced = [&] {
      const Cycles cycles = measure(tracing);
      dropped = cycles.dropped;
      return cycles.per_second;
    };
    return Compare(
        traced, [&] { return measure({}).per_second; }, kManyRounds);
  };
  const std::pair<const char*, MeasureFunction> shapes[] = {
      {"8 agents x 1 slot", UnaryCycles}, {"8 agents x 16 slots", StreamedCycles}};
  for (const auto& [name, measure] : shapes) {
    const auto detail = [](const Comparison& compared) {
      return absl::StrFormat("x without (%.0f cycles/s of %.0f/s)", compared.ours, compared.raw);
    };
    const Comparison traced = compare(measure, {endpoint});
    report.Check(absl::StrCat("all traced, ", name), traced.ratio, {.bar = 0.9, .goal = 0.95},
                 absl::StrFormat("%s, %.1f of 4 spans each lost", detail(traced), dropped));
    const Comparison none = compare(measure, {endpoint, "--telemetry.sample_ratio=0"});
    report.Print(absl::StrCat("none of them kept, ", name),
                 absl::StrFormat("%.2f %s", none.ratio, detail(none)));
  }
}

void LatencyFigures(RawGrpc& raw, Report& report) {
  std::vector<double> ratios;
  std::string detail;
  for (int round = 0; round < kRounds; ++round) {
    const std::vector<double> sync = RawSyncs();
    const std::vector<double> trip = RawRoundTrips(raw);
    const std::vector<double> start = SubmitToStart();
    const double floor = sync[kPaced / 2] + trip[kPaced / 2] / 2;
    ratios.push_back(start[kPaced / 2] / floor);
    detail = absl::StrFormat(
        "x (sync + half a call) (p50 %.0f us, p99 %.0f us; sync %.0f, call %.0f)",
        start[kPaced / 2], start[kPaced * 99 / 100], sync[kPaced / 2], trip[kPaced / 2]);
  }
  report.Check("submit to start at 100/s, p50", Median(ratios),
               {.bar = 2.5, .goal = 1.3, .better = Report::Better::kLess}, detail);
}

void MemoryFigures(RawGrpc&, Report& report) {
  LiveCluster cluster({.flags = {"--queue.max_size=0"}});
  report.Check("memory idle, MiB PSS", cluster.DirectorPssMib(),
               {.bar = 60, .goal = 35, .better = Report::Better::kLess}, "");
  Meter meter(kClock);
  {
    const auto stream = cluster.Stream(1024, 256, meter);
    while (cluster.Status().depth() < 100'000) std::this_thread::yield();
  }
  const double mib = cluster.DirectorPssMib() * 100'000 / cluster.Status().depth();
  report.Check("memory at 100,000 pending, MiB PSS", mib,
               {.bar = 160, .goal = 80, .better = Report::Better::kLess},
               absl::StrFormat("(%d pending)", cluster.Status().depth()));
}

// Measures submits and cancels on a director whose store has pending tasks.
double SubmitsAndCancels(const std::filesystem::path& store) {
  LiveCluster cluster({.flags = {"--queue.max_size=0"}, .store = store});
  Meter meter(kClock);
  Callers callers(64, cluster.SubmitAndCancel(), meter);
  return meter.Rate({});
}

void RecoveryFigures(RawGrpc&, Report& report) {
  const std::filesystem::path folder = NewFolder();
  const auto fill = [&folder](const std::string& name, uint64_t tasks) {
    std::filesystem::create_directory(folder / name);
    FillStore(folder / name, tasks);
  };
  fill("many", kManyPending);
  fill("few", kFewPending);
  std::vector<double> seconds;
  for (int round = 0; round < kRounds; ++round) {
    const absl::Duration began = kClock.MonotonicNow();
    LiveCluster cluster({.flags = {"--queue.max_size=0"}, .store = folder / "many"});
    seconds.push_back(absl::ToDoubleSeconds(kClock.MonotonicNow() - began));
    CHECK_EQ(cluster.Status().depth(), kManyPending);
  }
  report.Check("recovery of 1,000,000 pending, seconds", Median(seconds),
               {.bar = 10, .goal = 2, .better = Report::Better::kLess}, "until it answers");
  const Comparison cost = Compare([&] { return SubmitsAndCancels(folder / "few"); },
                                  [&] { return SubmitsAndCancels(folder / "many"); });
  report.Check("cost at 1,000,000 pending", cost.ratio,
               {.bar = 3, .goal = 1.3, .better = Report::Better::kLess},
               absl::StrFormat("x at 50 (submit and cancel, %.0f/s at 50, %.0f/s at 1,000,000)",
                               cost.ours, cost.raw));
  std::filesystem::remove_all(folder);
}

int Main(const std::vector<std::string>& selected) {
  const std::vector<std::pair<std::string, void (*)(RawGrpc&, Report&)>> groups = {
      {"unary", UnarySubmitFigures},       {"streamed", StreamedSubmitFigures},
      {"unary_cycles", UnaryCycleFigures}, {"streamed_cycles", StreamedCycleFigures},
      {"tracing", TracingFigures},         {"latency", LatencyFigures},
      {"memory", MemoryFigures},           {"recovery", RecoveryFigures}};
  const auto is_selected = [&selected](const std::string& name) {
    return selected.empty() || std::find(selected.begin(), selected.end(), name) != selected.end();
  };
  for (const std::string& name : selected) {
    const auto named = [&name](const auto& group) { return group.first == name; };
    if (std::none_of(groups.begin(), groups.end(), named)) {
      absl::FPrintF(stderr, "cluster: no group '%s'; there are %s\n", name,
                    absl::StrJoin(groups, ", ", [](std::string* out, const auto& group) {
                      absl::StrAppend(out, group.first);
                    }));
      return 2;
    }
  }
  Report report;
  RawGrpc raw(kClock);
  for (const auto& [name, take] : groups) {
    if (is_selected(name)) take(raw, report);
  }
  return report.is_met() ? 0 : 1;
}

}  // namespace
}  // namespace callboard::benchmarks

int main(int argc, char** argv) {
  return callboard::benchmarks::Main(std::vector<std::string>(argv + 1, argv + argc));
}
