// Duplicates and related tasks: request ids, overlap, redrive, and the order of the checks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libs/testing/engine_fixture.h"
#include "libs/testing/status_matchers.h"

namespace callboard::director {
namespace {

using core::FailureReason;
using core::LifecycleState;
using core::OverlapPolicy;
using core::QueuePolicy;
using test::EngineFixture;
using test::HasReason;
using test::IsOk;
using test::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

core::Submission WithRequestId(const std::string& request_id, const std::string& prompt = "echo") {
  core::Submission submission = EngineFixture::Prompt(prompt);
  submission.spec.request_id = request_id;
  return submission;
}

core::Submission WithOverlap(OverlapPolicy policy, uint32_t n = 0) {
  core::Submission submission = EngineFixture::Prompt();
  submission.spec.terms.overlap = {.key = "k", .policy = policy, .n = n};
  return submission;
}

SubmitResult SubmitAgain(EngineFixture& director, const core::Submission& submission) {
  return std::get<SubmitResult>(director.Submit(submission));
}

// ---- Request ids ----

TEST(EngineRequestTest, SameIdAndContentReturnTheFirstTask) {
  EngineFixture director;
  const core::QueueId task = director.Add(WithRequestId("r"));
  const SubmitResult again = SubmitAgain(director, WithRequestId("r"));
  EXPECT_TRUE(again.deduplicated);
  EXPECT_EQ(again.queue_id, task);
  EXPECT_THAT(director.PendingTasks(), SizeIs(1));
}

TEST(EngineRequestTest, DefaultValueEqualsTheSameValueSent) {
  EngineFixture director({.queue = {.max_attempts = 3}});
  const core::Submission absent = WithRequestId("absent");
  core::Submission sent = WithRequestId("sent");
  sent.fingerprint.max_attempts = 3;
  director.Add(absent);
  director.Add(sent);
  const auto with = [](core::Submission submission, uint32_t max_attempts) {
    submission.fingerprint.max_attempts = max_attempts;
    return submission;
  };
  EXPECT_TRUE(SubmitAgain(director, with(absent, 3)).deduplicated);
  EXPECT_TRUE(SubmitAgain(director, with(sent, 0)).deduplicated);
  EXPECT_THAT(director.TrySubmit(with(absent, 4)), HasReason("REQUEST_ID_REUSED"));
  EXPECT_THAT(director.TrySubmit(with(sent, 4)), HasReason("REQUEST_ID_REUSED"));
}

TEST(EngineRequestTest, PolicyAndTicketAreNotPartOfTheContent) {
  EngineFixture director;
  director.Add(WithRequestId("r"));
  core::Submission other = WithRequestId("r");
  other.policy = QueuePolicy::kBlock;
  other.ticket = "ticket-none";
  EXPECT_TRUE(SubmitAgain(director, other).deduplicated);
}

TEST(EngineRequestTest, LookupOfARequestIdReturnsItsTask) {
  EngineFixture director({.queue = {.max_size = 1}});
  core::Submission question = WithRequestId("r", "what became of it?");
  question.validate_only = true;
  EXPECT_FALSE(SubmitAgain(director, question).deduplicated);
  const core::QueueId task = director.Add(WithRequestId("r"));
  const absl::Status known = director.TrySubmit(question);
  EXPECT_THAT(known, HasReason("REQUEST_ID_REUSED"));
  EXPECT_EQ(base::GetErrorDetails(known).metadata.at("queue_id"), ToString(task));
  question.spec.bytes = EngineFixture::Prompt("echo").spec.bytes;
  EXPECT_EQ(SubmitAgain(director, question).queue_id, task);
  // The lookup of an unknown id runs before a full or draining queue rejects the call.
  question.spec.request_id = "other";
  EXPECT_THAT(director.TrySubmit(question), HasReason("QUEUE_FULL"));
  director.Call(&DirectorEngine::Drain);
  EXPECT_THAT(director.TrySubmit(question), HasReason("QUEUE_DRAINING"));
  question.spec.request_id = "r";
  EXPECT_EQ(SubmitAgain(director, question).queue_id, task);
  EXPECT_THAT(director.PendingTasks(), SizeIs(1));
}

TEST(EngineRequestTest, SameIdWithOtherContentIsRejected) {
  EngineFixture director;
  const core::QueueId task = director.Add(WithRequestId("r", "one"));
  const absl::Status error = director.TrySubmit(WithRequestId("r", "two"));
  EXPECT_THAT(error,
              AllOf(StatusIs(absl::StatusCode::kAlreadyExists), HasReason("REQUEST_ID_REUSED")));
  EXPECT_EQ(base::GetErrorDetails(error).metadata.at("queue_id"), ToString(task));
}

TEST(EngineRequestTest, IdsBelongToTheirCaller) {
  EngineFixture director;
  director.Add(WithRequestId("r", "one"));
  EXPECT_THAT(director.TrySubmit(WithRequestId("r", "two"), "you"), IsOk());
  EXPECT_THAT(director.PendingTasks(), SizeIs(2));
}

TEST(EngineRequestTest, TasksWithoutAnIdAreNeverDuplicates) {
  EngineFixture director;
  director.Add();
  director.Add();
  EXPECT_THAT(director.PendingTasks(), SizeIs(2));
}

TEST(EngineRequestTest, IdFindsItsTaskInAFullQueueAndAfterEviction) {
  EngineFixture director({.queue = {.max_size = 1, .allow_evict = true}});
  const core::QueueId task = director.Add(WithRequestId("r"));
  EXPECT_EQ(SubmitAgain(director, WithRequestId("r")).queue_id, task);
  core::Submission evicting = EngineFixture::Prompt();
  evicting.policy = QueuePolicy::kDropOldest;
  director.Add(evicting);
  const SubmitResult again = SubmitAgain(director, WithRequestId("r"));
  EXPECT_TRUE(again.deduplicated);
  EXPECT_EQ(director.Reason(again.queue_id), FailureReason::kEvicted);
}

TEST(EngineRequestTest, IdIsRememberedUntilADayAfterItsTaskEnded) {
  EngineFixture director;
  const core::QueueId task = director.Add(WithRequestId("r", "one"));
  director.Advance(absl::Hours(30));
  director.Cancel(task);
  director.Advance(absl::Hours(24) - absl::Seconds(1));
  EXPECT_TRUE(SubmitAgain(director, WithRequestId("r", "one")).deduplicated);
  EXPECT_THAT(director.TrySubmit(WithRequestId("r", "two")), HasReason("REQUEST_ID_REUSED"));
  director.Advance(absl::Seconds(1));
  const SubmitResult later = SubmitAgain(director, WithRequestId("r", "two"));
  EXPECT_FALSE(later.deduplicated);
  EXPECT_EQ(SubmitAgain(director, WithRequestId("r", "two")).queue_id, later.queue_id)
      << "the id stands for the later task";
}

TEST(EngineRequestTest, IdOutlivesItsForgottenTask) {
  EngineFixture director({.retention = {.count = 0}});
  const core::QueueId task = director.Add(WithRequestId("r", "one"));
  director.Cancel(task);
  ASSERT_FALSE(director.engine().views().Summarize(task).ok());
  for (int restart = 0; restart < 2; ++restart) {
    const SubmitResult again = SubmitAgain(director, WithRequestId("r", "one"));
    EXPECT_TRUE(again.deduplicated);
    EXPECT_EQ(again.queue_id, task);
    EXPECT_EQ(again.state, LifecycleState::kCancelled);
    EXPECT_THAT(director.TrySubmit(WithRequestId("r", "two")), HasReason("REQUEST_ID_REUSED"));
    director.Restart();
  }
  director.Advance(absl::Hours(24));
  EXPECT_FALSE(SubmitAgain(director, WithRequestId("r", "two")).deduplicated);
}

absl::StatusOr<TaskSummary> Find(EngineFixture& director, const std::string& request_id,
                                 const std::string& identity = "me") {
  return director.engine().views().FindByRequestId(identity, request_id, director.now());
}

TEST(EngineRequestTest, RequestIdFindsItsTaskUntilTheIdIsForgotten) {
  EngineFixture director({.retention = {.count = 0}});
  const absl::StatusOr<TaskSummary> unknown = Find(director, "r");
  EXPECT_THAT(unknown, StatusIs(absl::StatusCode::kNotFound, HasSubstr("request_id r")));
  EXPECT_THAT(unknown, HasReason("TASK_NOT_FOUND"));
  director.Add();
  const core::QueueId task = director.Add(WithRequestId("r"));
  ASSERT_THAT(Find(director, "r"), IsOk());
  EXPECT_EQ(Find(director, "r")->queue_id, task);
  EXPECT_EQ(Find(director, "r")->position, 2u);
  EXPECT_THAT(Find(director, "r", "you"), HasReason("TASK_NOT_FOUND"));
  director.Call(&DirectorEngine::Drain);
  EXPECT_THAT(Find(director, "r"), IsOk());
  // The ended task is deleted at once; its id is remembered.
  director.Cancel(task);
  ASSERT_FALSE(director.engine().views().Summarize(task).ok());
  director.Advance(absl::Hours(24) - absl::Seconds(1));
  ASSERT_THAT(Find(director, "r"), IsOk());
  EXPECT_EQ(Find(director, "r")->queue_id, task);
  EXPECT_EQ(Find(director, "r")->state, LifecycleState::kCancelled);
  director.Advance(absl::Seconds(1));
  EXPECT_THAT(Find(director, "r"), HasReason("TASK_NOT_FOUND"));
}

TEST(EngineRequestTest, RequestIdOfAWaiterIsReportedAsWaiting) {
  EngineFixture director({.queue = {.max_size = 1}});
  const core::QueueId task = director.Add();
  const WaiterId waiter = director.AddWaiter(WithRequestId("r"));
  const absl::StatusOr<TaskSummary> waiting = Find(director, "r");
  EXPECT_THAT(waiting, AllOf(StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("r waits")),
                             HasReason("WAITING")));
  EXPECT_TRUE(base::GetErrorDetails(waiting.status()).retry_after.has_value());
  EXPECT_THAT(Find(director, "r", "you"), HasReason("TASK_NOT_FOUND"));
  director.Cancel(task);
  const core::QueueId admitted = std::get<SubmitResult>(*director.DecisionFor(waiter)).queue_id;
  ASSERT_THAT(Find(director, "r"), IsOk());
  EXPECT_EQ(Find(director, "r")->queue_id, admitted);
  // A waiter whose caller has left no longer counts.
  director.CancelWait(director.AddWaiter(WithRequestId("other")));
  EXPECT_THAT(Find(director, "other"), HasReason("TASK_NOT_FOUND"));
}

TEST(EngineRequestTest, SecondWaiterWithTheSameIdGetsTheFirstTask) {
  EngineFixture director({.queue = {.max_size = 1}});
  const core::QueueId task = director.Add();
  const WaiterId first = director.AddWaiter(WithRequestId("r"));
  const WaiterId second = director.AddWaiter(WithRequestId("r"));
  director.Cancel(task);
  ASSERT_NE(director.DecisionFor(first), nullptr);
  const core::QueueId admitted = std::get<SubmitResult>(*director.DecisionFor(first)).queue_id;
  director.Connect("a");
  ASSERT_NE(director.DecisionFor(second), nullptr);
  const auto again = std::get<SubmitResult>(*director.DecisionFor(second));
  EXPECT_TRUE(again.deduplicated);
  EXPECT_EQ(again.queue_id, admitted);
}

// ---- Overlap ----

TEST(EngineRequestTest, OverlapSkipRejectsWhileATaskWithTheKeyIsLive) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId task = director.Add(WithOverlap(OverlapPolicy::kSkip));
  for (const bool working : {false, true}) {
    if (working) director.AcceptStart(task);
    const absl::Status error = director.TrySubmit(WithOverlap(OverlapPolicy::kSkip));
    EXPECT_THAT(error,
                AllOf(StatusIs(absl::StatusCode::kFailedPrecondition), HasReason("OVERLAP")));
    EXPECT_EQ(base::GetErrorDetails(error).metadata.at("queue_id"), ToString(task));
  }
  director.FinishRun(task);
  EXPECT_THAT(director.TrySubmit(WithOverlap(OverlapPolicy::kSkip)), IsOk());
}

