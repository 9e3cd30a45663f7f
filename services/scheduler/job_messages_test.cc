#include "services/scheduler/job_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "libs/testing/cron_jobs.h"
#include "libs/testing/status_matchers.h"
#include "libs/wire/time.h"

namespace callboard {
namespace {

using test::At;
using test::CronJob;
using test::IsOk;
using test::StatusIs;
using ::testing::HasSubstr;
using ::testing::Not;

const absl::Time kNow = absl::FromUnixSeconds(1'700'000'000);

scheduler::JobView ViewOf(const std::string& name) {
  return {.job = CronJob(name, "0 3 * * *", "Europe/Berlin"), .state = {.job = name}};
}

TEST(JobMessagesTest, OutcomesMatchTheProto) {
  ASSERT_EQ(std::size(kFiringOutcomes), std::size(core::kFiringOutcomes));
  for (const core::FiringOutcome outcome : core::kFiringOutcomes) {
    EXPECT_EQ(wire::FromProto(kFiringOutcomes, wire::ToProto(kFiringOutcomes, outcome)), outcome);
  }
  EXPECT_EQ(v1::Firing::Outcome_ARRAYSIZE, 1 + std::ssize(kFiringOutcomes));
}

TEST(JobMessagesTest, JobHasItsDeclarationAndState) {
  scheduler::JobView view = ViewOf("nightly");
  view.job.catch_up = {core::CatchUp::Kind::kAll, 3};
  view.job.queue_full_wait = absl::Minutes(5);
  view.job.origins = {{"catch_up", "file"}, {"overlap", "default"}, {"paused", "default"}};
  view.state.last_outcome = core::FiringOutcome::kFired;
  view.state.last_nominal = kNow;
  view.state.last_queue_id = "queue-1";
  view.next = {{.at = kNow + absl::Hours(1)}};
  const v1::Job job = ToProto(view);
  EXPECT_EQ(job.schedules(0), "0 3 * * *");
  EXPECT_EQ(job.time_zone(), "Europe/Berlin");
  EXPECT_EQ(job.overlap(), v1::Overlap::POLICY_SKIP);
  EXPECT_EQ(job.catch_up(), v1::Job::CATCH_UP_ALL);
  EXPECT_EQ(job.catch_up_max(), 3u);
  EXPECT_EQ(job.queue_full_wait().seconds(), 300);
  EXPECT_FALSE(job.has_jitter());
  EXPECT_EQ(job.last_status(), "queued");
  EXPECT_EQ(job.last_queue_id(), "queue-1");
  EXPECT_EQ(job.last_fire_at().seconds(), 1'700'000'000);
  EXPECT_EQ(job.next_fires(0).seconds(), 1'700'003'600);
  EXPECT_EQ(job.origins().at("paused"), "default");
}

TEST(JobMessagesTest, PauseNamesItsOrigin) {
  const auto origin = [](bool in_file, const std::string& by) {
    scheduler::JobView view = ViewOf("a");
    view.job.paused = in_file;
    view.job.origins["paused"] = in_file ? "file" : "default";
    if (!by.empty()) view.state.pause = scheduler::Pause{.by = by, .why = "why"};
    return ToProto(view).origins().at("paused");
  };
  EXPECT_EQ(origin(false, ""), "default");
  EXPECT_EQ(origin(true, "file"), "file");
  EXPECT_EQ(origin(true, ""), "operator");
  EXPECT_EQ(origin(false, "ann"), "operator");
  EXPECT_EQ(origin(false, "scheduler"), "scheduler");
}

TEST(JobMessagesTest, SecretsOfATaskAreNotShown) {
  scheduler::JobView view = ViewOf("a");
  v1::SubmitTaskRequest task;
  task.set_prompt(std::string(5000, 'x'));
  (*task.mutable_env())["TOKEN"] = "secret";
  task.set_payload("secret");
  view.job.task = test::JobTaskOf(task, "a");
  EXPECT_THAT(ToProto(view).SerializeAsString(), Not(HasSubstr("secret")));
  EXPECT_LT(ToProto(view).task().prompt().size(), 2000u);
  const v1::Job detail = ToProto(scheduler::JobDetail{view});
  EXPECT_THAT(detail.SerializeAsString(), Not(HasSubstr("secret")));
  EXPECT_EQ(detail.task().prompt().size(), 5000u);
}

TEST(JobMessagesTest, PreviewMarksMovedAndSuppressedOccurrences) {
  const auto preview = [](const char* from, const char* until) {
    v1::PreviewJobRequest request;
    request.add_schedules("30 2 * * *");
    request.set_time_zone("Europe/Berlin");
    *request.mutable_from() = wire::ToProto(At(from));
    *request.mutable_until() = wire::ToProto(At(until));
    return *ToProto(*PreviewSchedules(request, *PreviewQueryFrom(request, kNow)));
  };
  const v1::PreviewJobResponse spring = preview("2026-03-28 12:00:00", "2026-03-29 12:00:00");
  ASSERT_EQ(spring.occurrences_size(), 1);
  EXPECT_EQ(spring.occurrences(0).mark(), v1::Firing::OUTCOME_DST_GAP_MOVED);
  EXPECT_EQ(spring.occurrences(0).wall_time(), "2026-03-29T03:00:00+02:00");
  EXPECT_EQ(spring.occurrences(0).asked_wall_time(), "2026-03-29T02:30:00");
  const v1::PreviewJobResponse autumn = preview("2026-10-24 12:00:00", "2026-10-25 12:00:00");
  ASSERT_EQ(autumn.occurrences_size(), 2);
  EXPECT_EQ(autumn.occurrences(0).mark(), v1::Firing::OUTCOME_FIRED);
  EXPECT_EQ(autumn.occurrences(0).wall_time(), "2026-10-25T02:30:00+02:00");
  EXPECT_EQ(autumn.occurrences(1).mark(), v1::Firing::OUTCOME_DST_FOLD_SUPPRESSED);
  EXPECT_EQ(autumn.occurrences(1).wall_time(), "2026-10-25T02:30:00+01:00");
}

TEST(JobMessagesTest, PreviewWithUntilBeforeFromIsRejected) {
  v1::PreviewJobRequest request;
  request.set_name("job");
  request.mutable_until()->set_seconds(absl::ToUnixSeconds(kNow) - 1);
  EXPECT_THAT(PreviewQueryFrom(request, kNow),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("until is before from")));
  request.mutable_from()->set_seconds(request.until().seconds());
  EXPECT_THAT(PreviewQueryFrom(request, kNow), IsOk());
}

TEST(JobMessagesTest, JobHasRunningTasksAndTheLastResult) {
  scheduler::JobView view = {.job = test::CronJob("job", "* * * * *"), .state = {}};
  view.state.tracked_tasks = {"queue-1", "queue-2"};
  view.state.last_run_state = core::LifecycleState::kFailed;
  view.state.last_run_reason = core::FailureReason::kTimedOut;
  const v1::Job proto = ToProto(view);
  EXPECT_THAT(proto.running_queue_ids(), ::testing::ElementsAre("queue-1", "queue-2"));
  EXPECT_EQ(proto.last_run_state(), v1::Task::STATE_FAILED);
  EXPECT_EQ(proto.last_run_reason(), v1::Task::REASON_TIMED_OUT);
}

TEST(JobMessagesTest, PreviewTakesAJobOrSchedules) {
  v1::PreviewJobRequest request;
  EXPECT_THAT(PreviewQueryFrom(request, kNow), StatusIs(absl::StatusCode::kInvalidArgument));
  request.set_name("a");
  const auto query = PreviewQueryFrom(request, kNow);
  ASSERT_THAT(query, IsOk());
  EXPECT_EQ(query->from, kNow);
  EXPECT_EQ(query->limit, 10u);
  request.add_schedules("@daily");
  EXPECT_THAT(PreviewQueryFrom(request, kNow), StatusIs(absl::StatusCode::kInvalidArgument));
  request.clear_schedules();
  request.set_limit(1001);
  EXPECT_THAT(PreviewQueryFrom(request, kNow),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("limit")));
}

TEST(JobMessagesTest, InvalidScheduleOfAPreviewIsAnErrorWithItsColumn) {
  v1::PreviewJobRequest request;
  request.add_schedules("75 * * * *");
  EXPECT_THAT(PreviewSchedules(request, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("75 is not in 0-59")));
  EXPECT_THAT(PreviewSchedules(request, {}), test::HasReason("INVALID_FIELD"));
  request.set_schedules(0, "@daily");
  request.set_time_zone("localtime");
  EXPECT_THAT(PreviewSchedules(request, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not a time zone")));
  EXPECT_THAT(PreviewSchedules(request, {}), test::HasReason("INVALID_FIELD"));
}

TEST(JobMessagesTest, BackfillNeedsFromAndUntil) {
  v1::BackfillJobRequest request;
  request.set_name("a");
  EXPECT_THAT(BackfillQueryFrom(request, "id", "ann"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("from is required")));
  request.mutable_from()->set_seconds(10);
  request.mutable_until()->set_seconds(5);
  EXPECT_THAT(BackfillQueryFrom(request, "id", "ann"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("until is before from")));
  request.mutable_until()->set_seconds(20);
  const auto query = BackfillQueryFrom(request, "made-up", "ann");
  ASSERT_THAT(query, IsOk());
  EXPECT_EQ(query->id, "made-up");
  EXPECT_EQ(query->by, "ann");
}

TEST(JobMessagesTest, PageTokenContinuesTheListOfFirings) {
  scheduler::FiringPage page = {.firings = {{.job = "a/b", .nominal = kNow}},
                                .next = scheduler::FiringCursor{kNow, "a/b"}};
  v1::ListFiringsRequest request;
  request.set_page_token(ListResponse(page).next_page_token());
  const auto query = FiringQueryFrom(request);
  ASSERT_THAT(query, IsOk());
  EXPECT_EQ(query->after, page.next);
  request.set_page_token("%");
  EXPECT_THAT(FiringQueryFrom(request), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(JobMessagesTest, PageEndsBeforeTheMessageIsTooLarge) {
  scheduler::FiringPage page;
  for (int i = 0; i < 8; ++i) {
    page.firings.push_back(
        {.job = "a", .nominal = kNow - absl::Seconds(i), .detail = std::string(1 << 20, 'x')});
  }
  const v1::ListFiringsResponse response = ListResponse(page);
  EXPECT_LT(response.ByteSizeLong(), size_t{4} << 20);
  v1::ListFiringsRequest request;
  request.set_page_token(response.next_page_token());
  EXPECT_EQ(FiringQueryFrom(request)->after->nominal,
            kNow - absl::Seconds(response.firings_size() - 1));
}

TEST(JobMessagesTest, UnknownOutcomeIsRejected) {
  v1::ListFiringsRequest request;
  request.add_outcomes(v1::Firing::OUTCOME_FIRED);
  EXPECT_EQ(FiringQueryFrom(request)->outcomes.size(), 1u);
  for (const int wrong : {0, 99}) {
    request.clear_outcomes();
    request.add_outcomes(static_cast<v1::Firing::Outcome>(wrong));
    EXPECT_THAT(FiringQueryFrom(request), StatusIs(absl::StatusCode::kInvalidArgument)) << wrong;
  }
}

}  // namespace
}  // namespace callboard
