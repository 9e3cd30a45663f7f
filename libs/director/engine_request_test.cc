// Tasks and their likes: request ids, overlap, redrive, and the order of the checks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libs/testing/engine_fixture.h"
#include "libs/testing/status_matchers.h"

namespace callboard::director {
namespace {

using core::FailureReason;
using core::OverlapPolicy;
using core::QueuePolicy;
using core::TaskState;
using test::EngineFixture;
using test::HasReason;
using test::IsOk;
using test::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

core::Submission Named(const std::string& request_id, const std::string& prompt = "echo") {
  core::Submission submission = EngineFixture::Prompt(prompt);
  submission.spec.request_id = request_id;
  return submission;
}

core::Submission OfKey(OverlapPolicy policy, uint32_t n = 0) {
  core::Submission submission = EngineFixture::Prompt();
  submission.spec.overlap = {.key = "k", .policy = policy, .n = n};
  return submission;
}

Submitted Again(EngineFixture& director, const core::Submission& submission) {
  return std::get<Submitted>(director.Submit(submission));
}

// ---- Request ids ----

TEST(EngineRequestTest, SameIdAndContentReturnTheFirstTask) {
  EngineFixture director;
  const core::QueueId task = director.Add(Named("r"));
  const Submitted again = Again(director, Named("r"));
  EXPECT_TRUE(again.deduplicated);
  EXPECT_EQ(again.queue_id, task);
  EXPECT_THAT(director.Line(), SizeIs(1));
}

TEST(EngineRequestTest, ValueThatASettingSuppliesIsTheSameAsThatValueSent) {
  EngineFixture director({.queue = {.max_attempts = 3}});
  const core::Submission absent = Named("absent");
  core::Submission sent = Named("sent");
  sent.spec.max_attempts = 3;
  director.Add(absent);
  director.Add(sent);
  const auto with = [](core::Submission submission, uint32_t max_attempts) {
    submission.spec.max_attempts = max_attempts;
    return submission;
  };
  EXPECT_TRUE(Again(director, with(absent, 3)).deduplicated);
  EXPECT_TRUE(Again(director, with(sent, 0)).deduplicated);
  EXPECT_THAT(director.Try(with(absent, 4)), HasReason("REQUEST_ID_REUSED"));
  EXPECT_THAT(director.Try(with(sent, 4)), HasReason("REQUEST_ID_REUSED"));
}

TEST(EngineRequestTest, PolicyAndTicketAreNoContent) {
  EngineFixture director;
  director.Add(Named("r"));
  core::Submission other = Named("r");
  other.policy = QueuePolicy::kBlock;
  other.ticket = "ticket-none";
  EXPECT_TRUE(Again(director, other).deduplicated);
}

TEST(EngineRequestTest, QuestionAboutAnIdNamesItsTaskWhateverTheContentAndMakesNone) {
  EngineFixture director({.queue = {.max_size = 1}});
  core::Submission question = Named("r", "what became of it?");
  question.validate_only = true;
  EXPECT_FALSE(Again(director, question).deduplicated);
  const core::QueueId task = director.Add(Named("r"));
  const absl::Status known = director.Try(question);
  EXPECT_THAT(known, HasReason("REQUEST_ID_REUSED"));
  EXPECT_EQ(base::DetailsOf(known).metadata.at("queue_id"), ToString(task));
  question.spec.prompt = "echo";
  EXPECT_EQ(Again(director, question).queue_id, task);
  // An id that is not known is looked for before a full or a draining queue refuses.
  question.spec.request_id = "other";
  EXPECT_THAT(director.Try(question), HasReason("QUEUE_FULL"));
  director.Tell(&DirectorEngine::Drain);
  EXPECT_THAT(director.Try(question), HasReason("QUEUE_DRAINING"));
  question.spec.request_id = "r";
  EXPECT_EQ(Again(director, question).queue_id, task);
  EXPECT_THAT(director.Line(), SizeIs(1));
}

TEST(EngineRequestTest, SameIdWithOtherContentIsRefused) {
  EngineFixture director;
  const core::QueueId task = director.Add(Named("r", "one"));
  const absl::Status refused = director.Try(Named("r", "two"));
  EXPECT_THAT(refused,
              AllOf(StatusIs(absl::StatusCode::kAlreadyExists), HasReason("REQUEST_ID_REUSED")));
  EXPECT_EQ(base::DetailsOf(refused).metadata.at("queue_id"), ToString(task));
}

TEST(EngineRequestTest, IdsBelongToTheirCaller) {
  EngineFixture director;
  director.Add(Named("r", "one"));
  EXPECT_THAT(director.Try(Named("r", "two"), "you"), IsOk());
  EXPECT_THAT(director.Line(), SizeIs(2));
}

TEST(EngineRequestTest, TasksWithoutAnIdAreNeverTheSame) {
  EngineFixture director;
  director.Add();
  director.Add();
  EXPECT_THAT(director.Line(), SizeIs(2));
}

TEST(EngineRequestTest, IdFindsItsTaskWhenTheQueueIsFullAndWhenItWasEvicted) {
  EngineFixture director({.queue = {.max_size = 1, .allow_evict = true}});
  const core::QueueId task = director.Add(Named("r"));
  EXPECT_EQ(Again(director, Named("r")).queue_id, task);
  core::Submission evicting = EngineFixture::Prompt();
  evicting.policy = QueuePolicy::kDropOldest;
  director.Add(evicting);
  const Submitted again = Again(director, Named("r"));
  EXPECT_TRUE(again.deduplicated);
  EXPECT_EQ(director.Reason(again.queue_id), FailureReason::kEvicted);
}

TEST(EngineRequestTest, IdIsRememberedUntilADayAfterItsTaskEnded) {
  EngineFixture director;
  const core::QueueId task = director.Add(Named("r", "one"));
  director.Advance(absl::Hours(30));
  director.Cancel(task);
  director.Advance(absl::Hours(24) - absl::Seconds(1));
  EXPECT_TRUE(Again(director, Named("r", "one")).deduplicated);
  EXPECT_THAT(director.Try(Named("r", "two")), HasReason("REQUEST_ID_REUSED"));
  director.Advance(absl::Seconds(1));
  const Submitted later = Again(director, Named("r", "two"));
  EXPECT_FALSE(later.deduplicated);
  EXPECT_EQ(Again(director, Named("r", "two")).queue_id, later.queue_id)
      << "it stands for the later task";
}

TEST(EngineRequestTest, IdOutlivesItsForgottenTask) {
  EngineFixture director({.retention = {.count = 0}});
  const core::QueueId task = director.Add(Named("r", "one"));
  director.Cancel(task);
  ASSERT_FALSE(director.engine().Look(task).ok());
  for (int restart = 0; restart < 2; ++restart) {
    const Submitted again = Again(director, Named("r", "one"));
    EXPECT_TRUE(again.deduplicated);
    EXPECT_EQ(again.queue_id, task);
    EXPECT_EQ(again.state, TaskState::kCancelled);
    EXPECT_THAT(director.Try(Named("r", "two")), HasReason("REQUEST_ID_REUSED"));
    director.Restart();
  }
  director.Advance(absl::Hours(24));
  EXPECT_FALSE(Again(director, Named("r", "two")).deduplicated);
}

TEST(EngineRequestTest, OfTwoWaitersWithOneIdTheSecondGetsTheFirstsTask) {
  EngineFixture director({.queue = {.max_size = 1}});
  const core::QueueId task = director.Add();
  const WaiterId first = director.AddWaiter(Named("r"));
  const WaiterId second = director.AddWaiter(Named("r"));
  director.Cancel(task);
  ASSERT_NE(director.AnswerTo(first), nullptr);
  const core::QueueId admitted = std::get<Submitted>(*director.AnswerTo(first)).queue_id;
  director.Connect("a");
  ASSERT_NE(director.AnswerTo(second), nullptr);
  const auto again = std::get<Submitted>(*director.AnswerTo(second));
  EXPECT_TRUE(again.deduplicated);
  EXPECT_EQ(again.queue_id, admitted);
}

// ---- Overlap ----

TEST(EngineRequestTest, SkipRefusesWhileATaskOfTheKeyLives) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add(OfKey(OverlapPolicy::kSkip));
  for (const bool working : {false, true}) {
    if (working) director.Accept(task);
    const absl::Status refused = director.Try(OfKey(OverlapPolicy::kSkip));
    EXPECT_THAT(refused,
                AllOf(StatusIs(absl::StatusCode::kFailedPrecondition), HasReason("OVERLAP")));
    EXPECT_EQ(base::DetailsOf(refused).metadata.at("queue_id"), ToString(task));
  }
  director.Finish(task);
  EXPECT_THAT(director.Try(OfKey(OverlapPolicy::kSkip)), IsOk());
}

TEST(EngineRequestTest, ErrorsNeverRepeatMoreThan128BytesOfAnOverlapKey) {
  EngineFixture director;
  core::Submission submission = OfKey(OverlapPolicy::kSkip);
  submission.spec.overlap->key = std::string(256, 'k');
  director.Add(submission);
  EXPECT_THAT(director.Try(submission),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("kkk"), Not(HasSubstr(std::string(129, 'k'))))));
}