TEST(EngineRequestTest, ErrorsNeverRepeatMoreThan128BytesOfAnOverlapKey) {
  EngineFixture director;
  core::Submission submission = WithOverlap(OverlapPolicy::kSkip);
  submission.spec.terms.overlap->key = std::string(256, 'k');
  director.Add(submission);
  EXPECT_THAT(director.TrySubmit(submission),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("kkk"), Not(HasSubstr(std::string(129, 'k'))))));
}

TEST(EngineRequestTest, OverlapSkipCountsPendingTasksWithTheKey) {
  EngineFixture director;
  director.Add(WithOverlap(OverlapPolicy::kSkip));
  EXPECT_THAT(director.TrySubmit(WithOverlap(OverlapPolicy::kSkip)), HasReason("OVERLAP"));
  core::Submission other = WithOverlap(OverlapPolicy::kSkip);
  other.spec.terms.overlap->key = "another";
  EXPECT_THAT(director.TrySubmit(other), IsOk());
}

TEST(EngineRequestTest, OverlapSkipAllowsItsNumberOfTasks) {
  EngineFixture director;
  director.Add(WithOverlap(OverlapPolicy::kSkip, 2));
  director.Add(WithOverlap(OverlapPolicy::kSkip, 2));
  EXPECT_THAT(director.TrySubmit(WithOverlap(OverlapPolicy::kSkip, 2)), HasReason("OVERLAP"));
}

