// Calls to a scheduler: pauses, triggers, backfills and previews, and their errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "libs/base/error.h"
#include "libs/testing/http_client.h"
#include "libs/wire/time.h"
#include "tests/integration/cron_fixture.h"

namespace callboard {
namespace {

using test::GaplessSecondlyJob;
using test::HasReason;
using test::IsOk;
using test::OutcomeOf;
using test::RareJob;
using test::StatusIs;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using Stub = v1::SchedulerService::Stub;

absl::Time Utc(const std::string& text) {
  absl::Time time;
  std::string error;
  EXPECT_TRUE(absl::ParseTime(absl::RFC3339_sec, text, &time, &error)) << error;
  return time;
}

class SchedulerCallsTest : public test::CronFixture {
 protected:
  absl::StatusOr<v1::Job> Pause(const std::string& job) {
    v1::PauseJobRequest request;
    request.set_name(job);
    request.set_why("holidays");
    return scheduler_->Call(&Stub::PauseJob, request);
  }
  absl::StatusOr<v1::ResumeJobResponse> Resume(const std::string& job) {
    v1::ResumeJobRequest request;
    request.set_name(job);
    return scheduler_->Call(&Stub::ResumeJob, request);
  }
  absl::StatusOr<v1::TriggerJobResponse> Trigger(const std::string& job, const std::string& id,
                                                 bool force = false) {
    v1::TriggerJobRequest request;
    request.set_name(job);
    request.set_trigger_id(id);
    request.set_force(force);
    return scheduler_->Call(&Stub::TriggerJob, request);
  }
  static v1::BackfillJobRequest BackfillRequest(const std::string& job, const std::string& id,
                                                const std::string& from, const std::string& until) {
    v1::BackfillJobRequest request;
    request.set_name(job);
    request.set_backfill_id(id);
    *request.mutable_from() = wire::ToProto(Utc(from));
    *request.mutable_until() = wire::ToProto(Utc(until));
    return request;
  }
  // The leap days of three years, including the first and excluding the last.
  static v1::BackfillJobRequest LeapDays(const std::string& id) {
    return BackfillRequest("rare", id, "2012-02-29T00:00:00Z", "2020-02-29T00:00:00Z");
  }
  // Returns the occurrences as `2026-03-29T03:00:00+02:00 dst_gap_moved 2026-03-29T02:30:00`.
  std::vector<std::string> Preview(const std::string& from, const std::string& until) {
    v1::PreviewJobRequest request;
    request.add_schedules("30 2 * * *");
    request.set_time_zone("Europe/Berlin");
    *request.mutable_from() = wire::ToProto(Utc(from));
    *request.mutable_until() = wire::ToProto(Utc(until));
    const auto preview = scheduler_->Call(&Stub::PreviewJob, request);
    EXPECT_THAT(preview, IsOk());
    std::vector<std::string> texts;
    for (const auto& occurrence : preview->occurrences()) {
      v1::Firing mark;
      mark.set_outcome(occurrence.mark());
      texts.push_back(absl::StrCat(occurrence.wall_time(), " ", OutcomeOf(mark), " ",
                                   occurrence.asked_wall_time()));
    }
    return texts;
  }
};

// ---- Pauses -------------------------------------------------------------------------------------

TEST_F(SchedulerCallsTest, PausedJobStaysPausedAcrossARestart) {
  StartDirector();
  WriteJobs({GaplessSecondlyJob("tick")});
  StartScheduler();
  WaitForRows("tick", 1, "fired");
  ASSERT_THAT(Pause("tick"), IsOk());
  WaitForRows("tick", 1, "paused");
  KillScheduler();
  StartScheduler();
  WaitForRows("tick", 3, "paused");
  const auto job = scheduler_->Get("tick");
  ASSERT_THAT(job, IsOk());
  EXPECT_TRUE(job->paused());
  EXPECT_EQ(job->pause_why(), "holidays");
  EXPECT_EQ(job->next_fires_size(), 0);

  const auto resumed = Resume("tick");
  ASSERT_THAT(resumed, IsOk());
  EXPECT_FALSE(resumed->job().paused());
  const size_t before = CountRows("tick", "fired");
  WaitForRows("tick", before + 2, "fired");
  const std::vector<v1::Firing> rows = scheduler_->Firings("tick");
  const std::map<std::string, v1::Task> tasks = CronTasks();
  size_t paused = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].nominal_at().seconds(),
              rows[0].nominal_at().seconds() + static_cast<int64_t>(i));
    const bool is_paused = OutcomeOf(rows[i]) == "paused";
    paused += is_paused ? 1 : 0;
    EXPECT_EQ(tasks.contains(rows[i].request_id()), !is_paused) << rows[i].request_id();
  }
  EXPECT_EQ(resumed->skipped_count(), paused);
}

// ---- Triggers -----------------------------------------------------------------------------------

