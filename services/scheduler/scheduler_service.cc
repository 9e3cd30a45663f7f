#include "services/scheduler/scheduler_service.h"

#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "libs/base/version.h"
#include "libs/server/call.h"
#include "libs/server/server.h"
#include "libs/wire/json.h"
#include "libs/wire/page.h"
#include "libs/wire/time.h"
#include "services/scheduler/job_messages.h"

namespace callboard {
namespace {

// For calls that wait for the director: leaves the scheduler time to report its timeout.
const server::UnaryOptions kDirectorCallOptions = {.deadline_max = 2 * scheduler::kCallTimeout};

// Jobs on the status page. ListJobs returns all.
constexpr size_t kJobsShownMax = 1000;

// `status` has the fields of the jobs file.
v1::SchedulerStatus MakeStatus(const scheduler::StatusView& view, v1::SchedulerStatus status) {
  status.set_version(std::string(base::kVersion));
  status.set_jobs(view.jobs);
  status.set_paused_jobs(view.paused_jobs);
  status.set_director_reachable(view.director_reachable);
  *status.mutable_overdue() = wire::ToProto(view.overdue);
  if (view.next_fire_at < absl::InfiniteFuture()) {
    *status.mutable_next_fire_at() = wire::ToProto(view.next_fire_at);
  }
  return status;
}

std::string JobsJson(const scheduler::JobPage& page) {
  std::vector<std::string> jobs;
  for (const scheduler::JobView& view : page.jobs) {
    v1::Job job = ToProto(view);
    // The task is only in GetJob and ListJobs.
    job.clear_task();
    jobs.push_back(wire::ToJson(job));
  }
  return absl::StrCat("[", absl::StrJoin(jobs, ","), "]");
}

// Returns a callback that finishes `call` with the proto of a T, or with an error.
template <class T, class Response>
auto FinishWith(const server::UnaryCall<Response>& call) {
  return [call](const absl::StatusOr<T>& value) {
    if (!value.ok()) return call.Finish(value.status());
    call.Finish(ToProto(*value));
  };
}

}  // namespace

grpc::ServerUnaryReactor* SchedulerService::ListJobs(grpc::CallbackServerContext* context,
                                                     const v1::ListJobsRequest* request,
                                                     v1::ListJobsResponse* response) {
  const auto list = [&](const server::UnaryCall<v1::ListJobsResponse>& call) {
    const wire::PageScope scope(*request);
    const absl::StatusOr<JobsQuery> query = JobsQueryFrom(scope.Unseal(*request));
    if (!query.ok()) return call.Finish(query.status());
    driver_.ListJobs(query->after, query->page_size,
                     [call, scope](const absl::StatusOr<scheduler::JobPage>& page) {
                       if (!page.ok()) return call.Finish(page.status());
                       call.Finish(scope.Seal(ListResponse(*page)));
                     });
  };
  return server::Unary(context, response, list);
}

grpc::ServerUnaryReactor* SchedulerService::GetJob(grpc::CallbackServerContext* context,
                                                   const v1::GetJobRequest* request,
                                                   v1::Job* response) {
  return server::Unary(context, response, [&](const server::UnaryCall<v1::Job>& call) {
    driver_.GetJob(request->name(), FinishWith<scheduler::JobDetail>(call));
  });
}

grpc::ServerUnaryReactor* SchedulerService::TriggerJob(grpc::CallbackServerContext* context,
                                                       const v1::TriggerJobRequest* request,
                                                       v1::TriggerJobResponse* response) {
  const auto trigger = [&](const server::UnaryCall<v1::TriggerJobResponse>& call) {
    driver_.Trigger(TriggerQueryFrom(*request, ports::NewName(random_)),
                    [call](const absl::StatusOr<scheduler::AcceptedTask>& accepted) {
                      if (!accepted.ok()) return call.Finish(accepted.status());
                      v1::TriggerJobResponse answer;
                      answer.set_queue_id(accepted->queue_id);
                      answer.set_deduplicated(accepted->deduplicated);
                      call.Finish(std::move(answer));
                    });
  };
  return server::Unary(context, response, trigger, kDirectorCallOptions);
}

grpc::ServerUnaryReactor* SchedulerService::PauseJob(grpc::CallbackServerContext* context,
                                                     const v1::PauseJobRequest* request,
                                                     v1::Job* response) {
  return server::Unary(context, response, [&](const server::UnaryCall<v1::Job>& call) {
    const absl::StatusOr<scheduler::Pause> pause = PauseFrom(*request, server::kIdentity);
    if (!pause.ok()) return call.Finish(pause.status());
    driver_.PauseJob(request->name(), *pause, FinishWith<scheduler::JobView>(call));
  });
}

grpc::ServerUnaryReactor* SchedulerService::ResumeJob(grpc::CallbackServerContext* context,
                                                      const v1::ResumeJobRequest* request,
                                                      v1::ResumeJobResponse* response) {
  const auto resume = [&](const server::UnaryCall<v1::ResumeJobResponse>& call) {
    driver_.ResumeJob(request->name(),
                      [call](const absl::StatusOr<scheduler::ResumeResult>& resumed) {
                        if (!resumed.ok()) return call.Finish(resumed.status());
                        v1::ResumeJobResponse answer;
                        *answer.mutable_job() = ToProto(resumed->view);
                        answer.set_skipped_count(resumed->skipped);
                        call.Finish(std::move(answer));
                      });
  };
  return server::Unary(context, response, resume);
}

grpc::ServerUnaryReactor* SchedulerService::PreviewJob(grpc::CallbackServerContext* context,
                                                       const v1::PreviewJobRequest* request,
                                                       v1::PreviewJobResponse* response) {
  const auto preview = [&](const server::UnaryCall<v1::PreviewJobResponse>& call) {
    const absl::StatusOr<scheduler::PreviewQuery> query =
        PreviewQueryFrom(*request, clock_.WallNow());
    if (!query.ok()) return call.Finish(query.status());
    const auto finish = FinishWith<scheduler::Preview>(call);
    if (query->job.empty()) return finish(PreviewSchedules(*request, *query));
    driver_.PreviewJob(*query, finish);
  };
  return server::Unary(context, response, preview);
}

grpc::ServerUnaryReactor* SchedulerService::BackfillJob(grpc::CallbackServerContext* context,
                                                        const v1::BackfillJobRequest* request,
                                                        v1::BackfillJobResponse* response) {
  const auto backfill = [&](const server::UnaryCall<v1::BackfillJobResponse>& call) {
    const absl::StatusOr<scheduler::BackfillQuery> query =
        BackfillQueryFrom(*request, ports::NewName(random_), server::kIdentity);
    if (!query.ok()) return call.Finish(query.status());
    driver_.StartBackfill(*query, FinishWith<scheduler::Backfill>(call));
  };
  return server::Unary(context, response, backfill);
}

grpc::ServerUnaryReactor* SchedulerService::ListFirings(grpc::CallbackServerContext* context,
                                                        const v1::ListFiringsRequest* request,
                                                        v1::ListFiringsResponse* response) {
  const auto list = [&](const server::UnaryCall<v1::ListFiringsResponse>& call) {
    const wire::PageScope scope(*request);
    const absl::StatusOr<scheduler::FiringQuery> query = FiringQueryFrom(scope.Unseal(*request));
    if (!query.ok()) return call.Finish(query.status());
    driver_.ListFirings(*query, [call, scope](const absl::StatusOr<scheduler::FiringPage>& page) {
      if (!page.ok()) return call.Finish(page.status());
      call.Finish(scope.Seal(ListResponse(*page)));
    });
  };
  return server::Unary(context, response, list);
}

grpc::ServerUnaryReactor* SchedulerService::GetSchedulerStatus(grpc::CallbackServerContext* context,
                                                               const v1::GetSchedulerStatusRequest*,
                                                               v1::SchedulerStatus* response) {
  const auto get = [this](const server::UnaryCall<v1::SchedulerStatus>& call) {
    driver_.GetStatus(
        [call, status = FileStatus()](const absl::StatusOr<scheduler::StatusView>& view) {
          if (!view.ok()) return call.Finish(view.status());
          call.Finish(MakeStatus(*view, status));
        });
  };
  return server::Unary(context, response, get);
}

v1::SchedulerStatus SchedulerService::FileStatus() const {
  v1::SchedulerStatus status;
  if (file_ == nullptr) return status;
  const config::JobsFile::State state = file_->state();
  status.set_jobs_file(file_->path());
  *status.mutable_jobs_file_read_at() = wire::ToProto(state.read_at);
  status.set_jobs_file_error(state.error);
  return status;
}

void SchedulerService::GetStatusPage(const server::ServerDefinition::StatusCallback& reply) {
  driver_.GetStatus([&driver = driver_, reply,
                     status = FileStatus()](const absl::StatusOr<scheduler::StatusView>& view) {
    if (!view.ok()) return reply(view.status());
    const std::string scheduler = wire::ToJson(MakeStatus(*view, status));
    driver.ListJobs(
        "", kJobsShownMax, [reply, scheduler](const absl::StatusOr<scheduler::JobPage>& page) {
          if (!page.ok()) return reply(page.status());
          reply(server::RenderStatusPage({"statusable", "observable"},
                                         {{"jobs", JobsJson(*page)}, {"scheduler", scheduler}}));
        });
  });
}

}  // namespace callboard
