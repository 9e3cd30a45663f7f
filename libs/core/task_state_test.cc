#include "libs/core/task_state.h"

#include <gtest/gtest.h>

#include "libs/core/trace.h"

namespace callboard::core {
namespace {

constexpr QueueId kId = QueueId(Ulid(0, 1));

absl::Time At(int second) { return absl::FromUnixSeconds(1'000 + second); }

// Applies changes to a task one by one. Each change takes one second.
class TaskFixture {
 public:
  TaskFixture() {
    TaskSpec spec;
    spec.bytes = std::make_shared<const std::string>("a spec");
    spec.terms.max_attempts = 3;
    TaskRecord admission = {.queue_id = kId, .number = 1};
    admission.event.number = 2;
    admission.change = TaskAdmitted{.spec = std::make_shared<const TaskSpec>(spec),
                                    .submitted_at = At(0),
                                    .sequence = 7,
                                    .redrive_of = {}};
    ApplyRecord(std::move(admission));
  }

  TaskFixture& Apply(TaskChange change) {
    TaskRecord record = {.queue_id = kId, .event = {}, .change = std::move(change)};
    record.number = state_.last_record + 1;
    record.event.number = state_.last_event_number + 1;
    return ApplyRecord(std::move(record));
  }
  TaskFixture& ApplyRecord(TaskRecord record) {
    ++second_;
    if (record.event.at == absl::Time()) record.event.at = At(second_);
    record.event.agent = agent_;
    core::Apply(record, pool_, state_);
    records_.resize(record.number - 1);
    records_.push_back(std::move(record));
    return *this;
  }
  TaskFixture& Dispatch(uint64_t number) {
    return Apply(TaskDispatched{.dispatch = DispatchNumber(number)});
  }
  TaskFixture& OnAgent(const std::string& agent) {
    agent_ = agent;
    return *this;
  }

  const TaskState& state() const { return state_; }
  Task task() const { return BuildTask(records_); }
  std::vector<TaskEvent> events() const { return BuildEvents(records_); }

  // Returns why `change` cannot be the next one.
  std::string TransitionErrorFor(TaskChange change) const {
    TaskRecord record = {.queue_id = kId, .event = {}, .change = std::move(change)};
    record.number = state_.last_record + 1;
    record.event.number = state_.last_event_number + 1;
    return TransitionError(record, state_);
  }

 private:
  PlacementTermsPool pool_;
  TaskState state_;
  std::vector<TaskRecord> records_;
  std::string agent_ = "a";
  int second_ = 0;
};

TEST(TaskStateTest, RunsFromSubmitToResult) {
  TaskFixture fixture;
  EXPECT_EQ(fixture.task().state, LifecycleState::kPending);
  EXPECT_EQ(fixture.state().sequence, 7u);
  fixture.Dispatch(1);
  EXPECT_EQ(fixture.task().state, LifecycleState::kDispatching);
  EXPECT_EQ(fixture.task().dispatched_at, At(2));
  fixture.Apply(StartAccepted());
  EXPECT_EQ(fixture.task().state, LifecycleState::kWorking);
  fixture.Apply(TaskEnded{.run = RunResult{.exit_code = 0, .result = "hello"}});
  EXPECT_EQ(fixture.task().state, LifecycleState::kCompleted);
  EXPECT_EQ(fixture.task().result, "hello");
  EXPECT_EQ(fixture.task().finished_at, At(4));
  EXPECT_EQ(fixture.task().attempts, 0u);
}

TEST(TaskStateTest, KeepsTheTimeOfTheLastTransition) {
  TaskFixture fixture;
  EXPECT_EQ(fixture.state().submitted_at, At(0));
  EXPECT_EQ(fixture.state().since(), At(1));
  fixture.Dispatch(1);
  EXPECT_EQ(fixture.state().since(), At(2));
  fixture.Apply(StartAnsweredBusy{.dispatched = {.dispatch = DispatchNumber(1)}, .sequence = 8});
  EXPECT_EQ(fixture.state().since(), At(3));
  fixture.Dispatch(2).Apply(StartAccepted());
  EXPECT_EQ(fixture.state().since(), At(5));
  fixture.Apply(CancelRequested());
  EXPECT_EQ(fixture.state().since(), At(5)) << "still the same run";
  TaskFixture returned;
  returned.Dispatch(1).Apply(StartAccepted()).Apply(TaskReturned{.sequence = 7});
  EXPECT_EQ(returned.state().since(), At(4));
}

TEST(TaskStateTest, CountsOnlyDispatchesThatAreAttempts) {
  TaskFixture fixture;
  fixture.Dispatch(1).Apply(TaskReturned{.sequence = 7, .counts_as_attempt = false});
  EXPECT_EQ(fixture.task().attempts, 0u);
  fixture.Dispatch(2).Apply(
      TaskReturned{.sequence = 7, .counts_as_attempt = true, .error = "unreachable"});
  EXPECT_EQ(fixture.task().attempts, 1u);
  EXPECT_EQ(fixture.task().last_error, "unreachable");
}

TEST(TaskStateTest, BackoffIsKeptAsATimeAndAsADuration) {
  TaskFixture fixture;
  fixture.Dispatch(1).Apply(
      TaskReturned{.sequence = 7, .counts_as_attempt = true, .backoff = absl::Seconds(20)});
  EXPECT_EQ(fixture.task().not_before, At(3) + absl::Seconds(20));
  EXPECT_EQ(fixture.state().history->backoff, absl::Seconds(20));
  fixture.Dispatch(2);
  EXPECT_EQ(fixture.task().not_before, std::nullopt);
}

TEST(TaskStateTest, KeepsFailedAgentsAndLostAgents) {
  TaskFixture fixture;
  fixture.OnAgent("a").Dispatch(1).Apply(TaskReturned{
      .sequence = 7, .counts_as_attempt = true, .failure = DispatchFailure::kAgentFailed});
  fixture.OnAgent("b")
      .Dispatch(2)
      .Apply(StartAccepted())
      .Apply(TaskReturned{
          .sequence = 7, .counts_as_attempt = true, .failure = DispatchFailure::kAgentLost});
  EXPECT_EQ(fixture.state().history->failed_on, (std::set<std::string>{"a", "b"}));
  EXPECT_EQ(fixture.state().history->agents_lost, (std::set<std::string>{"b"}));
}

TEST(TaskStateTest, RanOnTheAcceptingAgentUnlessItCouldNotStart) {
  const RunResult not_started = {.end = RunResult::End::kNotStarted};
  const TaskReturned could_not_start = {.sequence = 7,
                                        .counts_as_attempt = true,
                                        .failure = DispatchFailure::kAgentFailed,
                                        .reported = true};
  TaskFixture fixture;
  EXPECT_EQ(fixture.Dispatch(1).state().ran_on(), "");
  EXPECT_EQ(fixture.Apply(StartAccepted()).state().ran_on(), "a");
  EXPECT_EQ(fixture.Apply(could_not_start).state().ran_on(), "");
  fixture.OnAgent("b").Dispatch(2).Apply(StartAccepted()).Apply(TaskReturned{.sequence = 7});
  EXPECT_EQ(fixture.state().ran_on(), "b") << "its agent was lost under it";
  fixture.OnAgent("c").Dispatch(3).Apply(StartAccepted());
  EXPECT_EQ(fixture.state().ran_on(), "c");
  fixture.Apply(TaskEnded{.state = LifecycleState::kCancelled, .run = not_started});
  EXPECT_EQ(fixture.state().ran_on(), "b");

  TaskFixture cancelled;
  cancelled.Dispatch(1).Apply(TaskEnded{.state = LifecycleState::kCancelled,
                                        .run = RunResult{.end = RunResult::End::kCancelled}});
  EXPECT_EQ(cancelled.state().ran_on(), "") << "it was never accepted";
  TaskFixture lost;
  lost.Dispatch(1).Apply(StartAccepted()).Apply(TaskEnded{.state = LifecycleState::kCancelled});
  EXPECT_EQ(lost.state().ran_on(), "a");
  TaskFixture at_once;
  EXPECT_EQ(at_once.Dispatch(1).Apply(TaskEnded{.run = RunResult()}).state().ran_on(), "a");
}

TEST(TaskStateTest, BusyAnswerThatReplacesRecordsLeavesTheSameState) {
  const auto answered_busy = [](uint64_t number, absl::Time at) {
    return StartAnsweredBusy{.dispatched = {.dispatch = DispatchNumber(number)},
                             .dispatched_at = at,
                             .sequence = 9,
                             .busy_rejections = static_cast<uint32_t>(number)};
  };
  TaskFixture live;
  live.Dispatch(1).Apply(answered_busy(1, At(2))).Dispatch(2);
  TaskRecord second = {
      .queue_id = kId, .event = {}, .change = answered_busy(2, At(4)), .replaces = 2};
  second.number = 3;
  second.event.number = 6;
  second.event.at = At(5);
  live.ApplyRecord(second);
  EXPECT_EQ(live.state().last_record, 3u);

  TaskFixture recovered;
  recovered.Dispatch(1).ApplyRecord(second);
  EXPECT_EQ(recovered.state(), live.state());
  EXPECT_EQ(recovered.task().dispatch, DispatchNumber(2));
  EXPECT_EQ(recovered.task().busy_rejections, 2u);
}

TEST(TaskStateTest, LateDispatchBeginsANewTrace) {
  for (const bool is_late : {false, true}) {
    TaskFixture fixture;
    // The first dispatch is never late, however long the task has waited.
    TaskRecord first = {
        .queue_id = kId, .number = 2, .change = TaskDispatched{.dispatch = DispatchNumber(1)}};
    first.event = {.number = 3, .at = At(100'000)};
    fixture.ApplyRecord(first);
    EXPECT_TRUE(fixture.state().dispatch_trace().trace_id == fixture.state().trace.trace_id);
    TaskRecord back = {.queue_id = kId, .number = 3, .change = TaskReturned{}};
    back.event = {.number = 4, .at = At(200'000)};
    fixture.ApplyRecord(back);
    TaskRecord second = {
        .queue_id = kId, .number = 4, .change = TaskDispatched{.dispatch = DispatchNumber(2)}};
    second.event = {.number = 5, .at = At(200'000 + 5 * 60 + (is_late ? 1 : 0))};
    fixture.ApplyRecord(second);
    EXPECT_EQ(fixture.state().dispatch_trace().trace_id != fixture.state().trace.trace_id, is_late);
    EXPECT_TRUE(fixture.task().trace_id == fixture.state().trace.trace_id);
  }
}

TEST(TaskStateTest, BusyAnswerClearsBeginsTrace) {
  TaskFixture fixture;
  fixture.Dispatch(1).Apply(StartAnsweredBusy{.dispatched = {.dispatch = DispatchNumber(1)}});
  TaskRecord late = {
      .queue_id = kId, .number = 4, .change = TaskDispatched{.dispatch = DispatchNumber(2)}};
  late.event = {.number = 5, .at = At(1'000)};
  fixture.ApplyRecord(late);
  EXPECT_TRUE(fixture.state().history->begins_trace);
  fixture.Apply(StartAnsweredBusy{.dispatched = {.dispatch = DispatchNumber(2)}});
  EXPECT_FALSE(fixture.state().history->begins_trace);
}

TEST(TaskStateDeathTest, NothingLeavesATerminalState) {
  TaskFixture ended;
  ended.Apply(TaskEnded{.state = LifecycleState::kFailed, .reason = FailureReason::kEvicted});
  EXPECT_DEATH(ended.Dispatch(1), "check failed");
  EXPECT_DEATH(ended.Apply(TaskEnded()), "check failed");
  EXPECT_DEATH(ended.Apply(CancelRequested()), "check failed");
}

TEST(TaskStateDeathTest, DispatchNumbersAreNeverReused) {
  TaskFixture fixture;
  fixture.Dispatch(2).Apply(TaskReturned{.sequence = 7});
  EXPECT_DEATH(fixture.Dispatch(2), "check failed");
  EXPECT_DEATH(fixture.Dispatch(1), "check failed");
}

TEST(TaskStateDeathTest, TaskWithCancelRequestCanOnlyEndAsCancelled) {
  TaskFixture fixture;
  fixture.Dispatch(1).Apply(CancelRequested());
  EXPECT_DEATH(fixture.Apply(TaskReturned{.sequence = 7}), "check failed");
  EXPECT_DEATH(fixture.Apply(TaskEnded()), "check failed");
  fixture.Apply(TaskEnded{.state = LifecycleState::kCancelled});
  EXPECT_EQ(fixture.task().state, LifecycleState::kCancelled);
}

TEST(TaskStateDeathTest, TaskDoesNotReturnWithoutAttemptsLeft) {
  TaskFixture fixture;
  fixture.Dispatch(1).Apply(TaskReturned{.sequence = 7, .counts_as_attempt = true});
  fixture.Dispatch(2).Apply(TaskReturned{.sequence = 7, .counts_as_attempt = true});
  fixture.Dispatch(3);
  EXPECT_DEATH(fixture.Apply(TaskReturned{.sequence = 7, .counts_as_attempt = true}),
               "check failed");
}

TEST(TaskStateDeathTest, RecordsMustBeInOrder) {
  TaskFixture fixture;
  TaskRecord record = {.queue_id = kId, .event = {}, .change = EventOnly()};
  record.number = 3;
  EXPECT_DEATH(fixture.ApplyRecord(record), "record 3 cannot follow record 1");
}

TEST(TaskStateTest, TransitionErrorDescribesTheConflict) {
  TaskFixture pending;
  EXPECT_EQ(pending.TransitionErrorFor(TaskDispatched{.dispatch = DispatchNumber(1)}), "");
  EXPECT_EQ(pending.TransitionErrorFor(EventOnly()), "");
  EXPECT_EQ(pending.TransitionErrorFor(StartAccepted()), "was accepted without a dispatch");
  EXPECT_EQ(pending.TransitionErrorFor(TaskReturned()),
            "returned to the queue while it was not in flight");
  EXPECT_EQ(pending.TransitionErrorFor(TaskAdmitted()), "was admitted a second time");
  EXPECT_EQ(pending.TransitionErrorFor(TaskEnded{.state = LifecycleState::kWorking}),
            "ended in a state that is not final");
  EXPECT_EQ(pending.TransitionErrorFor(TaskEnded{.state = LifecycleState::kFailed}),
            "failed without a reason, or has a reason without having failed");
  TaskFixture ended;
  ended.Apply(TaskEnded{.state = LifecycleState::kCancelled});
  EXPECT_EQ(ended.TransitionErrorFor(TaskEnded()), "ended a second time");
  EXPECT_EQ(ended.TransitionErrorFor(EventOnly()), "");
}

TEST(TaskStateTest, FirstRecordMustBeAnAdmission) {
  TaskRecord record = {.queue_id = kId, .event = {}, .change = TaskDispatched()};
  record.number = 1;
  EXPECT_EQ(TransitionError(record, TaskState()),
            "is the first record of its task, but not an admission");
  record.change = TaskAdmitted();
  EXPECT_EQ(TransitionError(record, TaskState()), "has no task spec");
}

TEST(TaskStateTest, AdmissionBuildsTwoEvents) {
  TaskFixture fixture;
  fixture.Dispatch(1);
  const std::vector<TaskEvent> events = fixture.events();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].kind, TaskEventKind::kSubmitted);
  EXPECT_EQ(events[0].at, At(0));
  EXPECT_EQ(events[1].at, At(1));
  EXPECT_EQ(events[0].number, 1u);
  EXPECT_EQ(events[1].number, 2u);
  EXPECT_EQ(events[2].number, 3u);
}

}  // namespace
}  // namespace callboard::core