TEST_F(SchedulerCallsTest, TriggerWorksWhilePausedAndIsIdempotent) {
  StartDirector();
  WriteJobs({RareJob("rare")});
  StartScheduler();
  ASSERT_THAT(Pause("rare"), IsOk());
  const auto first = Trigger("rare", "now");
  ASSERT_THAT(first, IsOk());
  EXPECT_FALSE(first->deduplicated());
  const auto again = Trigger("rare", "now");
  ASSERT_THAT(again, IsOk());
  EXPECT_TRUE(again->deduplicated());
  EXPECT_EQ(again->queue_id(), first->queue_id());
  EXPECT_THAT(CronRequests(), ElementsAre("trigger/rare/now"));
}

TEST_F(SchedulerCallsTest, TriggerObeysOverlapUnlessForced) {
  StartDirector();
  WriteJobs({RareJob("rare")});
  StartScheduler();
  const auto first = Trigger("rare", "1");
  ASSERT_THAT(first, IsOk());
  const absl::Status rejected = Trigger("rare", "2").status();
  EXPECT_THAT(rejected, StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(rejected, HasReason("OVERLAP"));
  EXPECT_THAT(base::GetErrorDetails(rejected).metadata,
              Contains(Pair("queue_id", first->queue_id())));
  EXPECT_THAT(Trigger("rare", "2", /*force=*/true), IsOk());
  EXPECT_THAT(CronRequests(), ElementsAre("trigger/rare/1", "trigger/rare/2"));
}

TEST_F(SchedulerCallsTest, TriggerWithoutADirectorIsUnavailable) {
  WriteJobs({RareJob("rare")});
  StartScheduler();
  const absl::Status rejected = Trigger("rare", "now").status();
  EXPECT_THAT(rejected, StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(rejected, HasReason("DIRECTOR_UNREACHABLE"));
}

TEST_F(SchedulerCallsTest, TriggeredTaskIsOnTheStatusPageAndHasARow) {
  StartDirector();
  WriteJobs({RareJob("rare")});
  StartScheduler();
  const auto triggered = Trigger("rare", "now");
  ASSERT_THAT(triggered, IsOk());
  const test::HttpAnswer page = test::HttpGet(server_->http_port(), "/status");
  EXPECT_EQ(page.status, 200);
  for (const std::string& part :
       {std::string("\"name\":\"rare\""), std::string("\"last_status\":\"queued\""),
        absl::StrCat("\"last_queue_id\":\"", triggered->queue_id(), "\""),
        absl::StrCat("\"running_queue_ids\":[\"", triggered->queue_id(), "\"]")}) {
    EXPECT_THAT(page.body, HasSubstr(part));
  }
  EXPECT_THAT(test::HttpGet(server_->http_port(), "/metrics").body,
              HasSubstr("callboard_schedule_fires_total{job=\"rare\",outcome=\"fired\"} 1"));
  const std::vector<v1::Firing> rows = scheduler_->Firings("rare");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].request_id(), "trigger/rare/now");
  EXPECT_EQ(rows[0].queue_id(), triggered->queue_id());
}

// ---- Backfills ----------------------------------------------------------------------------------

TEST_F(SchedulerCallsTest, BackfillIsIdempotent) {
  StartDirector();
  WriteJobs({RareJob("rare", {"overlap: allow"})});
  StartScheduler();
  v1::BackfillJobRequest request = LeapDays("b1");
  request.set_dry_run(true);
  const auto listed = scheduler_->Call(&Stub::BackfillJob, request);
  ASSERT_THAT(listed, IsOk());
  ASSERT_EQ(listed->occurrences_size(), 2);
  EXPECT_EQ(listed->occurrences(0).seconds(), absl::ToUnixSeconds(Utc("2012-02-29T00:00:00Z")));
  EXPECT_EQ(listed->occurrences(1).seconds(), absl::ToUnixSeconds(Utc("2016-02-29T00:00:00Z")));
  EXPECT_THAT(CronTasks(), IsEmpty());

  request.set_dry_run(false);
  for (const char* when : {"first", "while it runs"}) {
    EXPECT_THAT(scheduler_->Call(&Stub::BackfillJob, request), IsOk()) << when;
  }
  server_->process().WaitForLine("scheduler=backfill_ended");
  EXPECT_THAT(scheduler_->Call(&Stub::BackfillJob, request), IsOk()) << "afterwards";
  EXPECT_THAT(CronRequests(),
              ElementsAre("backfill/rare/b1/1330473600", "backfill/rare/b1/1456704000"));
  EXPECT_EQ(CountRows("rare", "fired"), 2u);
  EXPECT_THAT(
      scheduler_->Call(&Stub::BackfillJob, BackfillRequest("rare", "b1", "2012-01-01T00:00:00Z",
                                                           "2013-01-01T00:00:00Z")),
      HasReason("BACKFILL_ID_REUSED"));
}

