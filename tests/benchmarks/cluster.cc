// How fast a real cluster is, beside what the machine gives: a director with its store, agents that
// run `noop` tasks of 256 bytes, clients in this process, all over loopback; and in the same run
// gRPC with nothing behind it and the bare disk. Every figure and its raw one are taken in turns,
// and the middle one of several rounds counts.
//
//   bazel run -c opt //tests/benchmarks:cluster
//
// Prints a line per figure: ok|FAIL|-, name, value, bar, goal (- where there is none). Exits with 1
// when a bar is missed.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "callboard/v1/queue.grpc.pb.h"
#include "libs/adapters/system_clock/system_clock.h"
#include "libs/base/check.h"
#include "libs/testing/file_text.h"
#include "libs/testing/process.h"
#include "libs/testing/running_server.h"
#include "libs/testing/scripted_agent.h"
#include "tests/benchmarks/calls.h"
#include "tests/benchmarks/raw_grpc.h"

namespace callboard::benchmarks {
namespace {

constexpr int kRounds = 3;
constexpr int kPaced = 300;
constexpr absl::Duration kPace = absl::Milliseconds(10);

const adapters::SystemClock kClock;

// A folder below the working directory, where the disk is: /tmp may be memory.
std::filesystem::path NewFolder() {
  static int count = 0;
  const std::filesystem::path path =
      std::filesystem::absolute(absl::StrCat("cluster-", getpid())) / absl::StrCat(++count);
  std::filesystem::create_directories(path);
  return path;
}

v1::SubmitTaskRequest Task() {
  v1::SubmitTaskRequest request;
  request.set_prompt(std::string(kPayloadBytes, 'x'));
  return request;
}

// A director on a new folder, and agents of its.
class Cluster {
 public:
  struct Shape {
    int agents = 0;
    int slots = 1;
    std::vector<std::string> flags = {};
  };

  explicit Cluster(const Shape& shape)
      : folder_(NewFolder()), director_("services/director/callboard-director", [&] {
          std::vector<std::string> flags = shape.flags;
          flags.push_back(absl::StrCat("--data_dir=", (folder_ / "director").string()));
          return flags;
        }()) {
    stub_ = v1::QueueService::NewStub(director_.NewChannel());
    for (int i = 1; i <= shape.agents; ++i) {
      const std::string name = absl::StrCat("agent-", i);
      agents_.push_back(std::make_unique<test::RunningServer>(
          "services/agent/callboard-agent",
          std::vector<std::string>{absl::StrCat("--director.address=", director_.grpc_address()),
                                   absl::StrCat("--agent.name=", name), "--runner.kind=noop",
                                   absl::StrCat("--lanes=default=", shape.slots),
                                   absl::StrCat("--data_dir=", (folder_ / name).string())}));
    }
    while (Status().max_in_flight() < static_cast<uint32_t>(shape.agents * shape.slots)) {
      std::this_thread::yield();
    }
  }
  ~Cluster() {
    agents_.clear();
    std::filesystem::remove_all(folder_);
  }

  test::RunningServer& director() { return director_; }

  v1::QueueStatus Status() {
    grpc::ClientContext context;
    v1::QueueStatus status;
    const grpc::Status got = stub_->GetQueueStatus(&context, {}, &status);
    CHECK(got.ok()) << got.error_message();
    return status;
  }

  Callers::Call Call() {
    return UnaryCall<v1::SubmitTaskRequest, v1::SubmitTaskResponse>(
        Task(), [this](auto&&... arguments) {
          stub_->async()->SubmitTask(std::forward<decltype(arguments)>(arguments)...);
        });
  }

  using SubmitStream = Streamer<v1::SubmitTasksRequest, v1::SubmitTasksResponse>;
  static SubmitStream::Shape StreamShape(int window, int batch) {
    return {.window = window,
            .batch = batch,
            .fill =
                [](v1::SubmitTasksRequest& request, int items) {
                  for (int i = 0; i < items; ++i) *request.add_items() = Task();
                },
            .answered =
                [](const v1::SubmitTasksResponse& response) {
                  for (const auto& item : response.items()) {
                    CHECK(item.has_accepted()) << item.refused().message();
                  }
                  return response.items_size();
                }};
  }
  std::unique_ptr<SubmitStream> Stream(int window, int batch, Meter& meter) {
    return std::make_unique<SubmitStream>(
        [this](auto... arguments) { stub_->async()->SubmitTasks(arguments...); },
        StreamShape(window, batch), meter);
  }

