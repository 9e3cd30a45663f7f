// RunWithQueue() compared with a bare thread pool, with the same items and threads in one process.
//
// Compare `items_per_second`; `grown_MiB` is the growth of the process during the run.
#include <benchmark/benchmark.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <fstream>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "libs/base/mutex.h"
#include "libs/flow/run_with_queue.h"
#include "libs/flow/thread_pool.h"
#include "libs/system/system.h"

namespace callboard {
namespace {

constexpr uint32_t kThreads = 2;
constexpr uint32_t kPendingMax = 64;

// A simple pool: a queue of functions, and threads that run them.
class BarePool {
 public:
  explicit BarePool(size_t pending_max) : pending_max_(pending_max) {
    for (uint32_t i = 0; i < kThreads; ++i) threads_.emplace_back([this] { RunAll(); });
  }
  ~BarePool() {
    {
      base::MutexLock lock(mutex_);
      stopping_ = true;
      not_empty_.NotifyAll();
    }
    for (std::thread& thread : threads_) thread.join();
  }
  BarePool(const BarePool&) = delete;
  BarePool& operator=(const BarePool&) = delete;

  void Run(std::function<void()> job) {
    base::MutexLock lock(mutex_);
    while (jobs_.size() >= pending_max_) not_full_.Wait(mutex_);
    jobs_.push_back(std::move(job));
    not_empty_.NotifyOne();
  }

 private:
  void RunAll() {
    while (true) {
      std::function<void()> job;
      {
        base::MutexLock lock(mutex_);
        while (jobs_.empty() && !stopping_) not_empty_.Wait(mutex_);
        if (jobs_.empty()) return;
        job = std::move(jobs_.front());
        jobs_.pop_front();
        not_full_.NotifyOne();
      }
      job();
    }
  }

  const size_t pending_max_;
  base::Mutex mutex_;
  base::CondVar not_empty_;
  base::CondVar not_full_;
  std::deque<std::function<void()>> jobs_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

// The work for each item; a thousand steps take a microsecond or two.
uint64_t Work(uint64_t item, int64_t steps) {
  for (int64_t i = 0; i < steps; ++i) item = item * 6364136223846793005u + 1442695040888963407u;
  return item;
}

double ResidentMiB() {
  std::ifstream file("/proc/self/statm");
  uint64_t total = 0;
  uint64_t resident = 0;
  file >> total >> resident;
  return static_cast<double>(resident) * 4096 / (1 << 20);
}

void Report(benchmark::State& state, double before, const std::atomic<uint64_t>& sum) {
  benchmark::DoNotOptimize(sum.load());
  state.SetItemsProcessed(state.iterations() * state.range(0));
  state.counters["grown_MiB"] = ResidentMiB() - before;
}

void RunBare(benchmark::State& state, size_t pending_max) {
  const double before = ResidentMiB();
  std::atomic<uint64_t> sum = 0;
  for ([[maybe_unused]] const auto iteration : state) {
    BarePool pool(pending_max);
    for (int64_t i = 0; i < state.range(0); ++i) {
      pool.Run([&state, &sum, i] { sum.fetch_add(Work(i, state.range(1))); });
    }
  }
  Report(state, before, sum);
}

void BM_BareThreadPool(benchmark::State& state) { RunBare(state, SIZE_MAX); }
void BM_BareThreadPoolOf64Pending(benchmark::State& state) { RunBare(state, kPendingMax); }

void BM_RunWithQueue(benchmark::State& state) {
  std::vector<uint64_t> items(state.range(0));
  std::iota(items.begin(), items.end(), 0);
  const double before = ResidentMiB();
  std::atomic<uint64_t> sum = 0;
  const system::SystemClock clock;
  for ([[maybe_unused]] const auto iteration : state) {
    flow::ThreadPool pool(kThreads);
    flow::Flow flow({.lanes = {{.name = "work", .limit = {kThreads, kPendingMax}}}}, pool, clock);
    const auto worker = [&](uint64_t item, const flow::ItemContext&) -> absl::Status {
      sum.fetch_add(Work(item, state.range(1)));
      return absl::OkStatus();
    };
    const flow::RunResults<void> run = flow::RunWithQueue(flow.lane("work"), items, worker);
    if (run.succeeded != static_cast<size_t>(state.range(0))) state.SkipWithError("items are lost");
  }
  Report(state, before, sum);
}

void Sizes(benchmark::internal::Benchmark* benchmark) {
  for (const int64_t items : {10'000, 1'000'000}) {
    for (const int64_t steps : {0, 1000}) benchmark->Args({items, steps});
  }
  benchmark->ArgNames({"items", "steps"})->UseRealTime()->Unit(benchmark::kMillisecond);
}

// The unbounded bare pool comes last: it does not return its memory.
BENCHMARK(BM_RunWithQueue)->Apply(Sizes);
BENCHMARK(BM_BareThreadPoolOf64Pending)->Apply(Sizes);
BENCHMARK(BM_BareThreadPool)->Apply(Sizes);

}  // namespace
}  // namespace callboard

BENCHMARK_MAIN();
