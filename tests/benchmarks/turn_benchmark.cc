// What a turn of the driver costs beside the bare hand-over of a value to another thread and back,
// and what it costs to be watched.
#include <benchmark/benchmark.h>

#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "libs/adapters/system_clock/system_clock.h"
#include "libs/adapters/system_random/system_random.h"
#include "libs/base/log.h"
#include "libs/base/mutex.h"
#include "libs/core/record.h"
#include "libs/director/driver.h"
#include "libs/server/readiness.h"
#include "libs/testing/driver_flow.h"
#include "libs/testing/fake_agent_link.h"
#include "libs/testing/memory_event_store.h"
#include "services/director/director_watch.h"

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
  adapters::SystemClock clock;
  adapters::SystemRandom random;
  test::MemoryEventStores stores;
  test::FakeAgentLink agents;
  test::DriverFlow flow(clock);
  const auto driver =
      *director::DirectorDriver::Open({}, {clock, random, stores, agents}, flow.flow());
  Slot answered;
  for (auto _ : state) {
    driver->GetQueueStatus([&answered](const auto& status) { answered.Put(status.ok()); });
    benchmark::DoNotOptimize(answered.Take());
  }
}
BENCHMARK(BM_DriverTurn)->UseRealTime();

// What it takes to count a task's whole life, and not to log it: far more tasks than the log takes.
void BM_WatchTask(benchmark::State& state) {
  base::StartLogging({.lines_per_second = 1});
  prometheus::Registry metrics;
  server::Readiness readiness;
  DirectorWatch watch({metrics}, readiness);
  const std::vector<core::Record> records = {
      core::TaskRecord{.change = core::Admitted{.spec = std::make_shared<core::TaskSpec>()}},
      core::TaskRecord{.change = core::Dispatched{.dispatch = core::DispatchNumber(1)}},
      core::TaskRecord{.change = core::Accepted()}, core::TaskRecord{.change = core::Ended()}};
  const std::vector<director::TaskStep> steps = {
      {.record = 0},
      {.record = 1},
      {.record = 2, .from = core::TaskState::kDispatching},
      {.record = 3, .from = core::TaskState::kWorking}};
  for (auto _ : state) watch.OnTurn(records, steps);
  base::StartLogging({});
}
BENCHMARK(BM_WatchTask);

}  // namespace
}  // namespace callboard
