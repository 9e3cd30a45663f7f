#ifndef CALLBOARD_SERVICES_SCHEDULER_SCHEDULER_SERVICE_H_
#define CALLBOARD_SERVICES_SCHEDULER_SCHEDULER_SERVICE_H_

#include <string>

#include "callboard/v1/scheduler.grpc.pb.h"
#include "libs/config/jobs_file.h"
#include "libs/ports/environment.h"
#include "libs/scheduler/driver.h"
#include "libs/server/server.h"

namespace callboard {

// The gRPC service of a scheduler. Translates calls for a SchedulerDriver. Thread-safe.
class SchedulerService final : public v1::SchedulerService::CallbackService {
 public:
  // All arguments outlive the service. `file` is null if the scheduler has no jobs file.
  SchedulerService(scheduler::SchedulerDriver& driver, const config::JobsFile* file,
                   const ports::Clock& clock, ports::Random& random)
      : driver_(driver), file_(file), clock_(clock), random_(random) {}

  grpc::ServerUnaryReactor* ListJobs(grpc::CallbackServerContext* context,
                                     const v1::ListJobsRequest* request,
                                     v1::ListJobsResponse* response) override;
  grpc::ServerUnaryReactor* GetJob(grpc::CallbackServerContext* context,
                                   const v1::GetJobRequest* request, v1::Job* response) override;
  grpc::ServerUnaryReactor* TriggerJob(grpc::CallbackServerContext* context,
                                       const v1::TriggerJobRequest* request,
                                       v1::TriggerJobResponse* response) override;
  grpc::ServerUnaryReactor* PauseJob(grpc::CallbackServerContext* context,
                                     const v1::PauseJobRequest* request,
                                     v1::Job* response) override;
  grpc::ServerUnaryReactor* ResumeJob(grpc::CallbackServerContext* context,
                                      const v1::ResumeJobRequest* request,
                                      v1::ResumeJobResponse* response) override;
  grpc::ServerUnaryReactor* PreviewJob(grpc::CallbackServerContext* context,
                                       const v1::PreviewJobRequest* request,
                                       v1::PreviewJobResponse* response) override;
  grpc::ServerUnaryReactor* BackfillJob(grpc::CallbackServerContext* context,
                                        const v1::BackfillJobRequest* request,
                                        v1::BackfillJobResponse* response) override;
  grpc::ServerUnaryReactor* ListFirings(grpc::CallbackServerContext* context,
                                        const v1::ListFiringsRequest* request,
                                        v1::ListFiringsResponse* response) override;
  grpc::ServerUnaryReactor* GetSchedulerStatus(grpc::CallbackServerContext* context,
                                               const v1::GetSchedulerStatusRequest* request,
                                               v1::SchedulerStatus* response) override;

  // Replies with the body of /status, which has the first thousand jobs.
  void GetStatusPage(const server::ServerDefinition::StatusCallback& reply);

 private:
  // Returns a status with the fields of the jobs file. Call this before the driver: the callbacks
  // of the driver may run after the file and this service are destroyed.
  v1::SchedulerStatus FileStatus() const;

  scheduler::SchedulerDriver& driver_;
  const config::JobsFile* const file_;
  const ports::Clock& clock_;
  ports::Random& random_;
};

}  // namespace callboard

#endif  // CALLBOARD_SERVICES_SCHEDULER_SCHEDULER_SERVICE_H_