TEST(EngineRequestTest, SkipCountsPendingTasksAndOnlyThoseOfTheKey) {
  EngineFixture director;
  director.Add(OfKey(OverlapPolicy::kSkip));
  EXPECT_THAT(director.Try(OfKey(OverlapPolicy::kSkip)), HasReason("OVERLAP"));
  core::Submission other = OfKey(OverlapPolicy::kSkip);
  other.spec.overlap->key = "another";
  EXPECT_THAT(director.Try(other), IsOk());
}

TEST(EngineRequestTest, SkipAllowsAsManyAsItSays) {
  EngineFixture director;
  director.Add(OfKey(OverlapPolicy::kSkip, 2));
  director.Add(OfKey(OverlapPolicy::kSkip, 2));
  EXPECT_THAT(director.Try(OfKey(OverlapPolicy::kSkip, 2)), HasReason("OVERLAP"));
}

TEST(EngineRequestTest, AllowNeverRefuses) {
  EngineFixture director;
  for (int i = 0; i < 3; ++i) director.Add(OfKey(OverlapPolicy::kAllow));
  EXPECT_THAT(director.Line(), SizeIs(3));
}

TEST(EngineRequestTest, QueueOneReplacesThePendingTaskAndLetsTheRunningOneRun) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId running = director.Add(OfKey(OverlapPolicy::kQueueOne));
  const core::QueueId pending = director.Add(OfKey(OverlapPolicy::kQueueOne));
  EXPECT_EQ(director.State(pending), TaskState::kPending);
  const core::QueueId newcomer = director.Add(OfKey(OverlapPolicy::kQueueOne));
  EXPECT_EQ(director.Reason(pending), FailureReason::kCoalesced);
  EXPECT_EQ(director.State(running), TaskState::kDispatching);
  EXPECT_THAT(director.Line(), ElementsAre(newcomer));
}