// ---- Previews -----------------------------------------------------------------------------------

TEST_F(SchedulerCallsTest, PreviewMarksDaylightSavingTransitions) {
  WriteJobs({});
  StartScheduler();
  EXPECT_THAT(Preview("2026-03-28T00:00:00Z", "2026-03-31T00:00:00Z"),
              ElementsAre("2026-03-28T02:30:00+01:00 fired 2026-03-28T02:30:00",
                          "2026-03-29T03:00:00+02:00 dst_gap_moved 2026-03-29T02:30:00",
                          "2026-03-30T02:30:00+02:00 fired 2026-03-30T02:30:00"));
  EXPECT_THAT(Preview("2026-10-24T00:00:00Z", "2026-10-27T00:00:00Z"),
              ElementsAre("2026-10-24T02:30:00+02:00 fired 2026-10-24T02:30:00",
                          "2026-10-25T02:30:00+02:00 fired 2026-10-25T02:30:00",
                          "2026-10-25T02:30:00+01:00 dst_fold_suppressed 2026-10-25T02:30:00",
                          "2026-10-26T02:30:00+01:00 fired 2026-10-26T02:30:00"));
}

// ---- Errors -------------------------------------------------------------------------------------

class SchedulerErrorTest : public SchedulerCallsTest {
 protected:
  // Returns the error as any client sees it: `code REASON`, in our domain.
  template <class Request, class Response>
  std::string ErrorOf(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                      const Request& request) {
    Response response;
    const grpc::Status error = scheduler_->RawCall(method, request, response);
    google::rpc::Status details;
    google::rpc::ErrorInfo info;
    EXPECT_TRUE(details.ParseFromString(error.error_details()));
    for (const auto& detail : details.details()) detail.UnpackTo(&info);
    EXPECT_EQ(info.domain(), "callboard") << error.error_message();
    return absl::StrCat(absl::StatusCodeToString(static_cast<absl::StatusCode>(error.error_code())),
                        " ", info.reason());
  }
  // Checks that the request is rejected with an error that fits into headers and quotes at most 128
  // bytes of a value.
  template <class Request, class Response>
  void ExpectBounded(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                     const Request& request) {
    Response response;
    const grpc::Status error = scheduler_->RawCall(method, request, response);
    const std::string name = Request::descriptor()->name();
    EXPECT_THAT(error.error_code(),
                AnyOf(grpc::StatusCode::INVALID_ARGUMENT, grpc::StatusCode::NOT_FOUND))
        << name << ": " << error.error_message();
    EXPECT_LT(error.error_message().size(), 1000u) << name;
    EXPECT_LT(error.error_details().size(), 4000u) << name;
    EXPECT_THAT(error.error_message() + "\n" + error.error_details(),
                Not(HasSubstr(std::string(129, 'x'))))
        << name;
  }
  // Returns a request with the name of a job, if it has one.
  template <class Request>
  static Request JobRequest(const std::string& job) {
    Request request;
    request.set_name(job);
    return request;
  }
};

TEST_F(SchedulerErrorTest, UnknownJobIsNotFoundByEveryMethod) {
  WriteJobs({});
  StartScheduler();
  const std::string unknown = "NOT_FOUND JOB_NOT_FOUND";
  EXPECT_EQ(ErrorOf(&Stub::GetJob, JobRequest<v1::GetJobRequest>("x")), unknown);
  EXPECT_EQ(ErrorOf(&Stub::TriggerJob, JobRequest<v1::TriggerJobRequest>("x")), unknown);
  EXPECT_EQ(ErrorOf(&Stub::PauseJob, JobRequest<v1::PauseJobRequest>("x")), unknown);
  EXPECT_EQ(ErrorOf(&Stub::ResumeJob, JobRequest<v1::ResumeJobRequest>("x")), unknown);
  EXPECT_EQ(ErrorOf(&Stub::PreviewJob, JobRequest<v1::PreviewJobRequest>("x")), unknown);
  EXPECT_EQ(ErrorOf(&Stub::ListFirings, JobRequest<v1::ListFiringsRequest>("x")), unknown);
  EXPECT_EQ(ErrorOf(&Stub::BackfillJob,
                    BackfillRequest("x", "b", "2012-01-01T00:00:00Z", "2013-01-01T00:00:00Z")),
            unknown);
}

