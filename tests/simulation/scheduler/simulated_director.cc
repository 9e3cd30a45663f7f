#include "tests/simulation/scheduler/simulated_director.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "libs/base/error.h"
#include "libs/testing/scheduler_fixture.h"

namespace callboard::simulation::cron {
namespace {

using scheduler::AcceptedTask;
using scheduler::kCallTimeout;

constexpr char kAgent[] = "agent";
// The identity of the schedulers.
constexpr char kSchedulers[] = "scheduler";

director::EngineOptions DirectorOptions(const Settings& settings) {
  director::EngineOptions options;
  options.queue.max_size = settings.max_size;
  // The agent sends no heartbeats.
  options.lease.heartbeat = absl::Hours(100'000);
  options.lease.redispatch_after = 2 * options.lease.heartbeat;
  return options;
}

absl::Status Unreachable() {
  return base::WithReason(absl::UnavailableError("connection refused"),
                          scheduler::kDirectorUnreachable);
}

}  // namespace

SimulatedDirector::SimulatedDirector(const Settings& settings, Timeline& timeline,
                                     test::FakeRandom& random)
    : settings_(settings),
      timeline_(timeline),
      random_(random),
      engine_(DirectorOptions(settings)),
      synced_at_(timeline.now()) {
  core::SessionOpened agent = test::EngineFixture::IdleAgent(kAgent);
  agent.lanes["default"].slots = settings.slots;
  engine_.Connect(agent);
}

void SimulatedDirector::Sync() {
  const absl::Duration passed = timeline_.now() - std::exchange(synced_at_, timeline_.now());
  if (passed > absl::ZeroDuration()) engine_.Advance(passed);
  RunTasks();
}

void SimulatedDirector::RunTasks() {
  for (auto starts = engine_.TakeSent<core::StartRun>(); !starts.empty();
       starts = engine_.TakeSent<core::StartRun>()) {
    for (const core::StartRun& start : starts) {
      engine_.AcceptStart(start.token.queue_id);
      const absl::Duration time =
          quiet_ ? absl::Milliseconds(100) : absl::Milliseconds(100 + random_.Below(20'000));
      timeline_.After(time, [this, token = start.token] { EndRun(token); });
    }
  }
}

void SimulatedDirector::EndRun(core::FenceToken token) {
  Sync();
  const director::Entry* entry = engine_.engine().tasks().Find(token.queue_id);
  if (entry == nullptr || entry->task.state != core::LifecycleState::kWorking) return;
  const bool fails = Chance(settings_.run_fails);
  engine_.FinishRun(token.queue_id, {.end = fails ? core::RunResult::End::kFailed
                                                  : core::RunResult::End::kCompleted});
  RunTasks();
}

absl::StatusOr<AcceptedTask> SimulatedDirector::Accept(int replica,
                                                       const core::JobSubmission& submission) {
  Sync();
  const std::string& id = submission.request_id;
  const director::Decision decision = engine_.Submit(test::ReadSubmit(submission), kSchedulers);
  if (const auto* error = std::get_if<absl::Status>(&decision)) return *error;
  const auto& submitted = std::get<director::SubmitResult>(decision);
  const std::string queue_id = ToString(submitted.queue_id);
  if (!submitted.deduplicated) {
    if (!submitted_.tasks.emplace(id, SubmittedTasks::Made{queue_id, replica}).second) {
      failure_ = absl::StrCat(id, " has a second task");
    }
    if (submission.overlap.key != submission.job) {
      failure_ = absl::StrCat(id, " has no overlap key of its job");
    }
  }
  RunTasks();
  return AcceptedTask{queue_id, submitted.deduplicated};
}

absl::StatusOr<AcceptedTask> SimulatedDirector::Find(const std::string& request_id) {
  Sync();
  const auto found =
      engine_.engine().views().FindByRequestId(kSchedulers, request_id, engine_.now());
  if (!found.ok()) return found.status();
  return AcceptedTask{ToString(found->queue_id), /*deduplicated=*/true};
}

void SimulatedDirector::Submit(int replica, const core::JobSubmission& submission,
                               const Reply& reply) {
  Carry([this, replica, submission] { return Accept(replica, submission); }, reply);
}

void SimulatedDirector::FindTask(const std::string& request_id, const Reply& reply) {
  Carry([this, request_id] { return Find(request_id); }, reply);
}

void SimulatedDirector::Carry(std::function<absl::StatusOr<AcceptedTask>()> call,
                              const Reply& reply) {
  const auto answer_after = [&](absl::Duration delay, const absl::Status& status) {
    timeline_.After(delay, [reply, status] { reply(status); });
  };
  if (!is_up_ && !is_silent_) return answer_after(absl::Milliseconds(1), Unreachable());
  const absl::Duration delay = Chance(settings_.call_is_slow)
                                   ? absl::Milliseconds(random_.Below(9'900))
                                   : absl::Milliseconds(1 + random_.Below(20));
  if (!is_up_ || Chance(settings_.call_lost)) {
    return answer_after(kCallTimeout, absl::DeadlineExceededError("no answer"));
  }
  const bool breaks = Chance(settings_.connection_breaks);
  const bool loses_answer = Chance(settings_.answer_lost);
  if (breaks) {
    answer_after(delay * 0.5, absl::UnavailableError("connection reset"));
  } else if (loses_answer) {
    answer_after(kCallTimeout, absl::DeadlineExceededError("no answer"));
  }
  const bool is_answered = !breaks && !loses_answer;
  timeline_.After(delay, [this, call = std::move(call), reply, is_answered] {
    if (!is_up_) {
      if (is_answered) reply(absl::UnavailableError("connection reset"));
      return;
    }
    const absl::StatusOr<AcceptedTask> answer = call();
    if (is_answered) timeline_.After(absl::Milliseconds(1), [reply, answer] { reply(answer); });
  });
}

void SimulatedDirector::GetTaskStatuses(
    const std::vector<std::string>& ids,
    const scheduler::DirectorLink::Reply<std::vector<scheduler::TaskStatus>>& reply) {
  if (!is_up_) {
    const absl::Status error =
        is_silent_ ? absl::DeadlineExceededError("no answer") : Unreachable();
    timeline_.After(is_silent_ ? kCallTimeout : absl::Milliseconds(1),
                    [reply, error] { reply(error); });
    return;
  }
  Sync();
  std::vector<scheduler::TaskStatus> ends;
  for (const std::string& text : ids) {
    const core::QueueId id = *core::ParseQueueId(text);
    if (!engine_.engine().views().Summarize(id).ok()) continue;
    const core::Task task = engine_.Task(id);
    ends.push_back({text, task.state, task.reason});
  }
  timeline_.After(absl::Milliseconds(2), [reply, ends] { reply(ends); });
}

void SimulatedDirector::StartDirect(int replica, const std::string& request_id,
                                    const Reply& reply) {
  const uint64_t choice = random_.Below(10);
  if (choice < 7) submitted_.direct.insert({replica, request_id});
  if (choice < 5) {
    timeline_.After(absl::Milliseconds(5), [reply] { reply(AcceptedTask{"task-1"}); });
  } else if (choice < 7) {
    timeline_.After(kCallTimeout, [reply] { reply(absl::DeadlineExceededError("no answer")); });
  } else {
    timeline_.After(absl::Milliseconds(5), [reply] { reply(absl::AbortedError("busy")); });
  }
}

void SimulatedDirector::SubmitOther() {
  Sync();
  engine_.Submit(test::EngineFixture::Prompt());
  RunTasks();
}

void SimulatedDirector::GoAway(absl::Duration time) {
  is_up_ = false;
  is_silent_ = random_.Chance(0.5);
  timeline_.After(time, [this] { ComeBack(); });
}

void SimulatedDirector::ComeBack() {
  if (!std::exchange(is_up_, true)) serves_since_ = timeline_.now();
}

void SimulatedDirector::Drain(absl::Duration time) {
  Sync();
  engine_.Call(&director::DirectorEngine::Drain);
  timeline_.After(time, [this] {
    Sync();
    engine_.Call(&director::DirectorEngine::Resume);
    RunTasks();
  });
}

void SimulatedDirector::Heal() {
  quiet_ = true;
  ComeBack();
  Sync();
  engine_.Call(&director::DirectorEngine::Resume);
  RunTasks();
}

}  // namespace callboard::simulation::cron
