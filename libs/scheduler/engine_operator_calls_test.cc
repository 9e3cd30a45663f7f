// Tests of triggers, pauses, backfills, and failures in a row.
#include "libs/scheduler/engine.h"
#include "libs/testing/scheduler_fixture.h"
#include "libs/testing/status_matchers.h"

namespace callboard::scheduler {
namespace {

using test::At;
using test::CronJob;
using test::HasReason;
using test::IsOk;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class EngineOperatorCallsTest : public test::SchedulerFixture {
 protected:
  void PauseJob(absl::Time until = absl::InfiniteFuture()) {
    EXPECT_THAT(engine_->PauseJob("job", {.by = "ann", .why = "upgrade", .until = until}, now_),
                IsOk());
    Turn();
  }
  uint64_t Resume() {
    const absl::StatusOr<uint64_t> skipped = engine_->ResumeJob("job", now_);
    EXPECT_THAT(skipped, IsOk());
    Turn();
    return *skipped;
  }
  absl::StatusOr<Backfill> StartBackfill(const BackfillQuery& query) {
    const absl::StatusOr<Backfill> backfill = engine_->StartBackfill(query, now_);
    Turn();
    return backfill;
  }

  core::Job minutely_ = CronJob("job", "* * * * *");
};

// ---- Triggers -----------------------------------------------------------------------------------

TEST_F(EngineOperatorCallsTest, TriggerRunsAPausedJobAndObeysOverlapUnlessForced) {
  Start({minutely_});
  PauseJob();
  engine_->Trigger(TriggerCallId(1), {.job = "job", .id = "t1"}, now_);
  engine_->Trigger(TriggerCallId(2), {.job = "job", .id = "t2", .force = true}, now_);
  Commit();
  EXPECT_EQ(NextRequestId(), "trigger/job/t1");
  EXPECT_EQ(NextSubmit().overlap.policy, core::OverlapPolicy::kSkip);
  Answer(Overlap("queue-9"));
  EXPECT_EQ(NextRequestId(), "trigger/job/t2");
  EXPECT_EQ(NextSubmit().overlap.policy, core::OverlapPolicy::kAllow);
  Accept();
  ASSERT_EQ(triggered_.size(), 2u);
  EXPECT_THAT(triggered_[0], HasReason("OVERLAP"));
  EXPECT_EQ(triggered_[1]->queue_id, "queue-1");
}

TEST_F(EngineOperatorCallsTest, TriggerWritesARowAndIsTheJobsLastFiring) {
  Start({minutely_});
  now_.wall = At("2026-01-05 00:01:00");
  Turn();
  Accept();
  engine_->Trigger(TriggerCallId(1), {.job = "job", .id = "t1", .force = true}, now_);
  Commit();
  Accept();
  EXPECT_THAT(Rows("job"), ElementsAre("00:01:00 fired queue-1", "00:01:00 t1 fired queue-2"));
  EXPECT_EQ(Row("job", "2026-01-05 00:01:00", "t1").request_id, "trigger/job/t1");
  EXPECT_EQ(State("job").last_queue_id, "queue-2");
  EXPECT_EQ(State("job").runs, 1u);
  EXPECT_THAT(View("job").state.tracked_tasks, ElementsAre("queue-1", "queue-2"));
  // A repeated trigger has the same row.
  engine_->Trigger(TriggerCallId(2), {.job = "job", .id = "t1"}, now_);
  Commit();
  Answer(AcceptedTask{"queue-2", /*deduplicated=*/true});
  Advance(absl::Seconds(5));
  EXPECT_THAT(Rows("job"), SizeIs(2));
}

TEST_F(EngineOperatorCallsTest, LateAnswerAndRepeatedTriggerShareOneRow) {
  Start({minutely_});
  engine_->Trigger(TriggerCallId(1), {.job = "job", .id = "t1"}, now_);
  Commit();
  Advance(absl::Seconds(5));
  engine_->Trigger(TriggerCallId(2), {.job = "job", .id = "t1"}, now_);
  Commit();
  ASSERT_EQ(requests_.size(), 2u);
  std::swap(requests_.front(), requests_.back());
  Answer(AcceptedTask{"queue-7", /*deduplicated=*/true});
  Answer(AcceptedTask{"queue-7"});
  EXPECT_THAT(Rows("job"), ElementsAre("00:00:35 t1 fired queue-7"));
}

TEST_F(EngineOperatorCallsTest, TriggerWithoutATaskWritesARowWithTheReason) {
  Start({minutely_});
  for (const absl::Status& error :
       {Overlap("queue-9"), Full(), absl::InvalidArgumentError("no such lane"), Draining()}) {
    engine_->Trigger(TriggerCallId(1), {.job = "job", .id = "t1"}, now_);
    Commit();
    Answer(error);
    Advance(absl::Seconds(1));
  }
  EXPECT_THAT(Rows("job"),
              ElementsAre("00:00:30 t1 skipped_overlap queue-9", "00:00:31 t1 skipped_queue_full",
                          "00:00:32 t1 refused", "00:00:33 t1 skipped_director_down"));
  EXPECT_EQ(Row("job", "2026-01-05 00:00:31", "t1").detail,
            "trigger t1: queue is at capacity (50 tasks)");
  EXPECT_EQ(State("job").last_outcome, core::FiringOutcome::kSkippedDirectorDown);
  EXPECT_EQ(State("job").last_queue_id, "");
}

TEST_F(EngineOperatorCallsTest, RepeatingATriggerWithALostAnswerWritesItsRow) {
  Start({minutely_});
  engine_->Trigger(TriggerCallId(1), {.job = "job", .id = "t1"}, now_);
  Commit();
  Answer(NoAnswer());
  EXPECT_THAT(Rows("job"), IsEmpty());
  engine_->Trigger(TriggerCallId(2), {.job = "job", .id = "t1"}, now_);
  Commit();
  while (NextRequestId() != "trigger/job/t1") Answer(AcceptedTask{});
  Answer(AcceptedTask{"queue-7", /*deduplicated=*/true});
  EXPECT_THAT(Rows("job"), ElementsAre("00:00:30 t1 fired queue-7"));
}

TEST_F(EngineOperatorCallsTest, TriggerWithALostAnswerGetsItsRowByLookup) {
  Start({CronJob("job", "0 0 * * *")});
  engine_->Trigger(TriggerCallId(1), {.job = "job", .id = "t1"}, now_);
  engine_->Trigger(TriggerCallId(2), {.job = "job", .id = "t2"}, now_);
  Commit();
  EXPECT_THAT(State("job").open_triggers, ElementsAre("t1", "t2"));
  Answer(NoAnswer());
  Accept();
  // The scheduler is killed during the third.
  engine_->Trigger(TriggerCallId(3), {.job = "job", .id = "t3"}, now_);
  Commit();
  Start({CronJob("job", "0 0 * * *")});
  Advance(kCallTimeout - absl::Milliseconds(1));
  EXPECT_THAT(requests_, IsEmpty());
  Advance(absl::Milliseconds(1));
  ASSERT_EQ(requests_.size(), 2u);
  EXPECT_TRUE(IsLookup());
  EXPECT_EQ(NextRequestId(), "trigger/job/t1");
  Answer(AcceptedTask{"queue-7", /*deduplicated=*/true});
  EXPECT_EQ(NextRequestId(), "trigger/job/t3");
  // An answer that is not conclusive leaves the trigger open.
  Answer(base::WithReason(absl::FailedPreconditionError("it waits"), "WAITING"));
  EXPECT_THAT(State("job").open_triggers, ElementsAre("t3"));
  Advance(kLookupRetryDelay);
  EXPECT_EQ(NextRequestId(), "trigger/job/t3");
  Answer(Unused());
  Advance(kCallTimeout);
  EXPECT_THAT(requests_, IsEmpty());
  EXPECT_THAT(Rows("job"), ElementsAre("00:00:30 t2 fired queue-1", "00:00:40 t1 fired queue-7"));
  EXPECT_THAT(State("job").open_triggers, IsEmpty());
  EXPECT_THAT(State("job").tracked_tasks, ElementsAre("queue-1", "queue-7"));
}

TEST_F(EngineOperatorCallsTest, RepeatedTriggerIsLookedUpWhenNoCallCanArrive) {
  Start({CronJob("job", "0 0 * * *")});
  engine_->Trigger(TriggerCallId(1), {.job = "job", .id = "t1"}, now_);
  Commit();
  Answer(absl::UnavailableError("connection reset"));
  AdvanceInSteps(absl::Seconds(4));
  while (!requests_.empty()) Answer(AcceptedTask{});
  engine_->Trigger(TriggerCallId(2), {.job = "job", .id = "t1"}, now_);
  Commit();
  Answer(Full());
  AdvanceInSteps(kCallTimeout - absl::Milliseconds(1));
  EXPECT_THAT(requests_, IsEmpty());
  AdvanceInSteps(absl::Milliseconds(1));
  ASSERT_EQ(requests_.size(), 1u);
  Answer(Unreachable());
  AdvanceToLookup();
  EXPECT_EQ(NextRequestId(), "trigger/job/t1");
  Answer(AcceptedTask{"queue-7", /*deduplicated=*/true});
  EXPECT_THAT(Rows("job"),
              ElementsAre("00:00:34 t1 skipped_queue_full", "00:00:45 t1 fired queue-7"));
}

TEST_F(EngineOperatorCallsTest, UnansweredTriggerCanBeRepeated) {
  Start({minutely_});
  engine_->Trigger(TriggerCallId(1), {.job = "job", .id = "t1"}, now_);
  engine_->Trigger(TriggerCallId(2), {.job = "unknown", .id = "t1"}, now_);
  engine_->Trigger(TriggerCallId(3), {.job = "job", .id = "a/b"}, now_);
  Commit();
  Answer(NoAnswer());
  ASSERT_EQ(triggered_.size(), 3u);
  EXPECT_THAT(triggered_[0], HasReason("JOB_NOT_FOUND"));
  EXPECT_THAT(triggered_[1], HasReason("INVALID_FIELD"));
  EXPECT_THAT(triggered_[2], HasReason("DIRECTOR_UNREACHABLE"));
}

// ---- Pauses -------------------------------------------------------------------------------------

TEST_F(EngineOperatorCallsTest, PausedOccurrencesHaveRowsAndNeverRun) {
  Start({minutely_});
  PauseJob();
  EXPECT_EQ(View("job").state.pause->by, "ann");
  EXPECT_THAT(View("job").next, IsEmpty());
  AdvanceInSteps(absl::Minutes(2));
  EXPECT_EQ(Resume(), 2u);
  EXPECT_THAT(requests_, IsEmpty());
  EXPECT_THAT(Rows("job"), ElementsAre("00:01:00 paused", "00:02:00 paused"));
  Advance(absl::Minutes(1));
  EXPECT_EQ(requests_.size(), 1u);
}

TEST_F(EngineOperatorCallsTest, PauseSurvivesARestart) {
  Start({minutely_});
  PauseJob(At("2026-01-05 00:03:00"));
  now_.wall = At("2026-01-05 00:04:10");
  Start({minutely_});
  EXPECT_THAT(Rows("job"), ElementsAre("00:01:00 paused", "00:02:00 paused", "00:03:00 coalesced"));
  ASSERT_EQ(requests_.size(), 1u);
  EXPECT_EQ(NextRequestId(), core::CronRequestId("job", At("2026-01-05 00:04:00")));
  EXPECT_FALSE(State("job").pause.has_value());
}

TEST_F(EngineOperatorCallsTest, PauseEndsAtItsTime) {
  Start({minutely_});
  PauseJob(At("2026-01-05 00:02:30"));
  AdvanceInSteps(absl::Minutes(3));
  AcceptAll();
  EXPECT_THAT(Rows("job"),
              ElementsAre("00:01:00 paused", "00:02:00 paused", "00:03:00 fired queue-1"));
  EXPECT_THAT(engine_->PauseJob("job", {.until = now_.wall}, now_), HasReason("INVALID_FIELD"));
}

TEST_F(EngineOperatorCallsTest, OccurrenceDelayedByJitterDoesNotRunDuringAPause) {
  core::Job job = CronJob("job", "0 * * * *");
  job.jitter = absl::Minutes(50);
  Start({job});
  now_.wall = At("2026-01-05 01:00:01");
  Turn();
  ASSERT_THAT(requests_, IsEmpty());
  PauseJob();
  EXPECT_THAT(Rows("job"), ElementsAre("01:00:00 paused"));
  EXPECT_EQ(Resume(), 1u);
  AdvanceInSteps(absl::Minutes(55));
  EXPECT_THAT(requests_, IsEmpty());
}

TEST_F(EngineOperatorCallsTest, PauseIncludesOccurrencesNotSubmittedYet) {
  Start({minutely_});
  Advance(absl::Seconds(30));
  Answer(Unreachable());
  PauseJob();
  EXPECT_THAT(Rows("job"), ElementsAre("00:01:00 paused"));
}

TEST_F(EngineOperatorCallsTest, OccurrenceSubmittedBeforeAPauseHasRun) {
  Start({minutely_});
  Advance(absl::Seconds(30));
  PauseJob();
  EXPECT_THAT(Rows("job"), IsEmpty());
  Accept();
  EXPECT_THAT(Rows("job"), ElementsAre("00:01:00 fired queue-1"));
  // If it may have run, it is looked up.
  Resume();
  Advance(absl::Seconds(60));
  PauseJob();
  Answer(absl::UnavailableError("connection reset"));
  AdvanceToLookup();
  Answer(Unused());
  EXPECT_THAT(Rows("job"), ElementsAre("00:01:00 fired queue-1", "00:02:00 paused"));
}

TEST_F(EngineOperatorCallsTest, AttemptInAPauseIsNotResubmittedAfterARestart) {
  Start({minutely_});
  Advance(absl::Seconds(30));
  PauseJob();
  Start({minutely_});
  AdvanceToLookup();
  Answer(Unused());
  EXPECT_THAT(Rows("job"), ElementsAre("00:01:00 paused"));
}

TEST_F(EngineOperatorCallsTest, OperatorsPauseHoldsUntilTheFileChanges) {
  core::Job paused = minutely_;
  paused.paused = true;
  Start({paused});
  EXPECT_EQ(View("job").state.pause->by, "file");
  EXPECT_EQ(Resume(), 0u);
  SetJobs({paused});
  Start({paused});
  EXPECT_FALSE(View("job").state.pause.has_value());
  PauseJob();
  SetJobs({minutely_});
  EXPECT_FALSE(View("job").state.pause.has_value());
  PauseJob();
  Start({minutely_});
  EXPECT_EQ(View("job").state.pause->by, "ann");
}

TEST_F(EngineOperatorCallsTest, PauseLiftedInTheFileDuringDowntimeIsNotCaughtUp) {
  core::Job paused = minutely_;
  paused.paused = true;
  Start({paused});
  now_.wall += absl::Minutes(2);
  Start({minutely_});
  EXPECT_THAT(requests_, IsEmpty());
  EXPECT_THAT(Rows("job"), ElementsAre("00:01:00 paused", "00:02:00 paused"));
}

// ---- Failures in a row --------------------------------------------------------------------------

class FailuresTest : public EngineOperatorCallsTest {
 protected:
  FailuresTest() { job_.pause_after_failures = 2; }

