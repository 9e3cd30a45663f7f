// The gRPC service of the director's queue, and the helpers of its handlers.

#ifndef CALLBOARD_SERVICES_DIRECTOR_QUEUE_SERVICE_H_
#define CALLBOARD_SERVICES_DIRECTOR_QUEUE_SERVICE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "callboard/v1/queue.grpc.pb.h"
#include "callboard/v1/queue.pb.h"
#include "libs/base/error.h"
#include "libs/base/text.h"
#include "libs/core/ids.h"
#include "libs/director/driver.h"
#include "libs/director/observer.h"
#include "libs/ports/environment.h"
#include "libs/server/call.h"
#include "libs/server/stream_budget.h"
#include "libs/store/output_keeper.h"
#include "libs/wire/fields.h"

namespace callboard {

// Options of calls that may wait long: for a place in the queue, or for the disk.
inline constexpr server::UnaryOptions kLongWaitOptions = {.deadline_max = absl::Minutes(10)};

// Span name of a submit, for SubmitTask and for each item of SubmitTasks.
inline constexpr absl::string_view kSubmitMethod = "callboard.v1.QueueService/SubmitTask";

// Parses the field `queue_id` of a request.
inline absl::StatusOr<core::QueueId> QueueIdFrom(const std::string& text) {
  wire::FieldChecks checks;
  const core::QueueId id = wire::ReadRequiredQueueId(text, checks);
  RETURN_IF_ERROR(checks.status());
  return id;
}

// Longer names are cut in a SubmitOrigin: they are not validated yet.
inline constexpr size_t kOriginBytesMax = 128;

// Returns the origin of a submit, for the observer.
inline director::SubmitOrigin OriginOf(const v1::SubmitTaskRequest& request, absl::Time arrived,
                                       const core::SpanContext& trace) {
  return {.source = std::string(base::Utf8Prefix(request.source(), kOriginBytesMax)),
          .source_job = std::string(base::Utf8Prefix(request.source_job(), kOriginBytesMax)),
          .identity = server::kIdentity,
          .arrived = arrived,
          .trace = trace};
}

// Reports a submit that added no task: it was rejected, or its caller left while it waited for a
// place (CANCELLED).
inline void ReportRejectedSubmit(const absl::Status& why, const director::SubmitOrigin& origin,
                                 absl::Time now, director::Observer& observer) {
  if (!absl::IsCancelled(why)) return observer.OnReject(why, origin);
  observer.OnCancel({.phase = director::CancelPhase::kWaiting,
                     .who = origin.identity,
                     .at = now,
                     .origin = origin});
}

// Returns the answer to an accepted submit, without its task.
v1::SubmitTaskResponse SubmitResponse(const director::SubmitResult& submitted);

// v1::QueueService::CallbackService, except that SubmitTasks receives unparsed messages (see
// SubmitTasksCall).
struct QueueServiceMethods {
  using Base = v1::QueueService;
  using Service = Base::WithCallbackMethod_SubmitTask<Base::WithRawCallbackMethod_SubmitTasks<
      Base::WithCallbackMethod_ReserveSlot<Base::WithCallbackMethod_GetTask<
          Base::WithCallbackMethod_ListTasks<Base::WithCallbackMethod_ListSessions<
              Base::WithCallbackMethod_CancelTask<Base::WithCallbackMethod_WatchTasks<
                  Base::WithCallbackMethod_TailTaskLogs<Base::WithCallbackMethod_ListTaskEvents<
                      Base::WithCallbackMethod_ExplainTask<Base::WithCallbackMethod_RedriveTasks<
                          Base::WithCallbackMethod_GetQueueStatus<
                              Base::WithCallbackMethod_PauseQueue<
                                  Base::WithCallbackMethod_ResumeQueue<
                                      Base::WithCallbackMethod_DrainQueue<
                                          Base::WithCallbackMethod_KickDispatcher<
                                              Base::WithCallbackMethod_CreateCheckpoint<
                                                  Base::Service>>>>>>>>>>>>>>>>>>;
};

// QueueService on top of the director's driver: converts requests, calls the driver and converts
// the answers.
class QueueService final : public QueueServiceMethods::Service {
 public:
  // The arguments outlive the service.
  QueueService(director::DirectorDriver& driver, director::Observer& observer,
               store::OutputKeeper& outputs, const ports::Clock& clock,
               const server::CallTracer& tracer)
      : driver_(driver), observer_(observer), outputs_(outputs), clock_(clock), tracer_(tracer) {}