TEST(EngineRequestTest, QueueOneStartsWhenFewerThanItsNumberRun) {
  for (const uint32_t n : {1u, 2u}) {
    EngineFixture director;
    for (const char* agent : {"a", "b", "c"}) director.Connect(agent);
    std::vector<core::QueueId> running;
    for (uint32_t i = 0; i < n; ++i)
      running.push_back(director.Add(OfKey(OverlapPolicy::kQueueOne, n)));
    const core::QueueId waiting = director.Add(OfKey(OverlapPolicy::kQueueOne, n));
    const core::QueueId other = director.Add();
    EXPECT_EQ(director.State(waiting), TaskState::kPending) << "an idle agent is no reason";
    EXPECT_EQ(director.State(other), TaskState::kDispatching) << "others pass it";
    EXPECT_FALSE(director.engine().IsReady(waiting));
    EXPECT_EQ(director.engine().Explain(waiting, director.now())->summary,
              absl::StrCat("it waits until fewer than ", n, " tasks of its overlap key run"));
    director.Restart();
    EXPECT_EQ(director.State(waiting), TaskState::kPending);
    for (const core::QueueId& id : running) {
      director.Connect(EngineFixture::Running(director.AgentOf(id), {director.Token(id)}));
    }
    director.Connect(EngineFixture::Running(director.AgentOf(other), {director.Token(other)}));
    EXPECT_EQ(director.State(waiting), TaskState::kPending);
    director.Finish(running.front());
    director.Report(director.AgentOf(running.front()), 0);
    EXPECT_EQ(director.State(waiting), TaskState::kDispatching);
  }
}

TEST(EngineRequestTest, OfSeveralPendingTasksOfAKeyAsManyStartAsMayRunTogether) {
  EngineFixture director;
  const core::QueueId first = director.Add(OfKey(OverlapPolicy::kQueueOne, 2));
  const core::QueueId second = director.Add(OfKey(OverlapPolicy::kQueueOne, 2));
  director.Connect("a");
  EXPECT_EQ(director.State(first), TaskState::kDispatching);
  director.Connect("b");
  EXPECT_EQ(director.State(second), TaskState::kDispatching);
  const core::QueueId third = director.Add(OfKey(OverlapPolicy::kQueueOne, 2));
  director.Connect("c");
  EXPECT_EQ(director.State(third), TaskState::kPending);
  // One that returns is not in flight.
  director.Answer(first, absl::UnavailableError("later"));
  EXPECT_EQ(director.State(third), TaskState::kDispatching);
  director.Kick();
  EXPECT_EQ(director.State(first), TaskState::kPending) << "now it is the one that waits";
  director.Finish(second);
  EXPECT_EQ(director.State(first), TaskState::kDispatching);
}