TEST_F(SchedulerErrorTest, EveryMethodRejectsInvalidRequests) {
  WriteJobs({RareJob("rare")});
  StartScheduler();
  const std::string field = "INVALID_ARGUMENT INVALID_FIELD";
  v1::ListJobsRequest jobs;
  jobs.set_page_token("?");
  EXPECT_EQ(ErrorOf(&Stub::ListJobs, jobs), field);
  v1::ListFiringsRequest firings;
  firings.set_page_size(-1);
  EXPECT_EQ(ErrorOf(&Stub::ListFirings, firings), field);
  v1::TriggerJobRequest trigger = JobRequest<v1::TriggerJobRequest>("rare");
  trigger.set_trigger_id("no/slash");
  EXPECT_EQ(ErrorOf(&Stub::TriggerJob, trigger), field);
  v1::PauseJobRequest pause = JobRequest<v1::PauseJobRequest>("rare");
  *pause.mutable_until() = wire::ToProto(Utc("2012-01-01T00:00:00Z"));
  EXPECT_EQ(ErrorOf(&Stub::PauseJob, pause), field);
  v1::PreviewJobRequest preview;
  preview.add_schedules("75 * * * *");
  EXPECT_EQ(ErrorOf(&Stub::PreviewJob, preview), field);
  EXPECT_EQ(ErrorOf(&Stub::BackfillJob, JobRequest<v1::BackfillJobRequest>("rare")), field);
  EXPECT_EQ(ErrorOf(&Stub::BackfillJob, BackfillRequest("rare", "no/slash", "2012-01-01T00:00:00Z",
                                                        "2013-01-01T00:00:00Z")),
            field);
}

TEST_F(SchedulerErrorTest, PageTokenBelongsToItsMethodAndItsFilters) {
  WriteJobs({RareJob("a", {"overlap: allow"}), RareJob("b")});
  StartDirector();
  StartScheduler();
  for (const char* id : {"1", "2"}) ASSERT_THAT(Trigger("a", id), IsOk());
  v1::ListFiringsRequest firings = JobRequest<v1::ListFiringsRequest>("a");
  firings.set_page_size(1);
  const auto first = scheduler_->Call(&Stub::ListFirings, firings);
  ASSERT_THAT(first, IsOk());
  firings.set_page_token(first->next_page_token());
  ASSERT_NE(firings.page_token(), "");
  EXPECT_THAT(scheduler_->Call(&Stub::ListFirings, firings), IsOk());

  const std::string field = "INVALID_ARGUMENT INVALID_FIELD";
  firings.set_name("b");
  EXPECT_EQ(ErrorOf(&Stub::ListFirings, firings), field) << "another job";
  firings.set_name("a");
  firings.add_outcomes(v1::Firing::OUTCOME_FIRED);
  EXPECT_EQ(ErrorOf(&Stub::ListFirings, firings), field) << "another outcome";
  v1::ListJobsRequest jobs;
  jobs.set_page_token(first->next_page_token());
  EXPECT_EQ(ErrorOf(&Stub::ListJobs, jobs), field) << "of ListFirings";
}

TEST_F(SchedulerErrorTest, VeryLongNameGivesABoundedError) {
  WriteJobs({RareJob("rare")});
  StartScheduler();
  const std::string name(100'000, 'x');
  const char* from = "2012-01-01T00:00:00Z";
  const char* until = "2013-01-01T00:00:00Z";
  ExpectBounded(&Stub::GetJob, JobRequest<v1::GetJobRequest>(name));
  ExpectBounded(&Stub::TriggerJob, JobRequest<v1::TriggerJobRequest>(name));
  ExpectBounded(&Stub::PauseJob, JobRequest<v1::PauseJobRequest>(name));
  ExpectBounded(&Stub::ResumeJob, JobRequest<v1::ResumeJobRequest>(name));
  ExpectBounded(&Stub::PreviewJob, JobRequest<v1::PreviewJobRequest>(name));
  ExpectBounded(&Stub::ListFirings, JobRequest<v1::ListFiringsRequest>(name));
  ExpectBounded(&Stub::BackfillJob, BackfillRequest(name, "b", from, until));
  // Other text fields.
  ExpectBounded(&Stub::BackfillJob, BackfillRequest("rare", name, from, until));
  v1::ListJobsRequest jobs;
  jobs.set_page_token(name);
  ExpectBounded(&Stub::ListJobs, jobs);
  v1::ListFiringsRequest firings;
  firings.set_page_token(name);
  ExpectBounded(&Stub::ListFirings, firings);
  v1::TriggerJobRequest trigger = JobRequest<v1::TriggerJobRequest>("rare");
  trigger.set_trigger_id(name);
  ExpectBounded(&Stub::TriggerJob, trigger);
  v1::PauseJobRequest pause = JobRequest<v1::PauseJobRequest>("rare");
  pause.set_why(name);
  ExpectBounded(&Stub::PauseJob, pause);
  v1::PreviewJobRequest preview;
  preview.add_schedules(name);
  ExpectBounded(&Stub::PreviewJob, preview);
  preview.set_schedules(0, "@daily");
  preview.set_time_zone(name);
  ExpectBounded(&Stub::PreviewJob, preview);
}

}  // namespace
}  // namespace callboard