TEST(EngineRequestTest, OverlapAllowNeverRejects) {
  EngineFixture director;
  for (int i = 0; i < 3; ++i) director.Add(WithOverlap(OverlapPolicy::kAllow));
  EXPECT_THAT(director.PendingTasks(), SizeIs(3));
}

TEST(EngineRequestTest, QueueOneReplacesThePendingTask) {
  EngineFixture director;
  director.Connect("a");
  const core::QueueId running = director.Add(WithOverlap(OverlapPolicy::kQueueOne));
  const core::QueueId pending = director.Add(WithOverlap(OverlapPolicy::kQueueOne));
  EXPECT_EQ(director.State(pending), LifecycleState::kPending);
  const core::QueueId new_task = director.Add(WithOverlap(OverlapPolicy::kQueueOne));
  EXPECT_EQ(director.Reason(pending), FailureReason::kCoalesced);
  EXPECT_EQ(director.State(running), LifecycleState::kDispatching);
  EXPECT_THAT(director.PendingTasks(), ElementsAre(new_task));
}

TEST(EngineRequestTest, QueueOneStartsWhenFewEnoughTasksRun) {
  for (const uint32_t n : {1u, 2u}) {
    EngineFixture director;
    for (const char* agent : {"a", "b", "c"}) director.Connect(agent);
    std::vector<core::QueueId> running;
    for (uint32_t i = 0; i < n; ++i)
      running.push_back(director.Add(WithOverlap(OverlapPolicy::kQueueOne, n)));
    const core::QueueId waiting = director.Add(WithOverlap(OverlapPolicy::kQueueOne, n));
    const core::QueueId other = director.Add();
    EXPECT_EQ(director.State(waiting), LifecycleState::kPending)
        << "an idle agent does not change that";
    EXPECT_EQ(director.State(other), LifecycleState::kDispatching) << "other tasks are dispatched";
    EXPECT_FALSE(director.engine().views().IsReady(waiting));
    EXPECT_EQ(director.engine().views().Explain(waiting, director.now())->summary,
              absl::StrCat("waiting until fewer than ", n,
                           " tasks with the same overlap key are running"));
    director.Restart();
    EXPECT_EQ(director.State(waiting), LifecycleState::kPending);
    for (const core::QueueId& id : running) {
      director.Connect(EngineFixture::RunningAgent(director.AgentOf(id), {director.Token(id)}));
    }
    director.Connect(EngineFixture::RunningAgent(director.AgentOf(other), {director.Token(other)}));
    EXPECT_EQ(director.State(waiting), LifecycleState::kPending);
    director.FinishRun(running.front());
    director.ReportLoad(director.AgentOf(running.front()), 0);
    EXPECT_EQ(director.State(waiting), LifecycleState::kDispatching);
  }
}

