// Cost of the engine's decisions, which must not depend on the number of pending tasks. Nothing is
// written: the cost of the store is extra (store_benchmark.cc).
#include <benchmark/benchmark.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "libs/base/check.h"
#include "libs/director/engine.h"
#include "libs/testing/fake_environment.h"
#include "libs/testing/submissions.h"

namespace callboard {
namespace {

using director::DirectorEngine;
using director::Moment;

// An engine with `pending` tasks and an agent that runs one at a time. Time stands still.
class LoadedEngine {
 public:
  explicit LoadedEngine(int64_t pending)
      : engine_({.queue = {.max_size = 0}, .retention = {.count = 100}}, random_) {
    engine_.Begin(now_);
    core::SessionOpened opened = {.name = "a", .instance_id = "a/1", .url = "grpc://a"};
    opened.lanes = {{"default", {.slots = 1, .used = 0}}};
    engine_.Pause("benchmark", "", now_);
    for (int64_t i = 0; i < pending; ++i) Submit();
    CHECK_OK(engine_.OnSessionOpened(core::AgentSessionId(1), opened, now_));
    engine_.TakeOutcome();
  }

  core::QueueId Submit() {
    core::Submission submission = test::SubmissionOf("echo hello");
    submission.spec.request_id = absl::StrCat("request-", ++requests_);
    auto decision =
        engine_.Submit(director::MakeSubmitRequest("me", std::move(submission), now_.wall), now_);
    return std::get<director::SubmitResult>(decision).queue_id;
  }
  // Dispatches, accepts and completes the first task.
  void RunOne() {
    engine_.Resume(now_);
    core::FenceToken token;
    for (const director::Outcome::Message& message : engine_.TakeOutcome().messages) {
      if (const auto* start = std::get_if<core::StartRun>(&message.message)) token = start->token;
    }
    engine_.OnMessages(core::AgentSessionId(1), {core::StartAnswer{token, absl::OkStatus()}}, now_);
    engine_.Pause("benchmark", "", now_);
    engine_.OnMessages(core::AgentSessionId(1), {core::RunEnded{token, {}}}, now_);
    benchmark::DoNotOptimize(engine_.TakeOutcome());
  }
  void Cancel(core::QueueId id) {
    CHECK_OK(engine_.Cancel(id, "me", "", now_).status());
    benchmark::DoNotOptimize(engine_.TakeOutcome());
  }
  DirectorEngine& engine() { return engine_; }
  Moment now() const { return now_; }
  test::FakeRandom& random() { return random_; }

 private:
  test::FakeRandom random_;
  Moment now_ = {absl::FromUnixSeconds(1'700'000'000), absl::Hours(1)};
  DirectorEngine engine_;
  uint64_t requests_ = 0;
};

void Pending(benchmark::internal::Benchmark* benchmark) {
  benchmark->Arg(50)->Arg(10'000)->Arg(1'000'000);
}

// Submits and cancels, so that the number of pending tasks is constant.
void BM_SubmitAndCancel(benchmark::State& state) {
  LoadedEngine loaded(state.range(0));
  for (auto _ : state) loaded.Cancel(loaded.Submit());
  state.SetItemsProcessed(state.iterations() * 2);
}
BENCHMARK(BM_SubmitAndCancel)->Apply(Pending);

// The complete life of a task: one is submitted at the back, while the first one is dispatched,
// accepted and completed.
void BM_FullCycle(benchmark::State& state) {
  LoadedEngine loaded(state.range(0));
  for (auto _ : state) {
    loaded.Submit();
    loaded.RunOne();
  }
  state.SetItemsProcessed(state.iterations() * 5);
}
BENCHMARK(BM_FullCycle)->Apply(Pending);

// Cancels a task anywhere in the queue, and submits another.
void BM_CancelAnywhere(benchmark::State& state) {
  LoadedEngine loaded(state.range(0));
  std::vector<core::QueueId> tasks;
  for (const auto& [sequence, entry] : loaded.engine().tasks().live_tasks()) {
    tasks.push_back(entry->task.queue_id);
  }
  for (auto _ : state) {
    core::QueueId& task = tasks[loaded.random().Below(tasks.size())];
    loaded.Cancel(task);
    task = loaded.Submit();
  }
  state.SetItemsProcessed(state.iterations() * 2);
}
BENCHMARK(BM_CancelAnywhere)->Apply(Pending);

// Reads the position of a task anywhere in the queue.
void BM_GetTask(benchmark::State& state) {
  LoadedEngine loaded(state.range(0));
  std::vector<core::QueueId> some;
  const auto& live = loaded.engine().tasks().live_tasks();
  const size_t step = std::max<size_t>(1, live.size() / 50);
  size_t i = 0;
  for (const auto& [sequence, entry] : live) {
    if (i++ % step == 0) some.push_back(entry->task.queue_id);
  }
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        loaded.engine().views().Summarize(some[loaded.random().Below(some.size())]));
  }
}
BENCHMARK(BM_GetTask)->Apply(Pending);

void BM_Status(benchmark::State& state) {
  LoadedEngine loaded(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(loaded.engine().views().Status(loaded.now()));
}
BENCHMARK(BM_Status)->Apply(Pending);

}  // namespace
}  // namespace callboard
