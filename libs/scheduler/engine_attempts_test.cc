// Tests of attempts: occurrences between their intent and their row.
#include "libs/scheduler/engine.h"
#include "libs/testing/scheduler_fixture.h"
#include "libs/testing/status_matchers.h"

namespace callboard::scheduler {
namespace {

using core::CatchUp;
using test::At;
using test::CronJob;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class EngineAttemptsTest : public test::SchedulerFixture {
 protected:
  // Starts one job, which is due at 00:01:00.
  void StartDue(core::Job job) {
    Start({std::move(job)});
    Advance(absl::Seconds(30));
    ASSERT_EQ(requests_.size(), 1u);
  }
  // Answers a lookup: the director knows the request id, or does not.
  void AnswerLookupFound(const std::string& queue_id) {
    ASSERT_TRUE(IsLookup());
    Answer(AcceptedTask{queue_id, /*deduplicated=*/true});
  }
  void AnswerLookupNotFound() {
    ASSERT_TRUE(IsLookup());
    Answer(Unused());
  }

  // The last missed occurrence is accepted; then the unfinished attempt is looked up.
  void RestartTwoMinutesLater() {
    now_.wall += absl::Minutes(2);
    Start({minutely_});
    ASSERT_EQ(requests_.size(), 1u);
    EXPECT_EQ(NextRequestId(), core::CronRequestId("job", At("2026-01-05 00:03:00")));
    Accept();
    AdvanceInSteps(kCallTimeout);
    ASSERT_EQ(requests_.size(), 1u);
    EXPECT_EQ(NextRequestId(), core::CronRequestId("job", At("2026-01-05 00:01:00")));
  }

  core::Job job_ = CronJob("job", "*/5 * * * *");
  const core::Job minutely_ = CronJob("job", "* * * * *");
};

TEST_F(EngineAttemptsTest, OverlapRowNamesTheLiveTask) {
  StartDue(minutely_);
  Answer(Overlap("queue-7"));
  EXPECT_THAT(Rows("job"), ElementsAre("00:01:00 skipped_overlap queue-7"));
  EXPECT_EQ(State("job").last_queue_id, "");
}

TEST_F(EngineAttemptsTest, PermanentErrorWritesARowWithTheReason) {
  StartDue(minutely_);
  Answer(absl::InvalidArgumentError("prompt is too long"));
  EXPECT_THAT(Rows("job"), ElementsAre("00:01:00 refused"));
  EXPECT_EQ(Row("job", "2026-01-05 00:01:00").detail, "prompt is too long");
}

TEST_F(EngineAttemptsTest, DeduplicatedAnswerIsFiredWithTheExistingTask) {
  StartDue(minutely_);
  Answer(AcceptedTask{"queue-5", /*deduplicated=*/true});
  EXPECT_THAT(Rows("job"), ElementsAre("00:01:00 fired queue-5"));
}

TEST_F(EngineAttemptsTest, TaskWithOtherContentCountsAsFired) {
  StartDue(minutely_);
  Answer(base::WithReason(absl::AlreadyExistsError("stands for another"), "REQUEST_ID_REUSED",
                          {{"queue_id", "queue-5"}}));
  EXPECT_THAT(Rows("job"), ElementsAre("00:01:00 fired queue-5"));
  EXPECT_THAT(Row("job", "2026-01-05 00:01:00").detail, HasSubstr("another scheduler"));
}

TEST_F(EngineAttemptsTest, OccurrenceInAClockGapRunsAtTheTransition) {
  // On 2026-03-29 at 01:00 UTC the clocks of Berlin go from 2 to 3.
  now_.wall = At("2026-03-29 00:00:00");
  Start({CronJob("job", "30 2 * * *", "Europe/Berlin")});
  now_.wall = At("2026-03-29 01:00:00");
  Turn();
  ASSERT_EQ(requests_.size(), 1u);
  Accept();
  EXPECT_THAT(Rows("job"), ElementsAre("01:00:00 dst_gap_moved queue-1"));
  EXPECT_EQ(State("job").runs, 1u);
  EXPECT_EQ(State("job").last_queue_id, "queue-1");
}

// ---- A full queue -------------------------------------------------------------------------------

TEST_F(EngineAttemptsTest, FullQueueSkipsTheOccurrenceUnlessTheJobWaits) {
  StartDue(minutely_);
  Answer(Full());
  EXPECT_THAT(Rows("job"), ElementsAre("00:01:00 skipped_queue_full"));
  EXPECT_EQ(Row("job", "2026-01-05 00:01:00").detail, "queue is at capacity (50 tasks)");
}

TEST_F(EngineAttemptsTest, WaitingJobRetriesAFullQueueEverySecond) {
  core::Job job = minutely_;
  job.queue_full_wait = absl::Seconds(30);
  StartDue(job);
  for (int i = 0; i < 3; ++i) {
    // Its retry_after is five seconds.
    Answer(Full());
    EXPECT_THAT(requests_, IsEmpty());
    AdvanceInSteps(kFullRetryMax);
    ASSERT_EQ(requests_.size(), 1u);
    EXPECT_FALSE(IsLookup());
  }
  EXPECT_EQ(NextSubmit().policy, core::QueuePolicy::kReject);
  Accept();
  EXPECT_THAT(Rows("job"), ElementsAre("00:01:00 fired queue-1"));
}

TEST_F(EngineAttemptsTest, JobWaitsForAPlaceAsLongAsConfigured) {
  core::Job job = job_;
  job.queue_full_wait = absl::Milliseconds(2500);
  Start({job});
  Advance(absl::Seconds(270));
  for (const absl::Duration wait : {kFullRetryMax, kFullRetryMax, absl::Milliseconds(500)}) {
    ASSERT_EQ(requests_.size(), 1u);
    Answer(Full());
    EXPECT_THAT(Rows("job"), IsEmpty());
    AdvanceInSteps(wait);
  }
  ASSERT_EQ(requests_.size(), 1u);
  Answer(Full());
  EXPECT_THAT(Rows("job"), ElementsAre("00:05:00 skipped_queue_full"));
}

TEST_F(EngineAttemptsTest, JobWaitsForAPlaceUntilItsNextOccurrenceAtMost) {
  core::Job job = minutely_;
  job.queue_full_wait = absl::Hours(1);
  StartDue(job);
  Answer(Full());
  Advance(absl::Minutes(1));
  EXPECT_THAT(Rows("job"), ElementsAre("00:01:00 skipped_queue_full"));
  EXPECT_EQ(NextRequestId(), core::CronRequestId("job", At("2026-01-05 00:02:00")));
}

// ---- An unreachable director --------------------------------------------------------------------

TEST_F(EngineAttemptsTest, SubmitIsRetriedUntilTheNextOccurrence) {
  Start({job_});
  Advance(absl::Seconds(270));
  absl::Duration waited;
  for (int tries = 0; Rows("job").empty(); ++tries) {
    ASSERT_LT(tries, 1000);
    if (!requests_.empty()) Answer(Unreachable());
    const absl::Duration step = engine_->TimeUntilNextTimer(now_);
    Advance(step);
    waited += step;
  }
  EXPECT_EQ(waited, absl::Minutes(5));
  EXPECT_THAT(Rows("job"), ElementsAre("00:05:00 skipped_director_down"));
  EXPECT_EQ(Row("job", "2026-01-05 00:05:00").detail, "connection refused");
}

TEST_F(EngineAttemptsTest, UnreachableDirectorIsProbedEverySecond) {
  Start({job_});
  Advance(absl::Seconds(270));
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(requests_.size(), 1u) << i;
    Answer(Unreachable());
    AdvanceInSteps(absl::Seconds(1));
  }
}

TEST_F(EngineAttemptsTest, ReturningDirectorGetsWhatIsStillDue) {
  Start({job_});
  Advance(absl::Seconds(270));
  Answer(Unreachable());
  EXPECT_FALSE(engine_->Status(now_).director_reachable);
  AdvanceInSteps(kProbeFirst);
  ASSERT_EQ(requests_.size(), 1u);
  EXPECT_FALSE(IsLookup());
  Answer(Draining());
  EXPECT_TRUE(engine_->Status(now_).director_reachable);
  AdvanceInSteps(absl::Seconds(1));
  Accept();
  EXPECT_THAT(Rows("job"), ElementsAre("00:05:00 fired queue-1"));
}

TEST_F(EngineAttemptsTest, UnreachableDirectorIsProbedByOneCallAtATime) {
  std::vector<core::Job> jobs;
  for (int i = 0; i < 100; ++i) jobs.push_back(CronJob(absl::StrCat("job-", i), "0 * * * *"));
  Start(jobs);
  now_.wall = At("2026-01-05 01:00:00");
  Turn();
  ASSERT_EQ(requests_.size(), 100u);
  for (int i = 0; i < 100; ++i) Answer(Unreachable());
  absl::Duration last;
  for (int i = 0; i < 8; ++i) {
    ASSERT_THAT(requests_, IsEmpty());
    const absl::Duration before = now_.monotonic;
    while (requests_.empty()) Advance(engine_->TimeUntilNextTimer(now_));
    ASSERT_EQ(requests_.size(), 1u);
    EXPECT_GE(now_.monotonic - before, last);
    last = now_.monotonic - before;
    Answer(Unreachable());
  }
  EXPECT_EQ(last, kProbeLast);
  AdvanceInSteps(kProbeLast);
  Accept();
  EXPECT_EQ(requests_.size(), 99u);
}

TEST_F(EngineAttemptsTest, ReturnOfTheDirectorIsNoticedWhileEarlierCallsHang) {
  Start({job_});
  Advance(absl::Seconds(270));
  Answer(NoAnswer());
  AdvanceInSteps(kProbeFirst);
  ASSERT_EQ(requests_.size(), 1u);
  EXPECT_FALSE(IsLookup());
  // Neither the submit nor the first lookup is answered. No other submit is sent.
  for (size_t hanging = 2; hanging <= 3; ++hanging) {
    AdvanceInSteps(kProbeTimeout);
    ASSERT_EQ(requests_.size(), hanging);
    std::rotate(requests_.begin(), requests_.end() - 1, requests_.end());
    EXPECT_TRUE(IsProbe());
  }
  EXPECT_FALSE(engine_->Status(now_).director_reachable);
  AnswerLookupNotFound();
  EXPECT_TRUE(engine_->Status(now_).director_reachable);
}

TEST_F(EngineAttemptsTest, CallLostInAnEarlierOutageDoesNotStartAnother) {
  Start({job_});
  Advance(absl::Seconds(270));
  Answer(NoAnswer());
  AdvanceInSteps(kProbeFirst);
  AdvanceInSteps(kProbeTimeout);
  ASSERT_EQ(requests_.size(), 2u);
  std::swap(requests_.front(), requests_.back());
  AnswerLookupNotFound();
  ASSERT_EQ(requests_.size(), 1u);
  Answer(NoAnswer());
  EXPECT_TRUE(engine_->Status(now_).director_reachable);
  // The submit is repeated immediately, and looked up after kCallTimeout as usual.
  ASSERT_EQ(requests_.size(), 1u);
  Answer(Full());
  EXPECT_THAT(Rows("job"), IsEmpty());
  AdvanceInSteps(kCallTimeout);
  ASSERT_EQ(requests_.size(), 1u);
  AnswerLookupFound("queue-5");
  EXPECT_THAT(Rows("job"), ElementsAre("00:05:00 fired queue-5"));
}

TEST_F(EngineAttemptsTest, UnreachableDirectorIsProbedWhenNothingIsDue) {
  Start({job_});
  engine_->Trigger(TriggerCallId(1), {.job = "job", .id = "t"}, now_);
  Commit();
  Answer(Unreachable());
  AdvanceInSteps(kProbeFirst);
  ASSERT_EQ(requests_.size(), 1u);
  EXPECT_TRUE(IsProbe());
  AnswerLookupNotFound();
  EXPECT_TRUE(engine_->Status(now_).director_reachable);
}

TEST_F(EngineAttemptsTest, CatchUpNoneDropsAnOccurrenceThatWouldBeLate) {
  job_.catch_up = {CatchUp::Kind::kNone};
  Start({job_});
  Advance(absl::Seconds(270));
  Answer(Unreachable());
  Advance(kOnTimeLimit);
  EXPECT_THAT(Rows("job"), ElementsAre("00:05:00 skipped_director_down"));
}

TEST_F(EngineAttemptsTest, CatchUpAllKeepsTheLastOnesDuringAnOutageAndSubmitsThemInOrder) {
  core::Job job = minutely_;
  job.catch_up = {CatchUp::Kind::kAll, 2};
  StartDue(job);
  Answer(Unreachable());
  now_.monotonic += absl::Seconds(1);
  for (int i = 0; i < 3; ++i) {
    Advance(absl::Minutes(1));
    while (!requests_.empty()) Answer(Unreachable());
  }
  EXPECT_THAT(Rows("job"),
              ElementsAre("00:01:00 skipped_director_down", "00:02:00 skipped_director_down"));
  AdvanceInSteps(kProbeLast);
  ASSERT_EQ(requests_.size(), 1u);
  EXPECT_EQ(NextRequestId(), core::CronRequestId("job", At("2026-01-05 00:03:00")));
  AcceptAll();
  EXPECT_THAT(Rows("job"),
              ElementsAre("00:01:00 skipped_director_down", "00:02:00 skipped_director_down",
                          "00:03:00 fired queue-1", "00:04:00 fired queue-2"));
}

TEST_F(EngineAttemptsTest, WaitingOccurrenceEndsAtTheNextOneOfAChangedSchedule) {
  struct Change {
    const char* job;
    const char* before;
    const char* after;
  };
  const Change changes[] = {
      {"rarer", "0 * * * *", "0 6 * * *"},
      // The new time has passed for today.
      {"later", "0 10 * * *", "15 10 * * *"},
  };
  for (const auto& [job, before, after] : changes) {
    now_.wall = At("2026-01-05 09:30:00");
    Start({CronJob(job, before)});
    Advance(absl::Minutes(30));
    Answer(Unreachable());
    Advance(absl::Minutes(30));
    Answer(Unreachable());
    SetJobs({CronJob(job, after)});
    Advance(absl::Hours(1));
    EXPECT_THAT(Rows(job), IsEmpty());
    while (!requests_.empty()) Answer(Unreachable());
    now_.wall = At("2026-01-06 10:15:00");
    Turn();
    EXPECT_THAT(Rows(job), ElementsAre("10:00:00 skipped_director_down"));
  }
}

TEST_F(EngineAttemptsTest, WaitingOccurrencesFollowAChangeOfCatchUp) {
  core::Job job = minutely_;
  job.catch_up = {CatchUp::Kind::kAll, 2};
  StartDue(job);
  Answer(Unreachable());
  now_.monotonic += absl::Seconds(1);
  Advance(absl::Minutes(1));
  while (!requests_.empty()) Answer(Unreachable());
  ASSERT_THAT(Rows("job"), IsEmpty());
  SetJobs({minutely_});
  EXPECT_THAT(Rows("job"), ElementsAre("00:01:00 skipped_director_down"));
  Advance(absl::Minutes(1));
  EXPECT_THAT(Rows("job"),
              ElementsAre("00:01:00 skipped_director_down", "00:02:00 skipped_director_down"));
}

TEST_F(EngineAttemptsTest, WaitForAPlaceFollowsAChangeOfTheSetting) {
  const auto wait = [this](absl::Duration time) {
    job_.queue_full_wait = time;
    return job_;
  };
  Start({wait(absl::Seconds(10))});
  Advance(absl::Seconds(270));
  SetJobs({wait(absl::Seconds(20))});
  for (int i = 0; i < 15; ++i) {
    ASSERT_EQ(requests_.size(), 1u) << i;
    Answer(Full());
    AdvanceInSteps(absl::Seconds(1));
  }
  SetJobs({wait(absl::Seconds(5))});
  Answer(Full());
  EXPECT_THAT(Rows("job"), ElementsAre("00:05:00 skipped_queue_full"));
}

// ---- Submits with an unknown result -------------------------------------------------------------

TEST_F(EngineAttemptsTest, UnansweredSubmitIsRetriedAndFindsItsTask) {
  Start({job_});
  Advance(absl::Seconds(270));
  Answer(NoAnswer());
  AdvanceInSteps(kProbeFirst);
  ASSERT_EQ(requests_.size(), 1u);
  EXPECT_FALSE(IsLookup());
  Answer(AcceptedTask{"queue-5", /*deduplicated=*/true});
  EXPECT_THAT(Rows("job"), ElementsAre("00:05:00 fired queue-5"));
}

TEST_F(EngineAttemptsTest, OccurrenceThatMayHaveRunIsLookedUpBeforeItIsDropped) {
  StartDue(minutely_);
  AdvanceInSteps(absl::Seconds(10));
  Answer(NoAnswer());
  // The director is unreachable until the next occurrence is due.
  for (int i = 0; i < 60; ++i) {
    Advance(absl::Seconds(1));
    while (!requests_.empty()) Answer(NoAnswer());
  }
  EXPECT_THAT(Rows("job"), IsEmpty());
  AdvanceInSteps(kProbeLast);
  ASSERT_EQ(requests_.size(), 1u);
  ASSERT_TRUE(IsLookup());
  EXPECT_EQ(NextRequestId(), core::CronRequestId("job", At("2026-01-05 00:01:00")));
  AnswerLookupFound("queue-5");
  EXPECT_THAT(Rows("job"), ElementsAre("00:01:00 fired queue-5"));
}

TEST_F(EngineAttemptsTest, OccurrenceUnknownToTheDirectorIsDropped) {
  StartDue(minutely_);
  AdvanceInSteps(absl::Seconds(10));
  Answer(NoAnswer());
  for (int i = 0; i < 60; ++i) {
    Advance(absl::Seconds(1));
    while (!requests_.empty()) Answer(NoAnswer());
  }
  AdvanceInSteps(kProbeLast);
  AnswerLookupNotFound();
  EXPECT_THAT(Rows("job"), ElementsAre("00:01:00 skipped_director_down"));
}

TEST_F(EngineAttemptsTest, LookupWithoutAConclusiveAnswerIsRepeated) {
  StartDue(minutely_);
  SetJobs({});
  Answer(NoAnswer());
  AdvanceToLookup();
  // The submit waits for a place, the answer is not that of the director, or there is no answer.
  for (const absl::Status& answer :
       {base::WithReason(absl::FailedPreconditionError("it waits"), "WAITING"),
        absl::NotFoundError("no such page"), NoAnswer()}) {
    ASSERT_TRUE(IsLookup());
    Answer(answer);
    EXPECT_THAT(Rows("job"), IsEmpty());
    EXPECT_THAT(requests_, IsEmpty());
    AdvanceToLookup();
    EXPECT_EQ(NextRequestId(), core::CronRequestId("job", At("2026-01-05 00:01:00")));
  }
  AnswerLookupNotFound();
  EXPECT_THAT(Rows("job"), ElementsAre("00:01:00 missed_window"));
}

TEST_F(EngineAttemptsTest, ErrorCountsOnlyWhenNoEarlierSubmitCanArrive) {
  Start({job_});
  Advance(absl::Seconds(270));
  Answer(absl::UnavailableError("connection reset"));
  AdvanceInSteps(kProbeFirst);
  // The first submit may still reach the director.
  Answer(Full());
  EXPECT_THAT(Rows("job"), IsEmpty());
  AdvanceInSteps(kCallTimeout - kProbeFirst - absl::Milliseconds(2));
  EXPECT_THAT(requests_, IsEmpty());
  AdvanceInSteps(absl::Milliseconds(2));
  ASSERT_EQ(requests_.size(), 1u);
  AnswerLookupFound("queue-5");
  EXPECT_THAT(Rows("job"), ElementsAre("00:05:00 fired queue-5"));
}

TEST_F(EngineAttemptsTest, NextOccurrenceDoesNotWaitForALookup) {
  StartDue(minutely_);
  Advance(absl::Seconds(59));
  Answer(absl::UnavailableError("connection reset"));
  Advance(absl::Seconds(1));
  ASSERT_EQ(requests_.size(), 1u);
  EXPECT_TRUE(IsLookup());
  AnswerLookupNotFound();
  ASSERT_EQ(requests_.size(), 1u);
  EXPECT_EQ(NextRequestId(), core::CronRequestId("job", At("2026-01-05 00:02:00")));
}

// ---- Restarts -----------------------------------------------------------------------------------

TEST_F(EngineAttemptsTest, RestartResubmitsWhatIsStillDue) {
  StartDue(minutely_);
  Start({minutely_});
  ASSERT_EQ(requests_.size(), 1u);
  EXPECT_FALSE(IsLookup());
  EXPECT_EQ(NextRequestId(), core::CronRequestId("job", At("2026-01-05 00:01:00")));
  Answer(AcceptedTask{"queue-5", /*deduplicated=*/true});
  EXPECT_THAT(Rows("job"), ElementsAre("00:01:00 fired queue-5"));
  EXPECT_THAT(disk_.contents().intents, IsEmpty());
}

TEST_F(EngineAttemptsTest, RestartLooksUpExpiredAttempts) {
  StartDue(minutely_);
  RestartTwoMinutesLater();
  AnswerLookupFound("queue-5");
  EXPECT_EQ(Rows("job").front(), "00:01:00 fired queue-5");
}

TEST_F(EngineAttemptsTest, RestartCatchesUpWhatTheDirectorDoesNotKnow) {
  StartDue(minutely_);
  RestartTwoMinutesLater();
  AnswerLookupNotFound();
  EXPECT_THAT(Rows("job"),
              ElementsAre("00:01:00 coalesced", "00:02:00 coalesced", "00:03:00 fired queue-1"));
}

TEST_F(EngineAttemptsTest, RestartAfterADayDoesNotSubmitWhatMayHaveRun) {
  core::Job job = CronJob("job", "0 0 * * 1");
  job.catch_up = {CatchUp::Kind::kAll, 5};
  now_.wall = At("2026-01-04 23:59:00");
  Start({job});
  Advance(absl::Minutes(1));
  ASSERT_EQ(requests_.size(), 1u);
  now_.wall += absl::Hours(30);
  Start({job});
  AdvanceInSteps(kCallTimeout);
  AnswerLookupNotFound();
  EXPECT_THAT(Rows("job"), ElementsAre("00:00:00 missed_window"));
  EXPECT_THAT(Row("job", "2026-01-05 00:00:00").detail, HasSubstr("too long ago"));
}

TEST_F(EngineAttemptsTest, AnswersToAnEarlierEngineAreIgnored) {
  StartDue(minutely_);
  const OutgoingRequestId old = std::get<SubmitRequest>(requests_.front()).id;
  Start({minutely_});
  engine_->OnRequestAnswer(old, Overlap("queue-9"), now_);
  Turn();
  EXPECT_THAT(Rows("job"), IsEmpty());
}

TEST_F(EngineAttemptsTest, RemovedJobLooksUpItsOpenAttempts) {
  StartDue(minutely_);
  SetJobs({});
  EXPECT_THAT(Rows("job"), IsEmpty());
  Answer(NoAnswer());
  AdvanceToLookup();
  AnswerLookupFound("queue-5");
  EXPECT_THAT(Rows("job"), ElementsAre("00:01:00 fired queue-5"));
}

// ---- Direct starts ------------------------------------------------------------------------------

class DirectTest : public EngineAttemptsTest {
 protected:
  DirectTest() { job_.agent_url = "grpc://agent:7071"; }

