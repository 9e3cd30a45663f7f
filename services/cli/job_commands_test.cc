#include "services/cli/job_commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "callboard/v1/queue.grpc.pb.h"
#include "callboard/v1/scheduler.grpc.pb.h"
#include "libs/base/error.h"
#include "libs/testing/files.h"
#include "libs/testing/running_server.h"
#include "libs/testing/status_matchers.h"
#include "libs/wire/status.h"
#include "libs/wire/time.h"
#include "services/cli/answer_text.h"

namespace callboard::cli {
namespace {

using base::WithReason;
using config::v1::CliConfig;
using test::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

// A fake scheduler with two jobs and no rules. It answers each call with `error`, or echoes the
// request. Calls must not overlap.
class ScriptedScheduler final : public v1::SchedulerService::Service {
 public:
  absl::Status error = absl::OkStatus();
  v1::TriggerJobRequest triggered = {};
  v1::BackfillJobRequest backfilled = {};
  std::vector<std::string> page_tokens = {};
  std::string file_error = {};

 private:
  grpc::Status GetSchedulerStatus(grpc::ServerContext*, const v1::GetSchedulerStatusRequest*,
                                  v1::SchedulerStatus* response) override {
    response->set_jobs_file_error(file_error);
    return grpc::Status::OK;
  }
  // Returns one job per page.
  grpc::Status ListJobs(grpc::ServerContext*, const v1::ListJobsRequest* request,
                        v1::ListJobsResponse* response) override {
    page_tokens.push_back(request->page_token());
    response->add_jobs()->set_name(request->page_token().empty() ? "hourly" : "nightly");
    if (request->page_token().empty()) response->set_next_page_token("more");
    return wire::ToGrpc(error);
  }
  grpc::Status GetJob(grpc::ServerContext*, const v1::GetJobRequest* request,
                      v1::Job* job) override {
    job->set_name(request->name());
    return wire::ToGrpc(error);
  }
  grpc::Status TriggerJob(grpc::ServerContext*, const v1::TriggerJobRequest* request,
                          v1::TriggerJobResponse* response) override {
    response->set_deduplicated(request->trigger_id() == triggered.trigger_id());
    response->set_queue_id("queue-1");
    triggered = *request;
    return wire::ToGrpc(error);
  }
  grpc::Status PreviewJob(grpc::ServerContext*, const v1::PreviewJobRequest* request,
                          v1::PreviewJobResponse* response) override {
    response->add_occurrences()->set_wall_time(
        absl::StrCat(request->schedules(0), " in ", request->time_zone()));
    return wire::ToGrpc(error);
  }
  grpc::Status BackfillJob(grpc::ServerContext*, const v1::BackfillJobRequest* request,
                           v1::BackfillJobResponse* response) override {
    backfilled = *request;
    response->set_backfill_id(request->backfill_id());
    response->add_occurrences();
    return wire::ToGrpc(error);
  }
  grpc::Status PauseJob(grpc::ServerContext*, const v1::PauseJobRequest* request,
                        v1::Job* job) override {
    job->set_name(request->name());
    job->set_pause_why(request->why());
    return wire::ToGrpc(error);
  }
  grpc::Status ResumeJob(grpc::ServerContext*, const v1::ResumeJobRequest* request,
                         v1::ResumeJobResponse* response) override {
    response->mutable_job()->set_name(request->name());
    response->set_skipped_count(3);
    return wire::ToGrpc(error);
  }
};

// A fake director that records the reason of a pause.
class PausableQueue final : public v1::QueueService::Service {
 public:
  std::string why = {};

 private:
  grpc::Status PauseQueue(grpc::ServerContext*, const v1::PauseQueueRequest* request,
                          v1::QueueStatus* status) override {
    why = request->why();
    status->set_paused(true);
    return grpc::Status::OK;
  }
  grpc::Status ResumeQueue(grpc::ServerContext*, const v1::ResumeQueueRequest*,
                           v1::QueueStatus*) override {
    return grpc::Status::OK;
  }
};

// Returns the text that a command prints.
std::string Printed(const absl::StatusOr<std::string>& answer) {
  return answer.ok() ? *answer : absl::StrCat("Error: ", answer.status().message());
}

class JobCommandsTest : public testing::Test {
 protected:
  JobCommandsTest() {
    config_.mutable_scheduler()->set_address(running_scheduler_.address());
    config_.mutable_director()->set_address(running_queue_.address());
    *config_.mutable_timeout() = wire::ToProto(absl::Seconds(30));
  }

  void WantJson() { config_.set_output(CliConfig::OUTPUT_JSON); }