TEST(EngineRequestTest, QueueOneStartsAsManyTasksAsMayRunTogether) {
  EngineFixture director;
  const core::QueueId first = director.Add(WithOverlap(OverlapPolicy::kQueueOne, 2));
  const core::QueueId second = director.Add(WithOverlap(OverlapPolicy::kQueueOne, 2));
  director.Connect("a");
  EXPECT_EQ(director.State(first), LifecycleState::kDispatching);
  director.Connect("b");
  EXPECT_EQ(director.State(second), LifecycleState::kDispatching);
  const core::QueueId third = director.Add(WithOverlap(OverlapPolicy::kQueueOne, 2));
  director.Connect("c");
  EXPECT_EQ(director.State(third), LifecycleState::kPending);
  // A task in backoff is not in flight.
  director.AnswerStart(first, absl::UnavailableError("later"));
  EXPECT_EQ(director.State(third), LifecycleState::kDispatching);
  director.Kick();
  EXPECT_EQ(director.State(first), LifecycleState::kPending) << "now this one waits";
  director.FinishRun(second);
  EXPECT_EQ(director.State(first), LifecycleState::kDispatching);
}

TEST(EngineRequestTest, WaitersWithTheSameRequestIdAreAnsweredTogether) {
  EngineFixture director({.queue = {.max_size = 1}});
  director.Connect("a");
  const core::QueueId running = director.Add();
  director.AcceptStart(running);
  const core::QueueId pending = director.Add();
  const WaiterId first = director.AddWaiter(WithRequestId("r"));
  const WaiterId between = director.AddWaiter();
  const WaiterId second = director.AddWaiter(WithRequestId("r"));
  const WaiterId other = director.AddWaiter(WithRequestId("r", "other content"));
  director.Cancel(pending);
  ASSERT_NE(director.DecisionFor(second), nullptr);
  const auto& admitted = std::get<SubmitResult>(*director.DecisionFor(first));
  const auto& same = std::get<SubmitResult>(*director.DecisionFor(second));
  EXPECT_FALSE(admitted.deduplicated);
  EXPECT_TRUE(same.deduplicated);
  EXPECT_EQ(same.queue_id, admitted.queue_id);
  EXPECT_THAT(EngineFixture::ErrorOf(*director.DecisionFor(other)), HasReason("REQUEST_ID_REUSED"));
  EXPECT_EQ(director.DecisionFor(between), nullptr);
}