TEST(EngineRequestTest, CallersWhoWaitWithOneRequestIdAreAllAnsweredWhenTheFirstIsAdmitted) {
  EngineFixture director({.queue = {.max_size = 1}});
  director.Connect("a");
  const core::QueueId running = director.Add();
  director.Accept(running);
  const core::QueueId pending = director.Add();
  const WaiterId first = director.AddWaiter(Named("r"));
  const WaiterId between = director.AddWaiter();
  const WaiterId second = director.AddWaiter(Named("r"));
  const WaiterId other = director.AddWaiter(Named("r", "other content"));
  director.Cancel(pending);
  ASSERT_NE(director.AnswerTo(second), nullptr);
  const auto& admitted = std::get<Submitted>(*director.AnswerTo(first));
  const auto& same = std::get<Submitted>(*director.AnswerTo(second));
  EXPECT_FALSE(admitted.deduplicated);
  EXPECT_TRUE(same.deduplicated);
  EXPECT_EQ(same.queue_id, admitted.queue_id);
  EXPECT_THAT(EngineFixture::ErrorOf(*director.AnswerTo(other)), HasReason("REQUEST_ID_REUSED"));
  EXPECT_EQ(director.AnswerTo(between), nullptr);
}

TEST(EngineRequestTest, QueueOneTakesThePlaceOfTheTaskItReplacesInAFullQueue) {
  EngineFixture director({.queue = {.max_size = 2}});
  const core::QueueId replaced = director.Add(OfKey(OverlapPolicy::kQueueOne));
  const core::QueueId other = director.Add();
  const core::QueueId newcomer = director.Add(OfKey(OverlapPolicy::kQueueOne));
  EXPECT_EQ(director.Reason(replaced), FailureReason::kCoalesced);
  EXPECT_THAT(director.Line(), ElementsAre(other, newcomer)) << "at the back";
}

TEST(EngineRequestTest, QueueOneTakesTheShareOfTheTaskItReplaces) {
  EngineFixture director({.queue = {.max_size = 1}});
  core::Submission scheduled = OfKey(OverlapPolicy::kQueueOne);
  scheduled.spec.source = core::TaskSource::kScheduler;
  const core::QueueId replaced = director.Add(scheduled);
  director.Add(scheduled);
  EXPECT_EQ(director.Reason(replaced), FailureReason::kCoalesced);
}

TEST(EngineRequestTest, RefusedNewcomerReplacesNothing) {
  EngineFixture director({.queue = {.max_size = 1}});
  const core::QueueId task = director.Add(OfKey(OverlapPolicy::kQueueOne));
  core::Submission newcomer = OfKey(OverlapPolicy::kQueueOne);
  newcomer.ticket = "ticket-none";
  EXPECT_THAT(director.Try(newcomer), HasReason("TICKET_EXPIRED"));
  EXPECT_THAT(director.Line(), ElementsAre(task));
}

TEST(EngineRequestTest, OverlapIsCheckedAgainWhenAWaiterIsAdmitted) {
  EngineFixture director({.queue = {.max_size = 1}});
  const core::QueueId task = director.Add();
  const WaiterId first = director.AddWaiter(OfKey(OverlapPolicy::kSkip));
  const WaiterId second = director.AddWaiter(OfKey(OverlapPolicy::kSkip));
  director.Cancel(task);
  director.Connect("a");
  ASSERT_NE(director.AnswerTo(first), nullptr);
  EXPECT_THAT(EngineFixture::ErrorOf(*director.AnswerTo(first)), IsOk());
  ASSERT_NE(director.AnswerTo(second), nullptr);
  EXPECT_THAT(EngineFixture::ErrorOf(*director.AnswerTo(second)), HasReason("OVERLAP"));
}

// ---- Redrive ----