  // Runs the job once more. The status of its task is known before the next occurrence is due.
  void RunOnce(core::LifecycleState state, std::optional<core::FailureReason> reason = {}) {
    Advance(absl::Seconds(1));
    ASSERT_EQ(requests_.size(), 1u);
    Accept();
    End(absl::StrCat("queue-", last_task_), state, reason);
  }
  void FailOnce() { RunOnce(core::LifecycleState::kFailed, core::FailureReason::kExecFailed); }

  core::Job job_ = CronJob("job", "* * * * * *");
};

TEST_F(FailuresTest, FailuresInARowPauseTheJobAcrossARestart) {
  Start({job_});
  FailOnce();
  Start({job_});
  FailOnce();
  Advance(absl::Seconds(1));
  ASSERT_TRUE(View("job").state.pause.has_value());
  EXPECT_EQ(View("job").state.pause->by, "scheduler");
  EXPECT_EQ(View("job").state.pause->why, "2 failures in a row");
  EXPECT_THAT(notices_, testing::Contains("job_paused"));
  Resume();
  EXPECT_EQ(State("job").failures_in_row, 0u);
}

TEST_F(FailuresTest, JobDoesNotRunBeforeItsTaskStatusesAreKnown) {
  Start({job_});
  FailOnce();
  FailOnce();
  Advance(absl::Seconds(1));
  EXPECT_THAT(requests_, IsEmpty());
  EXPECT_THAT(Rows("job"),
              ElementsAre("00:00:31 fired queue-1", "00:00:32 fired queue-2", "00:00:33 paused"));
}

TEST_F(FailuresTest, SuccessResetsTheCountAndReplacedTasksDoNotCount) {
  Start({job_});
  FailOnce();
  RunOnce(core::LifecycleState::kCompleted);
  RunOnce(core::LifecycleState::kFailed, core::FailureReason::kCoalesced);
  RunOnce(core::LifecycleState::kCancelled);
  FailOnce();
  Advance(kStatusPollPeriod);
  EXPECT_FALSE(View("job").state.pause.has_value());
  EXPECT_EQ(State("job").failures_in_row, 1u);
}

TEST_F(FailuresTest, TriggeredTasksCount) {
  Start({minutely_});
  minutely_.pause_after_failures = 2;
  SetJobs({minutely_});
  for (const char* id : {"t1", "t2"}) {
    engine_->Trigger(TriggerCallId(1), {.job = "job", .id = id}, now_);
    Commit();
    Accept();
    End(absl::StrCat("queue-", last_task_), core::LifecycleState::kFailed);
  }
  Advance(kStatusPollPeriod);
  EXPECT_TRUE(View("job").state.pause.has_value());
}

TEST_F(FailuresTest, FailureOfARepeatedTriggerCountsOnce) {
  minutely_.pause_after_failures = 10;
  Start({minutely_});
  for (const char* id : {"t1", "t2"}) {
    engine_->Trigger(TriggerCallId(1), {.job = "job", .id = id}, now_);
    Commit();
    Accept();
    End(absl::StrCat("queue-", last_task_), core::LifecycleState::kFailed);
    Advance(kStatusPollPeriod);
  }
  Start({minutely_});
  engine_->Trigger(TriggerCallId(1), {.job = "job", .id = "t1"}, now_);
  Commit();
  Answer(AcceptedTask{"queue-1", /*deduplicated=*/true});
  Advance(kStatusPollPeriod);
  EXPECT_THAT(Rows("job"), SizeIs(2));
  EXPECT_EQ(State("job").last_queue_id, "queue-2");
  EXPECT_EQ(State("job").failures_in_row, 2u);
}

TEST_F(FailuresTest, TasksAreTrackedUntilTheyEndOrAreForgotten) {
  job_.overlap = core::OverlapPolicy::kAllow;
  Start({job_});
  RunOnce(core::LifecycleState::kWorking);
  RunOnce(core::LifecycleState::kCompleted);
  RunOnce(core::LifecycleState::kWorking);
  EXPECT_THAT(State("job").tracked_tasks, ElementsAre("queue-1", "queue-3"));
  EXPECT_EQ(State("job").last_run_state, core::LifecycleState::kCompleted);
  forgotten_.insert("queue-1");
  End("queue-3", core::LifecycleState::kFailed, core::FailureReason::kTimedOut);
  PauseJob();
  Advance(kStatusPollPeriod);
  EXPECT_THAT(State("job").tracked_tasks, IsEmpty());
  EXPECT_EQ(State("job").last_run_state, core::LifecycleState::kFailed);
  EXPECT_EQ(State("job").last_run_reason, core::FailureReason::kTimedOut);
}

// ---- Backfills ----------------------------------------------------------------------------------

class BackfillTest : public EngineOperatorCallsTest {
 protected:
  const BackfillQuery three_ = {.job = "job",
                                .id = "b1",
                                .by = "ann",
                                .from = At("2026-01-04 10:00:00"),
                                .until = At("2026-01-04 10:03:00")};
};

TEST_F(BackfillTest, RunsOneAfterTheOtherWithOwnRequestIds) {
  Start({minutely_});
  EXPECT_THAT(StartBackfill(three_)->occurrences, SizeIs(3));
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(requests_.size(), 1u);
    EXPECT_EQ(NextRequestId(),
              core::BackfillRequestId("job", "b1", three_.from + i * absl::Minutes(1)));
    EXPECT_EQ(NextSubmit().overlap.policy, core::OverlapPolicy::kSkip);
    Accept();
    EXPECT_THAT(requests_, IsEmpty());
    AdvanceInSteps(kBackfillInterval);
  }
  EXPECT_THAT(requests_, IsEmpty());
  EXPECT_THAT(Rows("job"), ElementsAre("10:00:00 fired queue-1", "10:01:00 fired queue-2",
                                       "10:02:00 fired queue-3"));
  EXPECT_EQ(Row("job", "2026-01-04 10:00:00").detail, "backfill b1");
  EXPECT_EQ(State("job").runs, 0u);
  EXPECT_EQ(State("job").last_outcome, core::FiringOutcome::kFired);
  EXPECT_EQ(State("job").last_nominal, At("2026-01-04 10:02:00"));
  EXPECT_EQ(State("job").last_queue_id, "queue-3");
  EXPECT_THAT(State("job").tracked_tasks, ElementsAre("queue-1", "queue-2", "queue-3"));
  EXPECT_TRUE(disk_.contents().backfills.at("b1").ended_at.has_value());
}

TEST_F(BackfillTest, DryRunOnlyLists) {
  Start({minutely_});
  BackfillQuery query = three_;
  query.dry_run = true;
  EXPECT_THAT(StartBackfill(query)->occurrences, SizeIs(3));
  EXPECT_THAT(requests_, IsEmpty());
  EXPECT_THAT(disk_.contents().backfills, IsEmpty());
}

TEST_F(BackfillTest, WaitsForAPlaceAndForTheEarlierTask) {
  Start({minutely_});
  EXPECT_THAT(StartBackfill(three_), IsOk());
  for (const absl::Status& error : {Full(), Overlap("queue-9"), Draining()}) {
    ASSERT_EQ(requests_.size(), 1u);
    Answer(error);
    EXPECT_THAT(requests_, IsEmpty());
    for (int i = 0; i < 20 && (requests_.empty() || IsProbe()); ++i) {
      if (!requests_.empty()) Answer(Unused());
      AdvanceInSteps(absl::Seconds(1));
    }
  }
  Accept();
  EXPECT_THAT(Rows("job"), ElementsAre("10:00:00 fired queue-1"));
}

TEST_F(BackfillTest, ContinuesAfterARestart) {
  Start({minutely_});
  EXPECT_THAT(StartBackfill(three_), IsOk());
  Accept();
  AdvanceInSteps(kBackfillInterval);
  Start({minutely_});
  ASSERT_EQ(requests_.size(), 1u);
  EXPECT_EQ(NextRequestId(), core::BackfillRequestId("job", "b1", At("2026-01-04 10:01:00")));
  EXPECT_EQ(View("job").active_backfills, 1u);
}

TEST_F(BackfillTest, RepeatedIdReturnsTheSameBackfill) {
  Start({minutely_});
  EXPECT_THAT(StartBackfill(three_), IsOk());
  EXPECT_THAT(StartBackfill(three_)->occurrences, SizeIs(3));
  BackfillQuery other = three_;
  other.until = At("2026-01-04 11:00:00");
  EXPECT_THAT(StartBackfill(other), HasReason("BACKFILL_ID_REUSED"));
}

TEST_F(BackfillTest, IsBoundedAndHasOnlyDecidedOccurrences) {
  Start({minutely_});
  BackfillQuery query = three_;
  query.from = At("2026-01-03 00:00:00");
  query.until = query.from + absl::Minutes(1001);
  EXPECT_THAT(StartBackfill(query), HasReason("TOO_MANY_OCCURRENCES"));
  query.from = At("2026-01-04 23:59:00");
  query.until = At("2026-01-06 00:00:00");
  EXPECT_THAT(StartBackfill(query)->occurrences,
              ElementsAre(At("2026-01-04 23:59:00"), At("2026-01-05 00:00:00")));
  for (size_t i = 1; i < core::kBackfillsMax; ++i) {
    query.id = absl::StrCat("more-", i);
    EXPECT_THAT(StartBackfill(query), IsOk());
  }
  query.id = "one-too-many";
  EXPECT_THAT(StartBackfill(query), HasReason("TOO_MANY_BACKFILLS"));
  // A backfill that has ended makes room.
  for (int i = 0; i < 4; ++i) {
    AcceptAll();
    AdvanceInSteps(kBackfillInterval);
  }
  EXPECT_THAT(StartBackfill(query), IsOk());
}

TEST_F(BackfillTest, EndsWhenItsJobIsRemoved) {
  Start({minutely_});
  EXPECT_THAT(StartBackfill(three_), IsOk());
  SetJobs({});
  Accept();
  EXPECT_TRUE(disk_.contents().backfills.at("b1").ended_at.has_value());
  EXPECT_EQ(disk_.contents().backfills.at("b1").done, 0u);
}

}  // namespace
}  // namespace callboard::scheduler
