#include "services/director/task_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "libs/base/error.h"
#include "libs/core/trace.h"
#include "libs/testing/files.h"
#include "libs/testing/submissions.h"

namespace callboard {
namespace {

using core::FailureReason;
using core::LifecycleState;
using director::TaskStep;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Optional;

constexpr core::QueueId kId = core::QueueId(core::Ulid(0, 1));
constexpr char kName[] = "queue_id=queue-00000000000000000000000001";
constexpr char kRun[] =
    "queue_id=queue-00000000000000000000000001 task_id=task-00000000000000000000000001-2 agent=a";

const absl::Time kNow = absl::FromUnixSeconds(1'700'000'000);

// A task that was submitted five seconds ago and has been pending for two.
const TaskStep kPending = {.from = LifecycleState::kPending,
                           .since = kNow - absl::Seconds(2),
                           .submitted_at = kNow - absl::Seconds(5),
                           .attempts = 0,
                           .max_attempts = 3,
                           .trace = core::SubmitSpan(kId)};

TaskStep StepFrom(LifecycleState state) {
  TaskStep step = kPending;
  step.from = state;
  return step;
}

core::TaskRecord Record(core::TaskChange change) {
  core::TaskRecord record = {.queue_id = kId, .change = std::move(change)};
  record.event.at = kNow;
  if (!std::holds_alternative<core::TaskAdmitted>(record.change)) {
    record.event.dispatch = core::DispatchNumber(2);
    record.event.agent = "a";
  }
  return record;
}

core::TaskEnded Failed(FailureReason reason) {
  return {.state = LifecycleState::kFailed, .reason = reason, .counts_as_attempt = true};
}

// Returns the log lines of a step, without the time at the beginning and the trace at the end.
std::vector<std::string> LogOf(const core::TaskRecord& record, const TaskStep& step) {
  std::vector<std::string> log;
  for (const QueueLogLine& line : LogLinesOf(record, step)) {
    const std::string text =
        base::FormatLogLine(base::LogFormat::kLogfmt, kNow, line.level, "queue", Name(line.event),
                            FieldsOf(line.event, record, step));
    const std::string trace = absl::StrCat(" trace_id=", core::ToString(step.trace.trace_id));
    EXPECT_TRUE(absl::EndsWith(text, trace)) << text;
    const size_t first = text.find(' ') + 1;
    log.push_back(text.substr(first, text.size() - trace.size() - first));
  }
  return log;
}

TEST(QueueEventsTest, AdmissionIsLoggedWithoutTheTasksContent) {
  v1::SubmitTaskRequest submit = test::MakeSubmit("secret prompt");
  (*submit.mutable_env())["TOKEN"] = "secret";
  submit.set_payload("secret payload");
  submit.set_source("scheduler");
  core::TaskRecord record = Record(core::TaskAdmitted{.spec = test::ToSpec(submit)});
  record.event.place_after = 5;
  EXPECT_THAT(LogOf(record, kPending), ElementsAre(absl::StrCat("INFO queue=task_added ", kName,
                                                                " depth=5 source=scheduler")));
  EXPECT_THAT(TimesOf(record, kPending).waiting, Optional(absl::Seconds(5)));
}

TEST(QueueEventsTest, DispatchIsLoggedWithItsAgentAndAttempt) {
  const auto record = Record(core::TaskDispatched{.dispatch = core::DispatchNumber(2)});
  EXPECT_THAT(LogOf(record, kPending),
              ElementsAre(absl::StrCat("INFO queue=dispatch ", kRun, " dispatch=2 attempt=1/3")));
}

TEST(QueueEventsTest, OnlyTheFirstWaitIncludesTheTimeBeforeAdmission) {
  const auto first =
      TimesOf(Record(core::TaskDispatched{.dispatch = core::DispatchNumber(1)}), kPending);
  EXPECT_THAT(first.pending, Optional(absl::Seconds(2)));
  EXPECT_THAT(first.wait, Optional(absl::Seconds(5)));
  const auto later =
      TimesOf(Record(core::TaskDispatched{.dispatch = core::DispatchNumber(2)}), kPending);
  EXPECT_THAT(later.pending, Optional(absl::Seconds(2)));
  EXPECT_THAT(later.wait, Optional(absl::Seconds(2)));
}

TEST(QueueEventsTest, AcceptedDispatchIsLoggedAsSuccess) {
  const auto record = Record(core::StartAccepted());
  const TaskStep step = StepFrom(LifecycleState::kDispatching);
  EXPECT_THAT(LogOf(record, step), ElementsAre(absl::StrCat("INFO queue=dispatch_success ", kRun)));
  EXPECT_THAT(OutcomeOf(record, step), Optional(DispatchOutcome::kAccepted));
  EXPECT_THAT(TimesOf(record, step).dispatch, Optional(absl::Seconds(2)));
  EXPECT_EQ(TimesOf(record, step).run, std::nullopt);
}

TEST(QueueEventsTest, BusyDispatchDoesNotCountAsAnAttempt) {
  const auto record = Record(core::StartAnsweredBusy{.busy_rejections = 4});
  const TaskStep step = StepFrom(LifecycleState::kDispatching);
  EXPECT_THAT(LogOf(record, step),
              ElementsAre(absl::StrCat("WARN queue=dispatch_failed ", kRun,
                                       " error=\"agent busy\" attempt=1/3 busy=4")));
  EXPECT_THAT(OutcomeOf(record, step), Optional(DispatchOutcome::kBusy));
}

TEST(QueueEventsTest, RetriedDispatchIsNotFinal) {
  const auto record =
      Record(core::TaskReturned{.counts_as_attempt = true, .error = "UNAVAILABLE: down"});
  const TaskStep step = StepFrom(LifecycleState::kDispatching);
  EXPECT_THAT(LogOf(record, step),
              ElementsAre(absl::StrCat("WARN queue=dispatch_failed ", kRun,
                                       " error=\"UNAVAILABLE: down\" attempt=1/3")));
  EXPECT_THAT(OutcomeOf(record, step), Optional(DispatchOutcome::kFailed));
}

TEST(QueueEventsTest, LastFailedDispatchEndsTheTask) {
  TaskStep step = StepFrom(LifecycleState::kDispatching);
  step.attempts = 2;
  const auto record = Record(Failed(FailureReason::kMaxAttempts));
  EXPECT_THAT(
      LogOf(record, step),
      ElementsAre(
          absl::StrCat("WARN queue=dispatch_failed ", kRun, " attempt=3/3 final=true"),
          absl::StrCat("WARN queue=task_ended ", kRun, " state=failed reason=max_attempts")));
  EXPECT_THAT(OutcomeOf(record, step), Optional(DispatchOutcome::kFailed));
  EXPECT_THAT(OutcomeOf(Record(Failed(FailureReason::kAgentRejected)), step),
              Optional(DispatchOutcome::kRejected));
}

TEST(QueueEventsTest, ResultWithoutAnAnswerMeansAccepted) {
  const TaskStep step = StepFrom(LifecycleState::kDispatching);
  const auto record = Record(core::TaskEnded{.run = core::RunResult{.exit_code = 0}});
  EXPECT_THAT(LogOf(record, step), ElementsAre(absl::StrCat("INFO queue=dispatch_success ", kRun),
                                               absl::StrCat("INFO queue=task_ended ", kRun,
                                                            " state=completed exit_code=0")));
  EXPECT_EQ(TimesOf(record, step).run, std::nullopt) << "the start of the run is unknown";
  EXPECT_THAT(LogOf(Record(core::TaskReturned{.counts_as_attempt = true, .reported = true}), step),
              ElementsAre(absl::StrCat("INFO queue=dispatch_success ", kRun),
                          absl::StrCat("WARN queue=run_failed ", kRun, " attempt=1/3")));
}

TEST(QueueEventsTest, EndOfARunIsLoggedWithItsReasonAndDuration) {
  const TaskStep step = StepFrom(LifecycleState::kWorking);
  core::TaskEnded failed = Failed(FailureReason::kExecFailed);
  failed.error = "exited with 7";
  failed.run = core::RunResult{.end = core::RunResult::End::kFailed,
                               .exit_code = 7,
                               .signal = "SIGKILL",
                               .result = "secret"};
  EXPECT_THAT(LogOf(Record(failed), step),
              ElementsAre(absl::StrCat("WARN queue=task_ended ", kRun,
                                       " state=failed reason=exec_failed exit_code=7 "
                                       "signal=SIGKILL run_seconds=2 "
                                       "error=\"exited with 7\"")));
  EXPECT_EQ(OutcomeOf(Record(failed), step), std::nullopt) << "the dispatch was answered before";
  EXPECT_THAT(TimesOf(Record(failed), step).run, Optional(absl::Seconds(2)));
  const auto retried =
      Record(core::TaskReturned{.counts_as_attempt = true, .error = "exited with 7"});
  EXPECT_THAT(LogOf(retried, step),
              ElementsAre(absl::StrCat("WARN queue=run_failed ", kRun,
                                       " attempt=1/3 error=\"exited with 7\"")));
  EXPECT_THAT(TimesOf(retried, step).run, Optional(absl::Seconds(2)));
}

TEST(QueueEventsTest, CancelRequestIsNotAnEndButCancelledIs) {
  core::TaskRecord asked = Record(core::CancelRequested());
  asked.event.who = "me";
  for (const LifecycleState state : {LifecycleState::kDispatching, LifecycleState::kWorking}) {
    EXPECT_THAT(LogOf(asked, StepFrom(state)), IsEmpty()) << "OnCancel() logs cancels";
    EXPECT_EQ(OutcomeOf(asked, StepFrom(state)), std::nullopt);
    EXPECT_EQ(TimesOf(asked, StepFrom(state)).run, std::nullopt) << "it still runs";
  }
  const auto ended = Record(core::TaskEnded{.state = LifecycleState::kCancelled});
  EXPECT_THAT(LogOf(ended, StepFrom(LifecycleState::kDispatching)),
              ElementsAre(absl::StrCat("INFO queue=task_ended ", kRun, " state=cancelled")));
  EXPECT_THAT(OutcomeOf(ended, StepFrom(LifecycleState::kDispatching)),
              Optional(DispatchOutcome::kCancelled));
}

TEST(QueueEventsTest, TaskWithoutADispatchEndsWithoutAnAgent) {
  core::TaskRecord record = Record(Failed(FailureReason::kExpired));
  record.event.dispatch = {};
  record.event.agent = "";
  EXPECT_THAT(LogOf(record, kPending), ElementsAre(absl::StrCat("WARN queue=task_ended ", kName,
                                                                " state=failed reason=expired")));
}

TEST(QueueEventsTest, NoteIsNotLogged) {
  EXPECT_THAT(LogOf(Record(core::EventOnly()), kPending), IsEmpty());
}

TEST(QueueEventsTest, DurationIsNeverNegative) {
  TaskStep step = StepFrom(LifecycleState::kWorking);
  step.since = kNow + absl::Hours(1);
  EXPECT_THAT(TimesOf(Record(core::TaskEnded()), step).run, Optional(absl::ZeroDuration()));
}

TEST(QueueEventsTest, LongErrorIsCutAtACharacterBoundary) {
  std::string error = "x";
  for (int i = 0; i < 1000; ++i) error += "é";
  EXPECT_THAT(
      LogOf(Record(core::TaskReturned{.error = error}), StepFrom(LifecycleState::kDispatching)),
      ElementsAre(HasSubstr(absl::StrCat("error=", error.substr(0, 255), " attempt="))));
}

TEST(QueueEventsTest, RejectedSubmitIsLoggedWithItsReasonOrCode) {
  const absl::Status full = base::WithReason(absl::ResourceExhaustedError("full"), "QUEUE_FULL",
                                             {{"depth", "50"}, {"key", "secret"}});
  const auto log = [](const absl::Status& error, const director::SubmitOrigin& origin) {
    return base::FormatLogLine(base::LogFormat::kLogfmt, kNow, base::LogLevel::kWarning, "queue",
                               Name(QueueEvent::kSubmitRejected), FieldsOf(error, origin));
  };
  const director::SubmitOrigin job = {.source = "scheduler",
                                      .source_job = "nightly",
                                      .identity = "anonymous",
                                      .trace = kPending.trace};
  EXPECT_THAT(log(full, job), testing::EndsWith(absl::StrCat(
                                  "WARN queue=submit_rejected reason=queue_full depth=50 "
                                  "source=scheduler job=nightly identity=anonymous trace_id=",
                                  core::ToString(kPending.trace.trace_id))));
  EXPECT_THAT(log(absl::InvalidArgumentError("secret prompt"), {.identity = "anonymous"}),
              testing::EndsWith("queue=submit_rejected reason=invalid_argument source=api "
                                "identity=anonymous"));
}

TEST(QueueEventsTest, CancelIsLoggedWithThePhaseOfItsTask) {
  const auto log = [](const director::CancelledTask& task) {
    return base::FormatLogLine(base::LogFormat::kLogfmt, kNow, base::LogLevel::kInfo, "queue",
                               Name(QueueEvent::kCancelRequested), FieldsOf(task));
  };
  using director::CancelPhase;
  EXPECT_THAT(log({.phase = CancelPhase::kWaiting,
                   .who = "anonymous",
                   .origin = {.source = "cli", .identity = "anonymous"}}),
              testing::EndsWith("INFO queue=cancel_requested phase=waiting who=anonymous "
                                "source=cli identity=anonymous"));
  EXPECT_THAT(log({.phase = CancelPhase::kQueued, .queue_id = kId, .who = "me"}),
              testing::EndsWith(absl::StrCat(kName, " phase=queued who=me")));
  EXPECT_THAT(log({.phase = CancelPhase::kInFlight,
                   .queue_id = kId,
                   .who = "me",
                   .dispatch = core::DispatchNumber(2),
                   .agent = "a"}),
              testing::EndsWith(absl::StrCat(kRun, " phase=in_flight who=me")));
}

TEST(QueueEventsTest, OperationsPageListsEveryEvent) {
  const std::string page = test::FileText("docs/OPERATIONS.md");
  for (int i = 0; !Name(QueueEvent(i)).empty(); ++i) {
    EXPECT_THAT(page, testing::HasSubstr(absl::StrCat("| `queue=", Name(QueueEvent(i)), "` |")));
  }
}

}  // namespace
}  // namespace callboard