TEST(EngineRequestTest, QueueOneUsesThePlaceOfTheReplacedTask) {
  EngineFixture director({.queue = {.max_size = 2}});
  const core::QueueId replaced = director.Add(WithOverlap(OverlapPolicy::kQueueOne));
  const core::QueueId other = director.Add();
  const core::QueueId new_task = director.Add(WithOverlap(OverlapPolicy::kQueueOne));
  EXPECT_EQ(director.Reason(replaced), FailureReason::kCoalesced);
  EXPECT_THAT(director.PendingTasks(), ElementsAre(other, new_task)) << "at the back";
}

TEST(EngineRequestTest, QueueOneUsesTheShareOfTheReplacedTask) {
  EngineFixture director({.queue = {.max_size = 1}});
  core::Submission scheduled = WithOverlap(OverlapPolicy::kQueueOne);
  scheduled.spec.terms.source = core::TaskSource::kScheduler;
  const core::QueueId replaced = director.Add(scheduled);
  director.Add(scheduled);
  EXPECT_EQ(director.Reason(replaced), FailureReason::kCoalesced);
}

TEST(EngineRequestTest, RejectedTaskReplacesNothing) {
  EngineFixture director({.queue = {.max_size = 1}});
  const core::QueueId task = director.Add(WithOverlap(OverlapPolicy::kQueueOne));
  core::Submission new_task = WithOverlap(OverlapPolicy::kQueueOne);
  new_task.ticket = "ticket-none";
  EXPECT_THAT(director.TrySubmit(new_task), HasReason("TICKET_EXPIRED"));
  EXPECT_THAT(director.PendingTasks(), ElementsAre(task));
}

TEST(EngineRequestTest, OverlapIsCheckedAgainWhenAWaiterIsAdmitted) {
  EngineFixture director({.queue = {.max_size = 1}});
  const core::QueueId task = director.Add();
  const WaiterId first = director.AddWaiter(WithOverlap(OverlapPolicy::kSkip));
  const WaiterId second = director.AddWaiter(WithOverlap(OverlapPolicy::kSkip));
  director.Cancel(task);
  director.Connect("a");
  ASSERT_NE(director.DecisionFor(first), nullptr);
  EXPECT_THAT(EngineFixture::ErrorOf(*director.DecisionFor(first)), IsOk());
  ASSERT_NE(director.DecisionFor(second), nullptr);
  EXPECT_THAT(EngineFixture::ErrorOf(*director.DecisionFor(second)), HasReason("OVERLAP"));
}

// ---- Redrive ----