  ScriptedScheduler scheduler_;
  PausableQueue queue_;
  test::RunningService running_scheduler_{{&scheduler_}};
  test::RunningService running_queue_{{&queue_}};
  CliConfig config_;
};

TEST_F(JobCommandsTest, JobsFileIsCheckedWithoutAScheduler) {
  config_.mutable_scheduler()->clear_address();
  const std::string path = (test::NewFolder() / "jobs.yaml").string();
  const auto check = [&](const std::string& text) {
    std::ofstream(path) << text;
    return ShowJobs(config_, {.job = "check", .file = path});
  };
  EXPECT_EQ(Printed(check("jobs:\n- {name: a, schedule: '@daily', prompt: p}\n")),
            path + ": 1 job, no errors\n");
  EXPECT_THAT(check("jobs:\n- {name: a, schedule: '@daily', prompt: p, priority: high}\n"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       StartsWith(path + ":2: job a: priority is not supported")));
  EXPECT_THAT(ShowJobs(config_, {.job = "nightly", .file = path}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("`check` and a file")));
}

TEST_F(JobCommandsTest, CheckOfAnInvalidOrMissingFileIsAUsageError) {
  const std::string path = (test::NewFolder() / "jobs.yaml").string();
  const auto check = [&] {
    return ExitCodeOf(ShowJobs(config_, {.job = "check", .file = path}).status());
  };
  EXPECT_EQ(check(), ExitCode::kUsage);
  std::ofstream(path) << "jobs:\n- {name: a, schedule: 75 * * * *, prompt: p}\n";
  EXPECT_EQ(check(), ExitCode::kUsage);
  std::ofstream(path) << "jobs:\n- {name: a, schedule: '@daily', prompt: p}\n";
  EXPECT_EQ(check(), ExitCode::kDone);
}

TEST_F(JobCommandsTest, AllPagesOfJobsAreOneAnswer) {
  EXPECT_THAT(Printed(ShowJobs(config_, {})),
              MatchesRegex("NAME [^\n]*\nhourly [^\n]*\nnightly [^\n]*\n"));
  EXPECT_THAT(scheduler_.page_tokens, ElementsAre("", "more"));
  WantJson();
  EXPECT_THAT(Printed(ShowJobs(config_, {})),
              MatchesRegex("\\{\"jobs\":\\[\\{\"name\":\"hourly\".*\\{\"name\":"
                           "\"nightly\".*\"next_page_token\":\"\"\\}\n"));
}

TEST_F(JobCommandsTest, ErrorInTheJobsFileIsShownBelowTheJobs) {
  scheduler_.file_error = "jobs.yaml:7: wrong";
  EXPECT_THAT(Printed(ShowJobs(config_, {})),
              HasSubstr("\n\nthe newest version of the jobs file is not in use:\n"
                        "  jobs.yaml:7: wrong\n"));
}

TEST_F(JobCommandsTest, NamedJobIsShownAlone) {
  EXPECT_THAT(Printed(ShowJobs(config_, {.job = "nightly"})), StartsWith("job     nightly\n"));
  WantJson();
  EXPECT_THAT(Printed(ShowJobs(config_, {.job = "nightly"})), StartsWith("{\"name\":\"nightly\","));
}

TEST_F(JobCommandsTest, TriggerShowsItsTaskAndWhetherItIsNew) {
  const JobArguments arguments = {.job = "nightly", .force = true, .trigger_id = "t1"};
  EXPECT_EQ(Printed(TriggerJob(config_, arguments)), "queue-1\n");
  EXPECT_EQ(scheduler_.triggered.name(), "nightly");
  EXPECT_TRUE(scheduler_.triggered.force());
  EXPECT_EQ(Printed(TriggerJob(config_, arguments)), "queue-1  already triggered\n");
  WantJson();
  EXPECT_EQ(Printed(TriggerJob(config_, arguments)),
            "{\"queue_id\":\"queue-1\",\"deduplicated\":true}\n");
}

TEST_F(JobCommandsTest, TriggersWithoutAnIdGetDifferentIds) {
  EXPECT_EQ(Printed(TriggerJob(config_, {.job = "nightly"})), "queue-1\n");
  EXPECT_THAT(scheduler_.triggered.trigger_id(), MatchesRegex("[0-9a-f]+"));
  EXPECT_EQ(Printed(TriggerJob(config_, {.job = "nightly"})), "queue-1\n");
}

TEST_F(JobCommandsTest, OverlapErrorSuggestsForce) {
  scheduler_.error = WithReason(absl::FailedPreconditionError("queue-7 is live"), "OVERLAP");
  const auto answer = TriggerJob(config_, {.job = "nightly"});
  EXPECT_THAT(answer, StatusIs(absl::StatusCode::kFailedPrecondition,
                               "queue-7 is live; --force runs it anyway"));
  EXPECT_EQ(ExitCodeOf(answer.status()), ExitCode::kFailed);
}

TEST_F(JobCommandsTest, TriggerOnAFullQueueExitsLikeASubmit) {
  scheduler_.error = WithReason(absl::ResourceExhaustedError("it is full"), "QUEUE_FULL");
  const auto answer = TriggerJob(config_, {.job = "nightly"});
  EXPECT_EQ(answer.status().message(), "it is full");
  EXPECT_EQ(ExitCodeOf(answer.status()), ExitCode::kQueueFull);
}

TEST_F(JobCommandsTest, TriggerWithUnknownOutcomeSuggestsARetry) {
  scheduler_.error = WithReason(absl::UnavailableError("no answer"), "DIRECTOR_UNREACHABLE");
  const auto answer = TriggerJob(config_, {.job = "nightly"});
  EXPECT_EQ(answer.status().message(),
            absl::StrCat("no answer; retry with --trigger_id=", scheduler_.triggered.trigger_id(),
                         ", and it runs only once"));
  EXPECT_EQ(ExitCodeOf(answer.status()), ExitCode::kUnreachable);
}

TEST_F(JobCommandsTest, UnknownJobIsNotFoundByAnyCommand) {
  scheduler_.error = absl::NotFoundError("there is no job nightli");
  const JobArguments arguments = {.job = "nightli", .from = "2026-03-28", .until = "2026-03-29"};
  for (const auto command : {ShowJobs, TriggerJob, BackfillJob, Pause, Resume}) {
    EXPECT_EQ(ExitCodeOf(command(config_, arguments).status()), ExitCode::kNotFound);
  }
}

TEST_F(JobCommandsTest, UnreachableSchedulerErrorHasAddressAndAdvice) {
  config_.mutable_scheduler()->set_address("127.0.0.1:1");
  const absl::Status status = ShowJobs(config_, {}).status();
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kUnreachable);
  EXPECT_THAT(std::string(status.message()), StartsWith("no scheduler answers at 127.0.0.1:1 "));
  EXPECT_THAT(std::string(status.message()), HasSubstr("--scheduler.address"));
}

TEST_F(JobCommandsTest, PreviewSendsTheScheduleAndItsTimeZone) {
  const JobArguments arguments = {.schedules = {"30 2 * * *"}, .time_zone = "Europe/Berlin"};
  EXPECT_THAT(Printed(PreviewJob(config_, arguments)), HasSubstr("30 2 * * * in Europe/Berlin"));
  WantJson();
  EXPECT_THAT(Printed(PreviewJob(config_, arguments)), StartsWith("{\"occurrences\":[{"));
}

TEST_F(JobCommandsTest, BackfillShowsTheIdForARetry) {
  const JobArguments arguments = {.job = "nightly", .from = "2026-03-28", .until = "2026-03-29"};
  const auto answer = BackfillJob(config_, arguments);
  ASSERT_TRUE(answer.ok());
  EXPECT_THAT(scheduler_.backfilled.backfill_id(), MatchesRegex("[0-9a-f]+"));
  EXPECT_THAT(*answer,
              HasSubstr(absl::StrCat("--backfill_id=", scheduler_.backfilled.backfill_id(), "\n")));
  scheduler_.error = absl::UnavailableError("the scheduler stops");
  const std::string error = Printed(BackfillJob(config_, arguments));
  EXPECT_THAT(error,
              HasSubstr(absl::StrCat("--backfill_id=", scheduler_.backfilled.backfill_id(), ",")));
}

TEST_F(JobCommandsTest, FailedDryRunSuggestsNoRetry) {
  scheduler_.error = absl::UnavailableError("the scheduler stops");
  EXPECT_THAT(
      BackfillJob(config_,
                  {.job = "nightly", .from = "2026-03-28", .until = "2026-03-29", .dry_run = true}),
      StatusIs(absl::StatusCode::kUnavailable, "the scheduler stops"));
}

TEST_F(JobCommandsTest, PauseAndResumeWithAJobAffectTheJob) {
  EXPECT_EQ(Printed(Pause(config_, {.job = "nightly", .why = "full"})),
            "nightly  paused until it is resumed: full\n");
  EXPECT_THAT(Printed(Resume(config_, {.job = "nightly"})),
              HasSubstr("3 occurrences were due during the pause"));
  EXPECT_EQ(queue_.why, "") << "the queue is not paused";
}

TEST_F(JobCommandsTest, PauseAndResumeWithoutAJobAffectTheQueue) {
  EXPECT_THAT(Printed(Pause(config_, {.why = "upgrade"})), StartsWith("queue      paused"));
  EXPECT_EQ(queue_.why, "upgrade");
  EXPECT_THAT(Printed(Resume(config_, {})), StartsWith("queue      running"));
  WantJson();
  EXPECT_THAT(Printed(Pause(config_, {})), HasSubstr("\"paused\":true"));
}

TEST_F(JobCommandsTest, QueuePauseHasNoEndTime) {
  const absl::Status status = Pause(config_, {.until = "2026-03-29", .why = "x"}).status();
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kUsage);
  EXPECT_THAT(std::string(status.message()), StartsWith("--until: needs a job"));
  EXPECT_EQ(queue_.why, "");
}

}  // namespace
}  // namespace callboard::cli
