// Cost of a turn of the driver, compared with handing a value to another thread and back, and cost
// of its metrics.
#include <benchmark/benchmark.h>

#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "libs/base/log.h"
#include "libs/base/mutex.h"
#include "libs/core/record.h"
#include "libs/director/driver.h"
#include "libs/server/server.h"
#include "libs/system/system.h"
#include "libs/testing/engine_fixture.h"
#include "libs/testing/memory_event_store.h"
#include "libs/testing/submissions.h"
#include "services/director/director_metrics.h"

namespace callboard {
namespace {

// A value that one thread puts and another takes.
class Slot {
 public:
  void Put(int value) {
    base::MutexLock lock(mutex_);
    value_ = value;
    changed_.NotifyOne();
  }
  int Take() {
    base::MutexLock lock(mutex_);
    while (!value_.has_value()) changed_.Wait(mutex_);
    return *std::exchange(value_, std::nullopt);
  }

 private:
  base::Mutex mutex_;
  base::CondVar changed_;
  std::optional<int> value_ ABSL_GUARDED_BY(mutex_);
};

void BM_BareHandOver(benchmark::State& state) {
  Slot there;
  Slot back;
  std::thread echo([&] {
    while (const int value = there.Take()) back.Put(value);
  });
  for (auto _ : state) {
    there.Put(1);
    benchmark::DoNotOptimize(back.Take());
  }
  there.Put(0);
  echo.join();
}
BENCHMARK(BM_BareHandOver)->UseRealTime();

void BM_DriverTurn(benchmark::State& state) {
  system::SystemClock clock;
  system::SystemRandom random;
  test::MemoryEventStores stores;
  test::FakeAgentLink agents;
  test::DriverFlow flow(clock);
  const auto driver =
      *director::DirectorDriver::Open({}, {clock, random, stores, agents}, flow.flow());
  Slot answered;
  for (auto _ : state) {
    driver->Post(director::MakeCommand(
        {.access = director::Command::Access::kRead},
        [](director::DirectorEngine& engine, director::Moment now) {
          return engine.views().Status(now);
        },
        [&answered](const auto& status) { answered.Put(status.ok()); }));
    benchmark::DoNotOptimize(answered.Take());
  }
}
BENCHMARK(BM_DriverTurn)->UseRealTime();

// Cost of the metrics of a task's complete life without logging: far more tasks than the log
// accepts.
void BM_WatchTask(benchmark::State& state) {
  base::StartLogging({.lines_per_second = 1});
  prometheus::Registry metrics;
  server::Readiness readiness;
  DirectorMetrics director_metrics({metrics}, readiness);
  const std::vector<core::Record> records = {
      core::TaskRecord{.change =
                           core::TaskAdmitted{.spec = test::ToSpec(test::MakeSubmit("echo"))}},
      core::TaskRecord{.change = core::TaskDispatched{.dispatch = core::DispatchNumber(1)}},
      core::TaskRecord{.change = core::StartAccepted()},
      core::TaskRecord{.change = core::TaskEnded()}};
  const std::vector<director::TaskStep> steps = {
      {.record = 0},
      {.record = 1},
      {.record = 2, .from = core::LifecycleState::kDispatching},
      {.record = 3, .from = core::LifecycleState::kWorking}};
  for (auto _ : state) director_metrics.OnTurn(records, steps);
  base::StartLogging({});
}
BENCHMARK(BM_WatchTask);

}  // namespace
}  // namespace callboard