  double CpuSeconds() {
    double seconds = CpuSecondsOf(director_.process().pid());
    for (const auto& agent : agents_) seconds += CpuSecondsOf(agent->process().pid());
    return seconds;
  }

 private:
  static double CpuSecondsOf(pid_t pid) {
    const std::string stat = test::FileText(absl::StrCat("/proc/", pid, "/stat"));
    const std::vector<std::string> fields =
        absl::StrSplit(stat.substr(stat.rfind(')') + 2), ' ', absl::SkipEmpty());
    double user = 0;
    double system = 0;
    CHECK(absl::SimpleAtod(fields.at(11), &user) && absl::SimpleAtod(fields.at(12), &system));
    return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
  }

  const std::filesystem::path folder_;
  test::RunningServer director_;
  std::vector<std::unique_ptr<test::RunningServer>> agents_;
  std::unique_ptr<v1::QueueService::Stub> stub_;
};

double Middle(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// ---- The figures ----

class Report {
 public:
  // A figure without a bar.
  void Say(const std::string& name, const std::string& value) {
    std::printf("-    %-46s %s\n", name.c_str(), value.c_str());
    std::fflush(stdout);
  }
  // `value` has to be at least `bar`, or at most when less is better.
  enum class Better { kMore, kLess };
  void Check(const std::string& name, double value, double bar, double goal, Better better,
             const std::string& detail) {
    const bool is_met = better == Better::kMore ? value >= bar : value <= bar;
    is_met_ = is_met_ && is_met;
    std::printf("%-4s %-46s %.2f bar %.2f goal %.2f  %s\n", is_met ? "ok" : "FAIL", name.c_str(),
                value, bar, goal, detail.c_str());
    std::fflush(stdout);
  }
  bool is_met() const { return is_met_; }

 private:
  bool is_met_ = true;
};

// `ours` and `raw` in turns: the middle of what ours is of raw, and of both.
struct Compared {
  double ratio = 0;
  double ours = 0;
  double raw = 0;
};
Compared Compare(const std::function<double()>& ours, const std::function<double()>& raw) {
  std::vector<double> ratios;
  std::vector<double> own;
  std::vector<double> bare;
  for (int round = 0; round < kRounds; ++round) {
    bare.push_back(raw());
    own.push_back(ours());
    ratios.push_back(own.back() / bare.back());
  }
  return {Middle(ratios), Middle(own), Middle(bare)};
}

double UnarySubmits(int outstanding) {
  Cluster cluster({.flags = {"--queue.max_size=0"}});
  Meter meter(kClock);
  Callers callers(outstanding, cluster.Call(), meter);
  return meter.Rate({});
}

double StreamedSubmits(int window, int batch) {
  Cluster cluster({.flags = {"--queue.max_size=0"}});
  Meter meter(kClock);
  const auto stream = cluster.Stream(window, batch, meter);
  return meter.Rate({});
}

struct Cycles {
  double per_second = 0;
  double cpu_micros = 0;
};
Cycles MeasureCycles(Cluster& cluster) {
  Meter idle(kClock);
  idle.Rate({absl::ZeroDuration(), absl::Seconds(1)});
  const uint64_t before = cluster.Status().dispatched_count();
  const double cpu_before = cluster.CpuSeconds();
  const absl::Duration began = kClock.MonotonicNow();
  idle.Rate({absl::ZeroDuration(), absl::Seconds(4)});
  const auto cycles = static_cast<double>(cluster.Status().dispatched_count() - before);
  return {cycles / absl::ToDoubleSeconds(kClock.MonotonicNow() - began),
          (cluster.CpuSeconds() - cpu_before) / cycles * 1e6};
}

Cycles UnaryCycles() {
  Cluster cluster({.agents = 8, .slots = 1, .flags = {"--queue.policy=block"}});
  Meter meter(kClock);
  Callers callers(64, cluster.Call(), meter);
  return MeasureCycles(cluster);
}

Cycles StreamedCycles() {
  Cluster cluster(
      {.agents = 8, .slots = 16, .flags = {"--queue.policy=block", "--queue.max_size=2000"}});
  Meter meter(kClock);
  const auto stream = cluster.Stream(1024, 256, meter);
  return MeasureCycles(cluster);
}

// How long each of many takes that begin one after the other at a slow pace, in microseconds.
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

bool IsStart(const core::DirectorWord& word) {
  const auto* item = std::get_if<core::DirectorItem>(&word);
  return item != nullptr && std::holds_alternative<core::StartRun>(*item);
}

// From the call until the agent has the start; the task is on disk by then.
std::vector<double> SubmitToStart() {
  test::ScriptedAgent agent;
  Cluster cluster({.flags = {absl::StrCat("--fleet.agents=", agent.address())}});
  agent.WaitForSession();
  agent.SayOpened("agent-1");
  while (cluster.Status().max_in_flight() == 0) std::this_thread::yield();
  const Callers::Call submit = cluster.Call();
  std::vector<double> micros = Paced([&] {
    submit([] {});
    // Past the acknowledgement of the one before.
    core::DirectorWord word = agent.Next().value();
    while (!IsStart(word)) word = agent.Next().value();
    const core::FenceToken token =
        std::get<core::StartRun>(std::get<core::DirectorItem>(word)).token;
    agent.Accept(token);
    agent.Finish(token);
  });
  return micros;
}

double PssMib(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/smaps_rollup"));
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("Pss:")) continue;
    const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    double kib = 0;
    CHECK(absl::SimpleAtod(words.at(1), &kib));
    return kib / 1024;
  }
  CHECK(false) << "no Pss of " << pid;
  return 0;
}

void Memory(Report& report) {
  Cluster cluster({.flags = {"--queue.max_size=0"}});
  const pid_t pid = cluster.director().process().pid();
  report.Check("memory idle, MiB PSS", PssMib(pid), 60, 35, Report::Better::kLess, "");
  Meter meter(kClock);
  {
    const auto stream = cluster.Stream(1024, 256, meter);
    while (cluster.Status().depth() < 100'000) std::this_thread::yield();
  }
  const double mib = PssMib(pid) * 100'000 / cluster.Status().depth();
  report.Check("memory at 100,000 pending, MiB PSS", mib, 160, 80, Report::Better::kLess,
               absl::StrFormat("(%d pending)", cluster.Status().depth()));
}

int Main() {
  Report report;
  RawGrpc raw(kClock);
  for (const int outstanding : {1, 16, 64, 256}) {
    const Compared unary = Compare([&] { return UnarySubmits(outstanding); },
                                   [&] { return raw.CallsPerSecond(outstanding); });
    const std::string name = absl::StrCat("unary submits, ", outstanding, " outstanding");
    const std::string detail =
        absl::StrFormat("x raw gRPC (%.0f/s of %.0f/s)", unary.ours, unary.raw);
    if (outstanding == 64) {
      report.Check(name, unary.ratio, 0.45, 0.65, Report::Better::kMore, detail);
    } else {
      report.Say(name, absl::StrFormat("%.2f %s", unary.ratio, detail));
    }
  }
  const Compared streamed =
      Compare([] { return StreamedSubmits(1024, 256); }, [&] { return raw.ItemsPerSecond(1024); });
  report.Check("streamed submits, window 1024", streamed.ratio, 0.6, 1.5, Report::Better::kMore,
               absl::StrFormat("x raw bidi (%.0f/s of %.0f/s)", streamed.ours, streamed.raw));
  double cpu = 0;
  const Compared ones = Compare(
      [&] {
        const Cycles cycles = UnaryCycles();
        cpu = cycles.cpu_micros;
        return cycles.per_second;
      },
      [&] { return raw.CallsPerSecond(64); });
  report.Check("cycles, 8 agents x 1 slot, 64 submitters", ones.ratio, 0.15, 0.2,
               Report::Better::kMore,
               absl::StrFormat("x raw gRPC (%.0f cycles/s of %.0f/s, %.0f us CPU each)", ones.ours,
                               ones.raw, cpu));
  const Compared many = Compare(
      [&] {
        const Cycles cycles = StreamedCycles();
        cpu = cycles.cpu_micros;
        return cycles.per_second;
      },
      [&] { return raw.ItemsPerSecond(1024); });
  report.Check("cycles, 8 agents x 16 slots, streamed", many.ratio, 0.25, 0.6,
               Report::Better::kMore,
               absl::StrFormat("x raw bidi (%.0f cycles/s of %.0f/s, %.0f us CPU each)", many.ours,
                               many.raw, cpu));
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
  report.Check("submit to start at 100/s, p50", Middle(ratios), 2.5, 1.3, Report::Better::kLess,
               detail);
  Memory(report);
  std::filesystem::remove_all(std::filesystem::absolute(absl::StrCat("cluster-", getpid())));
  return report.is_met() ? 0 : 1;
}

}  // namespace
}  // namespace callboard::benchmarks

int main() { return callboard::benchmarks::Main(); }
