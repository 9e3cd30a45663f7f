#include "libs/core/life.h"

#include <gtest/gtest.h>

#include "libs/core/task_spans.h"

namespace callboard::core {
namespace {

constexpr QueueId kId = QueueId(Ulid(0, 1));

absl::Time At(int second) { return absl::FromUnixSeconds(1'000 + second); }

// A task's life, told change by change; one second passes with each.
class Story {
 public:
  Story() {
    TaskSpec spec;
    spec.prompt = "echo hello";
    spec.max_attempts = 3;
    TaskRecord admission = {.queue_id = kId, .number = 1};
    admission.event.number = 2;
    admission.change = Admitted{.spec = std::make_shared<const TaskSpec>(spec),
                                .submitted_at = At(0),
                                .sequence = 7,
                                .redrive_of = {}};
    ThenRecord(std::move(admission));
  }

  Story& Then(TaskChange change) {
    TaskRecord record = {.queue_id = kId, .event = {}, .change = std::move(change)};
    record.number = life_.events + 1;
    record.event.number = life_.event_number + 1;
    return ThenRecord(std::move(record));
  }
  Story& ThenRecord(TaskRecord record) {
    ++second_;
    if (record.event.at == absl::Time()) record.event.at = At(second_);
    record.event.agent = agent_;
    Apply(record, terms_, life_);
    records_.resize(record.number - 1);
    records_.push_back(std::move(record));
    return *this;
  }
  Story& Dispatch(uint64_t number) { return Then(Dispatched{.dispatch = DispatchNumber(number)}); }
  Story& OnAgent(const std::string& agent) {
    agent_ = agent;
    return *this;
  }

  const Life& life() const { return life_; }
  Task task() const { return TaskFrom(records_); }
  std::vector<TaskEvent> events() const { return EventsFrom(records_); }

  // What forbids that this comes next.
  std::string Forbids(TaskChange change) const {
    TaskRecord record = {.queue_id = kId, .event = {}, .change = std::move(change)};
    record.number = life_.events + 1;
    record.event.number = life_.event_number + 1;
    return WhyImpossible(record, life_);
  }

 private:
  TermsPool terms_;
  Life life_;
  std::vector<TaskRecord> records_;
  std::string agent_ = "a";
  int second_ = 0;
};

TEST(LifeTest, RunsFromSubmitToResult) {
  Story story;
  EXPECT_EQ(story.task().state, TaskState::kPending);
  EXPECT_EQ(story.life().sequence, 7u);
  story.Dispatch(1);
  EXPECT_EQ(story.task().state, TaskState::kDispatching);
  EXPECT_EQ(story.task().dispatched_at, At(2));
  story.Then(Accepted());
  EXPECT_EQ(story.task().state, TaskState::kWorking);
  story.Then(Ended{.run = RunResult{.exit_code = 0, .result = "hello"}});
  EXPECT_EQ(story.task().state, TaskState::kCompleted);
  EXPECT_EQ(story.task().result, "hello");
  EXPECT_EQ(story.task().finished_at, At(4));
  EXPECT_EQ(story.task().attempts, 0u);
}

TEST(LifeTest, RemembersSinceWhenItIsInItsState) {
  Story story;
  EXPECT_EQ(story.life().submitted_at, At(0));
  EXPECT_EQ(story.life().since(), At(1));
  story.Dispatch(1);
  EXPECT_EQ(story.life().since(), At(2));
  story.Then(Bounced{.dispatched = {.dispatch = DispatchNumber(1)}, .sequence = 8});
  EXPECT_EQ(story.life().since(), At(3));
  story.Dispatch(2).Then(Accepted());
  EXPECT_EQ(story.life().since(), At(5));
  story.Then(CancelRequested());
  EXPECT_EQ(story.life().since(), At(5)) << "still the same run";
  Story returned;
  returned.Dispatch(1).Then(Accepted()).Then(Returned{.sequence = 7});
  EXPECT_EQ(returned.life().since(), At(4));
}

TEST(LifeTest, CountsOnlyTheAttemptsThatCount) {
  Story story;
  story.Dispatch(1).Then(Returned{.sequence = 7, .counts = false});
  EXPECT_EQ(story.task().attempts, 0u);
  story.Dispatch(2).Then(Returned{.sequence = 7, .counts = true, .error = "unreachable"});
  EXPECT_EQ(story.task().attempts, 1u);
  EXPECT_EQ(story.task().last_error, "unreachable");
}

TEST(LifeTest, BackoffIsAnInstantForPeopleAndALengthForRestarts) {
  Story story;
  story.Dispatch(1).Then(Returned{.sequence = 7, .counts = true, .backoff = absl::Seconds(20)});
  EXPECT_EQ(story.task().not_before, At(3) + absl::Seconds(20));
  EXPECT_EQ(story.life().tries->backoff, absl::Seconds(20));
  story.Dispatch(2);
  EXPECT_EQ(story.task().not_before, std::nullopt);
}

TEST(LifeTest, RemembersWhichAgentsFailedItAndWhichItTookDown) {
  Story story;
  story.OnAgent("a").Dispatch(1).Then(
      Returned{.sequence = 7, .counts = true, .blame = Blame::kAgentFailedIt});
  story.OnAgent("b")
      .Dispatch(2)
      .Then(Accepted())
      .Then(Returned{.sequence = 7, .counts = true, .blame = Blame::kTookAgentDown});
  EXPECT_EQ(story.life().tries->failed_on, (std::set<std::string>{"a", "b"}));
  EXPECT_EQ(story.life().tries->took_down, (std::set<std::string>{"b"}));
}

TEST(LifeTest, RanWhereItWasAcceptedUnlessNothingOfItCouldBegin) {
  const RunResult not_started = {.end = RunResult::End::kNotStarted};
  const Returned could_not_begin = {
      .sequence = 7, .counts = true, .blame = Blame::kAgentFailedIt, .reported = true};
  Story story;
  EXPECT_EQ(story.Dispatch(1).life().ran_on(), "");
  EXPECT_EQ(story.Then(Accepted()).life().ran_on(), "a");
  EXPECT_EQ(story.Then(could_not_begin).life().ran_on(), "");
  story.OnAgent("b").Dispatch(2).Then(Accepted()).Then(Returned{.sequence = 7});
  EXPECT_EQ(story.life().ran_on(), "b") << "its agent was lost under it";
  story.OnAgent("c").Dispatch(3).Then(Accepted());
  EXPECT_EQ(story.life().ran_on(), "c");
  story.Then(Ended{.state = TaskState::kCancelled, .run = not_started});
  EXPECT_EQ(story.life().ran_on(), "b");

  Story cancelled;
  cancelled.Dispatch(1).Then(
      Ended{.state = TaskState::kCancelled, .run = RunResult{.end = RunResult::End::kCancelled}});
  EXPECT_EQ(cancelled.life().ran_on(), "") << "it was never accepted";
  Story lost;
  lost.Dispatch(1).Then(Accepted()).Then(Ended{.state = TaskState::kCancelled});
  EXPECT_EQ(lost.life().ran_on(), "a");
  Story at_once;
  EXPECT_EQ(at_once.Dispatch(1).Then(Ended{.run = RunResult()}).life().ran_on(), "a");
}

TEST(LifeTest, BounceThatReplacesRecordsLeavesWhatTheyWouldHave) {
  const auto bounced = [](uint64_t number, absl::Time at) {
    return Bounced{.dispatched = {.dispatch = DispatchNumber(number)},
                   .dispatched_at = at,
                   .sequence = 9,
                   .busy_rejections = static_cast<uint32_t>(number)};
  };
  Story live;
  live.Dispatch(1).Then(bounced(1, At(2))).Dispatch(2);
  TaskRecord second = {.queue_id = kId, .event = {}, .change = bounced(2, At(4)), .replaces = 2};
  second.number = 3;
  second.event.number = 6;
  second.event.at = At(5);
  live.ThenRecord(second);
  EXPECT_EQ(live.life().events, 3u);

  Story recovered;
  recovered.Dispatch(1).ThenRecord(second);
  EXPECT_EQ(recovered.life(), live.life());
  EXPECT_EQ(recovered.task().dispatch, DispatchNumber(2));
  EXPECT_EQ(recovered.task().busy_rejections, 2u);
}

TEST(LifeTest, DispatchBelongsToTheTraceOfTheSubmitUnlessItComesLongAfterTheOneBefore) {
  for (const bool is_late : {false, true}) {
    Story story;
    // However long the first one waits.
    TaskRecord first = {
        .queue_id = kId, .number = 2, .change = Dispatched{.dispatch = DispatchNumber(1)}};
    first.event = {.number = 3, .at = At(100'000)};
    story.ThenRecord(first);
    EXPECT_TRUE(story.life().dispatch_trace().trace_id == story.life().trace.trace_id);
    TaskRecord back = {.queue_id = kId, .number = 3, .change = Returned{}};
    back.event = {.number = 4, .at = At(200'000)};
    story.ThenRecord(back);
    TaskRecord second = {
        .queue_id = kId, .number = 4, .change = Dispatched{.dispatch = DispatchNumber(2)}};
    second.event = {.number = 5, .at = At(200'000 + 5 * 60 + (is_late ? 1 : 0))};
    story.ThenRecord(second);
    EXPECT_EQ(story.life().dispatch_trace().trace_id != story.life().trace.trace_id, is_late);
    EXPECT_TRUE(story.task().trace_id == story.life().trace.trace_id);
  }
}

TEST(LifeTest, BounceForgetsWhoseTraceItsDispatchWas) {
  Story story;
  story.Dispatch(1).Then(Bounced{.dispatched = {.dispatch = DispatchNumber(1)}});
  TaskRecord late = {
      .queue_id = kId, .number = 4, .change = Dispatched{.dispatch = DispatchNumber(2)}};
  late.event = {.number = 5, .at = At(1'000)};
  story.ThenRecord(late);
  EXPECT_TRUE(story.life().tries->begins_trace);
  story.Then(Bounced{.dispatched = {.dispatch = DispatchNumber(2)}});
  EXPECT_FALSE(story.life().tries->begins_trace);
}

TEST(LifeTest, TaskFromBeforeThereWereTracesHasOneAllTheSame) {
  EXPECT_TRUE(Story().life().trace == SubmitSpanOf(kId));
}

TEST(LifeDeathTest, NothingLeavesATerminalState) {
  Story ended;
  ended.Then(Ended{.state = TaskState::kFailed, .reason = FailureReason::kEvicted});
  EXPECT_DEATH(ended.Dispatch(1), "check failed");
  EXPECT_DEATH(ended.Then(Ended()), "check failed");
  EXPECT_DEATH(ended.Then(CancelRequested()), "check failed");
}

TEST(LifeDeathTest, DispatchNumbersAreNeverReused) {
  Story story;
  story.Dispatch(2).Then(Returned{.sequence = 7});
  EXPECT_DEATH(story.Dispatch(2), "check failed");
  EXPECT_DEATH(story.Dispatch(1), "check failed");
}

TEST(LifeDeathTest, OnceCancelIsAskedForEveryWayLeadsToCancelled) {
  Story story;
  story.Dispatch(1).Then(CancelRequested());
  EXPECT_DEATH(story.Then(Returned{.sequence = 7}), "check failed");
  EXPECT_DEATH(story.Then(Ended()), "check failed");
  story.Then(Ended{.state = TaskState::kCancelled});
  EXPECT_EQ(story.task().state, TaskState::kCancelled);
}

TEST(LifeDeathTest, TaskDoesNotReturnWithoutAttemptsLeft) {
  Story story;
  story.Dispatch(1).Then(Returned{.sequence = 7, .counts = true});
  story.Dispatch(2).Then(Returned{.sequence = 7, .counts = true});
  story.Dispatch(3);
  EXPECT_DEATH(story.Then(Returned{.sequence = 7, .counts = true}), "check failed");
}

TEST(LifeDeathTest, RecordsComeInOrder) {
  Story story;
  TaskRecord record = {.queue_id = kId, .event = {}, .change = Noted()};
  record.number = 3;
  EXPECT_DEATH(story.ThenRecord(record), "record 3 comes after record 1");
}

TEST(LifeTest, WhatCannotComeNextIsToldWithoutDying) {
  Story pending;
  EXPECT_EQ(pending.Forbids(Dispatched{.dispatch = DispatchNumber(1)}), "");
  EXPECT_EQ(pending.Forbids(Noted()), "");
  EXPECT_EQ(pending.Forbids(Accepted()), "is accepted while nobody was asked");
  EXPECT_EQ(pending.Forbids(Returned()), "returns while it is not in flight");
  EXPECT_EQ(pending.Forbids(Admitted()), "is admitted a second time");
  EXPECT_EQ(pending.Forbids(Ended{.state = TaskState::kWorking}), "ends in a state that is no end");
  EXPECT_EQ(pending.Forbids(Ended{.state = TaskState::kFailed}),
            "fails without a reason, or has one without failing");
  Story ended;
  ended.Then(Ended{.state = TaskState::kCancelled});
  EXPECT_EQ(ended.Forbids(Ended()), "ends a second time");
  EXPECT_EQ(ended.Forbids(Noted()), "");
}

TEST(LifeTest, LifeBeginsWithItsAdmission) {
  TaskRecord record = {.queue_id = kId, .event = {}, .change = Dispatched()};
  record.number = 1;
  EXPECT_EQ(WhyImpossible(record, Life()), "does not begin a task");
  record.change = Admitted();
  EXPECT_EQ(WhyImpossible(record, Life()), "says nothing of what was asked for");
}

TEST(LifeTest, AdmissionIsShownAsTwoEvents) {
  Story story;
  story.Dispatch(1);
  const std::vector<TaskEvent> events = story.events();
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