TEST(EngineRequestTest, RedriveMakesANewTaskAndNotesIt) {
  EngineFixture director;
  core::Submission submission = OfKey(OverlapPolicy::kSkip);
  submission.spec.prompt = "work";
  submission.spec.deadline_at = director.now().wall + absl::Hours(1);
  submission.spec.earliest_start_at = director.now().wall + absl::Minutes(1);
  const core::QueueId old = director.Add(submission);
  director.Advance(absl::Hours(1));
  ASSERT_EQ(director.Reason(old), FailureReason::kExpired);
  const auto redriven = std::get<Submitted>(director.Redrive(old));
  EXPECT_FALSE(redriven.deduplicated);
  const core::Task task = director.Task(redriven.queue_id);
  EXPECT_NE(task.queue_id, old);
  EXPECT_EQ(task.redrive_of, old);
  EXPECT_EQ(task.spec.prompt, "work");
  EXPECT_EQ(task.spec.request_id, "redrive/" + ToString(old));
  EXPECT_FALSE(task.spec.overlap.has_value());
  EXPECT_FALSE(task.spec.deadline_at.has_value());
  EXPECT_FALSE(task.spec.earliest_start_at.has_value());
  EXPECT_EQ(director.Task(old).redriven_as, task.queue_id);
  EXPECT_EQ(director.State(old), TaskState::kFailed);
  EXPECT_EQ(director.Events(old).back().kind, core::TaskEventKind::kRedriven);
  EXPECT_EQ(director.Events(old).back().why, "submitted again as " + ToString(task.queue_id));
  EXPECT_EQ(director.Events(old).back().who, "me");
  const size_t events = director.Events(old).size();
  director.Redrive(old);
  EXPECT_THAT(director.Events(old), SizeIs(events)) << "it happens once";
}

TEST(EngineRequestTest, RedriveHappensOnceAlsoAcrossARestart) {
  EngineFixture director;
  const core::QueueId old = director.Add();
  director.Cancel(old);
  const core::QueueId successor = std::get<Submitted>(director.Redrive(old)).queue_id;
  for (int restart = 0; restart < 2; ++restart) {
    const auto again = std::get<Submitted>(director.Redrive(old));
    EXPECT_TRUE(again.deduplicated);
    EXPECT_EQ(again.queue_id, successor);
    director.Restart();
    EXPECT_EQ(director.Task(old).redriven_as, successor);
  }
  EXPECT_THAT(director.Line(), SizeIs(1));
}

TEST(EngineRequestTest, RedriveGoesThroughAdmission) {
  EngineFixture director({.queue = {.max_size = 1}});
  const core::QueueId old = director.Add();
  director.Cancel(old);
  director.Add();
  EXPECT_THAT(EngineFixture::ErrorOf(director.Redrive(old)), HasReason("QUEUE_FULL"));
  EXPECT_FALSE(director.Task(old).redriven_as.has_value());
  director.Tell(&DirectorEngine::Drain);
  EXPECT_THAT(EngineFixture::ErrorOf(director.Redrive(old)), HasReason("QUEUE_DRAINING"));
}

TEST(EngineRequestTest, LiveAndCompletedTasksAreNotRedriven) {
  EngineFixture director;
  const core::QueueId task = director.Add();
  EXPECT_THAT(EngineFixture::ErrorOf(director.Redrive(task)),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  director.Connect("a");
  director.Finish(task);
  EXPECT_THAT(EngineFixture::ErrorOf(director.Redrive(task)), HasReason("NOT_REDRIVABLE"));
  EXPECT_THAT(EngineFixture::ErrorOf(director.Redrive(core::QueueId())),
              HasReason("TASK_NOT_FOUND"));
}

// ---- The order of the checks ----

TEST(EngineRequestTest, ChecksComeInTheirOrder) {
  EngineFixture director({.queue = {.max_size = 1}});
  core::Submission known = Named("r");
  known.spec.overlap = {.key = "k", .policy = OverlapPolicy::kSkip};
  known.spec.source = core::TaskSource::kScheduler;
  director.Add(known);
  director.Tell(&DirectorEngine::Drain);

  EXPECT_THAT(director.Try(known), IsOk()) << "a known id before the drain";
  core::Submission submission = known;
  submission.spec.cost_units = 1;
  EXPECT_THAT(director.Try(submission), StatusIs(absl::StatusCode::kUnimplemented));
  submission = known;
  submission.spec.prompt = "other";
  EXPECT_THAT(director.Try(submission), HasReason("REQUEST_ID_REUSED"));
  submission.spec.request_id = "";
  EXPECT_THAT(director.Try(submission), HasReason("QUEUE_DRAINING"));
  director.Tell(&DirectorEngine::Resume);
  EXPECT_THAT(director.Try(submission), HasReason("OVERLAP"));
  submission.spec.overlap.reset();
  EXPECT_THAT(director.Try(submission),
              StatusIs(absl::StatusCode::kResourceExhausted, ::testing::HasSubstr("share")));
  submission.spec.source = core::TaskSource::kApi;
  EXPECT_THAT(director.Try(submission),
              StatusIs(absl::StatusCode::kResourceExhausted, ::testing::HasSubstr("capacity")));
}

}  // namespace
}  // namespace callboard::director