  void MissDirector(const absl::Status& answer) {
    Start({job_});
    Advance(absl::Seconds(270));
    Answer(answer);
    now_.wall += absl::Minutes(5);
    Turn();
  }
  const DirectStartRequest& Direct() const {
    return std::get<DirectStartRequest>(requests_.front());
  }
};

TEST_F(DirectTest, TaskStartsOnTheAgentIfTheDirectorWasNotReached) {
  MissDirector(Unreachable());
  ASSERT_EQ(requests_.size(), 1u);
  EXPECT_EQ(Direct().agent_url, "grpc://agent:7071");
  EXPECT_EQ(Direct().submission.request_id, core::CronRequestId("job", At("2026-01-05 00:05:00")));
  EXPECT_TRUE(disk_.contents().intents.begin()->second.direct);
  Answer(AcceptedTask{"task-1"});
  EXPECT_THAT(Rows("job"), ElementsAre("00:05:00 fired"));
  EXPECT_EQ(Row("job", "2026-01-05 00:05:00").detail, "started directly on the agent: task-1");
}

TEST_F(DirectTest, TaskThatTheDirectorMayHaveIsNotStartedOnTheAgent) {
  MissDirector(NoAnswer());
  EXPECT_FALSE(MoveToFront<DirectStartRequest>());
  // The director returns: it gets a submit of the next occurrence, then a lookup of this one.
  AdvanceInSteps(kProbeFirst);
  Accept();
  AdvanceToLookup();
  EXPECT_FALSE(MoveToFront<DirectStartRequest>());
  AnswerLookupFound("queue-5");
  EXPECT_THAT(Rows("job"), ElementsAre("00:05:00 fired queue-5", "00:10:00 fired queue-1"));
}

TEST_F(DirectTest, AfterARestartADirectStartStaysDirect) {
  MissDirector(Unreachable());
  Start({job_});
  ASSERT_FALSE(requests_.empty());
  EXPECT_EQ(Direct().submission.request_id, core::CronRequestId("job", At("2026-01-05 00:05:00")));
  Answer(AcceptedTask{"task-1", /*deduplicated=*/true});
  EXPECT_EQ(Rows("job").front(), "00:05:00 fired");
}

TEST_F(DirectTest, NoMoreThanMaxRunsAreStartedOnTheAgent) {
  job_.max_runs = 1;
  MissDirector(Unreachable());
  now_.wall += absl::Minutes(5);
  Turn();
  size_t starts = 0;
  for (const OutgoingRequest& request : requests_)
    starts += std::holds_alternative<DirectStartRequest>(request) ? 1 : 0;
  EXPECT_EQ(starts, 1u);
  ASSERT_TRUE(MoveToFront<DirectStartRequest>());
  Answer(AcceptedTask{"task-1"});
  EXPECT_FALSE(MoveToFront<DirectStartRequest>());
  EXPECT_THAT(Rows("job"), ElementsAre("00:05:00 fired", "00:10:00 skipped_director_down",
                                       "00:15:00 missed_window"));
}

TEST_F(DirectTest, UnreachableAgentIsTriedABoundedNumberOfTimes) {
  MissDirector(Unreachable());
  for (int i = 0; i < kDirectStartsMax; ++i) {
    ASSERT_TRUE(MoveToFront<DirectStartRequest>()) << i;
    Answer(absl::UnavailableError("no agent"));
    now_.monotonic += absl::Seconds(1);
    Turn();
  }
  EXPECT_EQ(Rows("job").front(), "00:05:00 skipped_director_down");
  EXPECT_EQ(Row("job", "2026-01-05 00:05:00").detail, "connection refused; direct start: no agent");
}

}  // namespace
}  // namespace callboard::scheduler