  grpc::ServerUnaryReactor* SubmitTask(grpc::CallbackServerContext* context,
                                       const v1::SubmitTaskRequest* request,
                                       v1::SubmitTaskResponse* response) override;
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* SubmitTasks(
      grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* ReserveSlot(grpc::CallbackServerContext* context,
                                        const v1::ReserveSlotRequest* request,
                                        v1::ReserveSlotResponse* response) override;
  grpc::ServerUnaryReactor* GetTask(grpc::CallbackServerContext* context,
                                    const v1::GetTaskRequest* request, v1::Task* response) override;
  grpc::ServerUnaryReactor* ListTasks(grpc::CallbackServerContext* context,
                                      const v1::ListTasksRequest* request,
                                      v1::ListTasksResponse* response) override;
  grpc::ServerUnaryReactor* ListSessions(grpc::CallbackServerContext* context,
                                         const v1::ListSessionsRequest* request,
                                         v1::ListSessionsResponse* response) override;
  grpc::ServerWriteReactor<v1::WatchTasksResponse>* WatchTasks(
      grpc::CallbackServerContext* context, const v1::WatchTasksRequest* request) override;
  grpc::ServerWriteReactor<v1::TailTaskLogsResponse>* TailTaskLogs(
      grpc::CallbackServerContext* context, const v1::TailTaskLogsRequest* request) override;
  grpc::ServerUnaryReactor* ListTaskEvents(grpc::CallbackServerContext* context,
                                           const v1::ListTaskEventsRequest* request,
                                           v1::ListTaskEventsResponse* response) override;
  grpc::ServerUnaryReactor* ExplainTask(grpc::CallbackServerContext* context,
                                        const v1::ExplainTaskRequest* request,
                                        v1::ExplainTaskResponse* response) override;
  grpc::ServerUnaryReactor* CancelTask(grpc::CallbackServerContext* context,
                                       const v1::CancelTaskRequest* request,
                                       v1::CancelTaskResponse* response) override;
  grpc::ServerUnaryReactor* RedriveTasks(grpc::CallbackServerContext* context,
                                         const v1::RedriveTasksRequest* request,
                                         v1::RedriveTasksResponse* response) override;
  grpc::ServerUnaryReactor* GetQueueStatus(grpc::CallbackServerContext* context,
                                           const v1::GetQueueStatusRequest* request,
                                           v1::QueueStatus* response) override;
  grpc::ServerUnaryReactor* PauseQueue(grpc::CallbackServerContext* context,
                                       const v1::PauseQueueRequest* request,
                                       v1::QueueStatus* response) override;
  grpc::ServerUnaryReactor* ResumeQueue(grpc::CallbackServerContext* context,
                                        const v1::ResumeQueueRequest* request,
                                        v1::QueueStatus* response) override;
  grpc::ServerUnaryReactor* DrainQueue(grpc::CallbackServerContext* context,
                                       const v1::DrainQueueRequest* request,
                                       v1::QueueStatus* response) override;
  grpc::ServerUnaryReactor* KickDispatcher(grpc::CallbackServerContext* context,
                                           const v1::KickDispatcherRequest* request,
                                           v1::KickDispatcherResponse* response) override;
  grpc::ServerUnaryReactor* CreateCheckpoint(grpc::CallbackServerContext* context,
                                             const v1::CreateCheckpointRequest* request,
                                             v1::CreateCheckpointResponse* response) override;

 private:
  // A method of the engine that changes the mode of the queue. It records who asked, and why.
  using SwitchCommand = void (director::DirectorEngine::*)(const std::string& who,
                                                           const std::string& why,
                                                           director::Moment);
  // Calls `command` and answers with the status of the queue after it.
  grpc::ServerUnaryReactor* SwitchQueue(grpc::CallbackServerContext* context,
                                        v1::QueueStatus* response, const std::string& why,
                                        SwitchCommand command);

  director::DirectorDriver& driver_;
  // Receives rejected submits.
  director::Observer& observer_;
  store::OutputKeeper& outputs_;
  const ports::Clock& clock_;
  const server::CallTracer& tracer_;
  // Shared by all streams.
  server::StreamBudget budget_{clock_};
};

}  // namespace callboard

#endif  // CALLBOARD_SERVICES_DIRECTOR_QUEUE_SERVICE_H_