TEST(EngineRequestTest, RedriveSubmitsANewTaskAndRecordsIt) {
  EngineFixture director;
  v1::SubmitTaskRequest submit = test::MakeSubmit("work");
  submit.mutable_overlap()->set_key("k");
  *submit.mutable_deadline_at() = wire::ToProto(director.now().wall + absl::Hours(1));
  *submit.mutable_earliest_start_at() = wire::ToProto(director.now().wall + absl::Minutes(1));
  const core::Submission submission = test::ToSubmission(submit);
  const core::QueueId old = director.Add(submission);
  director.Advance(absl::Hours(1));
  ASSERT_EQ(director.Reason(old), FailureReason::kExpired);
  const auto redriven = std::get<SubmitResult>(director.Redrive(old));
  EXPECT_FALSE(redriven.deduplicated);
  const core::Task task = director.Task(redriven.queue_id);
  EXPECT_NE(task.queue_id, old);
  EXPECT_EQ(task.redrive_of, old);
  const v1::TaskSpec spec = test::ParseSpec(task.spec);
  EXPECT_EQ(spec.prompt(), "work");
  EXPECT_EQ(spec.request_id(), "redrive/" + ToString(old));
  EXPECT_FALSE(spec.has_overlap());
  EXPECT_FALSE(spec.has_deadline_at());
  EXPECT_FALSE(spec.has_earliest_start_at());
  EXPECT_EQ(director.Task(old).redriven_as, task.queue_id);
  EXPECT_EQ(director.State(old), LifecycleState::kFailed);
  EXPECT_EQ(director.Events(old).back().kind, core::TaskEventKind::kRedriven);
  EXPECT_EQ(director.Events(old).back().why, "submitted again as " + ToString(task.queue_id));
  EXPECT_EQ(director.Events(old).back().who, "me");
  const size_t events = director.Events(old).size();
  director.Redrive(old);
  EXPECT_THAT(director.Events(old), SizeIs(events)) << "it happens once";
}

TEST(EngineRequestTest, RedriveHappensOnceAcrossARestart) {
  EngineFixture director;
  const core::QueueId old = director.Add();
  director.Cancel(old);
  const core::QueueId successor = std::get<SubmitResult>(director.Redrive(old)).queue_id;
  for (int restart = 0; restart < 2; ++restart) {
    const auto again = std::get<SubmitResult>(director.Redrive(old));
    EXPECT_TRUE(again.deduplicated);
    EXPECT_EQ(again.queue_id, successor);
    director.Restart();
    EXPECT_EQ(director.Task(old).redriven_as, successor);
  }
  EXPECT_THAT(director.PendingTasks(), SizeIs(1));
}

TEST(EngineRequestTest, RedriveGoesThroughAdmission) {
  EngineFixture director({.queue = {.max_size = 1}});
  const core::QueueId old = director.Add();
  director.Cancel(old);
  director.Add();
  EXPECT_THAT(EngineFixture::ErrorOf(director.Redrive(old)), HasReason("QUEUE_FULL"));
  EXPECT_FALSE(director.Task(old).redriven_as.has_value());
  director.Call(&DirectorEngine::Drain);
  EXPECT_THAT(EngineFixture::ErrorOf(director.Redrive(old)), HasReason("QUEUE_DRAINING"));
}

TEST(EngineRequestTest, LiveAndCompletedTasksCannotBeRedriven) {
  EngineFixture director;
  const core::QueueId task = director.Add();
  EXPECT_THAT(EngineFixture::ErrorOf(director.Redrive(task)),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  director.Connect("a");
  director.FinishRun(task);
  EXPECT_THAT(EngineFixture::ErrorOf(director.Redrive(task)), HasReason("NOT_REDRIVABLE"));
  EXPECT_THAT(EngineFixture::ErrorOf(director.Redrive(core::QueueId())),
              HasReason("TASK_NOT_FOUND"));
}

// ---- The order of the checks ----

TEST(EngineRequestTest, ChecksRunInOrder) {
  EngineFixture director({.queue = {.max_size = 1}});
  core::Submission known = WithRequestId("r");
  known.spec.terms.overlap = {.key = "k", .policy = OverlapPolicy::kSkip};
  known.spec.terms.source = core::TaskSource::kScheduler;
  director.Add(known);
  director.Call(&DirectorEngine::Drain);

  EXPECT_THAT(director.TrySubmit(known), IsOk()) << "a known id before the drain";
  core::Submission submission = known;
  submission.spec.bytes = test::SpecBytesOf("other");
  EXPECT_THAT(director.TrySubmit(submission), HasReason("REQUEST_ID_REUSED"));
  submission.spec.request_id = "";
  EXPECT_THAT(director.TrySubmit(submission), HasReason("QUEUE_DRAINING"));
  director.Call(&DirectorEngine::Resume);
  EXPECT_THAT(director.TrySubmit(submission), HasReason("OVERLAP"));
  submission.spec.terms.overlap.reset();
  EXPECT_THAT(director.TrySubmit(submission),
              StatusIs(absl::StatusCode::kResourceExhausted, ::testing::HasSubstr("share")));
  submission.spec.terms.source = core::TaskSource::kApi;
  EXPECT_THAT(director.TrySubmit(submission),
              StatusIs(absl::StatusCode::kResourceExhausted, ::testing::HasSubstr("capacity")));
}

}  // namespace
}  // namespace callboard::director
